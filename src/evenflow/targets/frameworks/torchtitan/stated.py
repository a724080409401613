"""What settings of torchtitan say of the degrees of a training."""

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.predict.training import Sharding
from evenflow.profiles.yaml_file import optional_section
from evenflow.ranges import DEVICES, Range
from evenflow.targets.frameworks.torchtitan.settings_file import counts_tokens, settings_of_file
from evenflow.targets.stated_degrees import StatedDegrees, whole_numbers

_COPIES, _SHARDS = "data_parallel_replicate_degree", "data_parallel_shard_degree"
_RESHARD = "fsdp_reshard_after_forward"
_MICROBATCH = "pipeline_parallel_microbatch_size"
_TOKENS, _WHOLE = "num_tokens_per_microbatch_per_dp_rank", "num_tokens_per_train_step"
_NUMBER = Range(least=1, most=10**15)
_LEFT = (None, -1)
"""Of shards, all devices that are left; of the batch of a step, one of every rank."""


def stated_in_settings(text: str, file: str) -> StatedDegrees:
    """Return the degrees in a TOML file or a saved configuration; what is absent is torchtitan's default.

    Raises:
        InputError: text that is neither, or a value that torchtitan refuses.
    """
    top = settings_of_file(text, file)
    parallelism, training = optional_section(top, "parallelism"), optional_section(top, "training")
    numbers, places = whole_numbers(
        {
            "tensor": (parallelism, "tensor_parallel_degree"),
            "context": (parallelism, "context_parallel_degree"),
            "expert": (parallelism, "expert_parallel_degree"),
            "expert_tensor": (parallelism, "expert_tensor_parallel_degree"),
            "pipeline": (parallelism, "pipeline_parallel_degree"),
            "sequence": (training, "seq_len"),
            "rank_batch": (training, "local_batch_size"),
        }
    )
    numbers = {"tensor": 1, "context": 1, "expert": 1, "pipeline": 1, "sequence": 2048, "rank_batch": 8} | numbers
    if counts_tokens(top):
        numbers, places = _of_tokens(training, parallelism, numbers, places)
    elif training.values.get("global_batch_size") not in _LEFT:
        found, place = whole_numbers({"global_batch": (training, "global_batch_size")})
        numbers, places = numbers | found, places | place
    if counts_tokens(top):
        microbatch = numbers.pop("microbatch")
    elif numbers["pipeline"] == 1:
        microbatch = numbers["rank_batch"]
    else:
        microbatch = whole_numbers({"microbatch": (parallelism, _MICROBATCH)})[0].get("microbatch", 1)
    copies = whole_numbers({"data": (parallelism, _COPIES)})[0].get("data", 1)
    shards = None
    if parallelism.values.get(_SHARDS) not in _LEFT:
        shards = parallelism.integer(_SHARDS, DEVICES)
    return StatedDegrees(
        tensor=numbers["tensor"],
        context=numbers["context"],
        expert=numbers["expert"],
        expert_tensor=numbers.get("expert_tensor"),
        pipeline=numbers["pipeline"],
        data=None if shards is None else copies * shards,
        sharding=_sharding(parallelism, shards, context=numbers["context"], pipeline=numbers["pipeline"]),
        sequence_parallel="enable_sequence_parallel" not in parallelism or parallelism.flag("enable_sequence_parallel"),
        microbatch=microbatch,
        global_batch=numbers.get("global_batch"),
        rank_batch=numbers["rank_batch"],
        sequence=numbers["sequence"],
        places=places | {"data": parallelism.place(_SHARDS)},
        notes=(_("state is taken to be shared out over all copies"),) if copies > 1 and shards != 1 else (),
    )


def _of_tokens(
    training: Fields, parallelism: Fields, numbers: dict[str, int], places: dict[str, str]
) -> tuple[dict[str, int], dict[str, str]]:
    """Return the numbers with the sizes of batches where these are counted in tokens; they are whole sequences."""
    told = {"sequence": (training, "max_context_length"), "number": (parallelism, "num_pp_microbatches")}
    batch, batch_places = whole_numbers(told)
    sequence, number = batch.get("sequence", 2048), batch.get("number", 1)

    def sequences(key: str, usual: int) -> int:
        tokens = training.integer(key, _NUMBER) if training.values.get(key) not in _LEFT else usual
        if tokens % sequence:
            rule = _("must be a multiple of the {tokens} tokens of a sequence", tokens=sequence)
            raise InputError(value=tokens, rule=rule, place=training.place(key))
        return tokens // sequence

    microbatch = sequences(_TOKENS, 16384)
    rank_batch = microbatch * (number if numbers["pipeline"] > 1 else 1)
    whole = {} if training.values.get(_WHOLE) in _LEFT else {"global_batch": sequences(_WHOLE, 0)}
    sizes = {"sequence": sequence, "microbatch": microbatch, "rank_batch": rank_batch, **whole}
    own = {"sequence": batch_places.get("sequence", ""), "global_batch": training.place(_WHOLE)}
    return numbers | sizes, places | {name: place for name, place in own.items() if place and name in sizes}


def _sharding(parallelism: Fields, shards: int | None, *, context: int, pipeline: int) -> Sharding:
    """Return what FSDP shares out: parameters too, unless it keeps them after the forward, as beside a pipeline."""
    if shards == 1 and context == 1:
        return Sharding.NOTHING
    policy = parallelism.values.get(_RESHARD, "default")
    if policy not in ("default", "always", "never"):
        raise InputError(value=policy, rule=_("must be default, always or never"), place=parallelism.place(_RESHARD))
    keeps = policy == "never" or (policy == "default" and pipeline > 1)
    return Sharding.GRADIENTS if keeps else Sharding.PARAMETERS
