"""What arguments of Megatron-LM say of the degrees of a training."""

from collections.abc import Mapping

from evenflow.predict.training import Sharding
from evenflow.ranges import DEVICES, RANKS, SEQUENCES, TOKENS, Range
from evenflow.targets.megatron_family.arguments import OF_DEGREES, Arguments
from evenflow.targets.megatron_family.baseline import run_arguments
from evenflow.targets.megatron_family.degrees.degree_settings import EXCHANGES, FULLY_SHARED
from evenflow.targets.stated_degrees import StatedDegrees

_NUMBERS: Mapping[str, tuple[str, Range]] = {
    "tensor": ("tensor_model_parallel_size", DEVICES),
    "context": ("context_parallel_size", DEVICES),
    "expert": ("expert_model_parallel_size", DEVICES),
    "expert_tensor": ("expert_tensor_parallel_size", DEVICES),
    "pipeline": ("pipeline_model_parallel_size", RANKS),
    "data": ("data_parallel_size", DEVICES),
    "devices": ("world_size", DEVICES),
    "microbatch": ("micro_batch_size", SEQUENCES),
    "global_batch": ("global_batch_size", SEQUENCES),
    "sequence": ("seq_length", TOKENS),
}
_ABSENT = {"tensor": 1, "context": 1, "expert": 1, "pipeline": 1}
"""What Megatron-LM runs without the argument."""
_SHARED, _FSDP, _TORCH_FSDP = "use_distributed_optimizer", "use_megatron_fsdp", "use_torch_fsdp2"
_ON_HOST = "optimizer_cpu_offload"
"""What keeps state on the host, whose rates no file tells."""
_STRATEGY, _EXCHANGE = "data_parallel_sharding_strategy", "cp_comm_type"
_STRATEGIES: Mapping[str, Sharding] = {
    "no_shard": Sharding.NOTHING,
    "optim": Sharding.OPTIMIZER,
    **{name: sharding for sharding, name in FULLY_SHARED.items()},
}


def stated_in_run(text: str, file: str) -> StatedDegrees:
    """Return the degrees of a training script, of a file with flags, or of the arguments that a run printed.

    Raises:
        InputError: as `shell_arguments` and `stated_degrees` do.
    """
    return stated_degrees(run_arguments(text, file, known=OF_DEGREES))


def stated_degrees(arguments: Arguments, *, has_recipe: bool = False) -> StatedDegrees:
    """Return the degrees in arguments; with a recipe, what is absent may be anything.

    Raises:
        InputError: a value that Megatron-LM refuses, or that only a run knows.
    """
    arguments.num_ranks()  # a size that a condition decides is not one
    numbers = {name: arguments.integer(key, within) for name, (key, within) in _NUMBERS.items()}
    if not has_recipe:
        numbers |= {name: value for name, value in _ABSENT.items() if numbers[name] is None}
        numbers["expert_tensor"] = numbers["expert_tensor"] or numbers["tensor"]
    each = arguments.integer("nproc_per_node", DEVICES)
    if numbers["devices"] is None and each is not None:
        numbers["devices"] = (arguments.integer("nnodes", DEVICES) or 1) * each
    exchange = arguments.choice(_EXCHANGE, tuple(EXCHANGES.values()))
    words = {word: name for name, word in EXCHANGES.items()}
    has_switch = "sequence_parallel" in arguments.values or not has_recipe
    return StatedDegrees(
        tensor=numbers["tensor"],
        context=numbers["context"],
        expert=numbers["expert"],
        expert_tensor=numbers["expert_tensor"],
        pipeline=numbers["pipeline"],
        data=numbers["data"],
        devices=numbers["devices"],
        microbatch=numbers["microbatch"],
        global_batch=numbers["global_batch"],
        sequence=numbers["sequence"],
        sharding=_sharding(arguments, has_recipe=has_recipe),
        sequence_parallel=arguments.switch("sequence_parallel") if has_switch else None,
        context_exchange=None if exchange is None else words[exchange],
        unknown=(arguments.place(_ON_HOST),) if arguments.switch(_ON_HOST) else (),
        places={name: arguments.place(key) for name, (key, _within) in _NUMBERS.items() if key in arguments.values},
    )


def _sharding(arguments: Arguments, *, has_recipe: bool) -> Sharding | None:
    if arguments.switch(_TORCH_FSDP):
        return Sharding.PARAMETERS
    if arguments.switch(_FSDP):
        strategy = arguments.choice(_STRATEGY, tuple(_STRATEGIES))
        return _STRATEGIES[strategy or "no_shard"]
    if _SHARED not in arguments.values and has_recipe:
        return None
    return Sharding.OPTIMIZER if arguments.switch(_SHARED) else Sharding.NOTHING
