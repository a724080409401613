"""The arguments of Megatron-LM by name: which are read, which concern the pipeline, and how they are printed."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.logs.log_lines import PRINTED
from evenflow.ranges import PART, RANKS, Range

ALIASES: Mapping[str, str] = {
    "microbatch_group_size_per_virtual_pipeline_stage": "microbatch_group_size_per_vp_stage",
    "num_layers_in_first_pipeline_stage": "decoder_first_pipeline_num_layers",
    "num_layers_in_last_pipeline_stage": "decoder_last_pipeline_num_layers",
    "encoder_num_layers": "num_layers",
    "num_nodes": "nnodes",
    "num_gpus": "nproc_per_node",
}
"""Names under which Megatron-LM keeps a flag or a field of its configuration, and torchrun the flags of DeepSpeed's
launcher.
"""
PIPELINE_SIZE = "pipeline_model_parallel_size"
SWITCHES = {
    "account_for_embedding_in_pipeline_split",
    "account_for_loss_in_pipeline_split",
    "recompute_activations",
    "distribute_saved_activations",
    "checkpoint_activations",
    "distribute_checkpointed_activations",
    "deepspeed_activation_checkpointing",
    "no_pipeline_parallel",
    "untie_embeddings_and_output_weights",
    "fine_grained_activation_offloading",
    "overlap_moe_expert_parallel_comm",
    "delay_wgrad_compute",
    "moe_fb_overlap",
    "ep_overlap_early_attn_memory_release",
    "moe_shared_expert_overlap",
}
"""Arguments that are flags without a value."""
_INTEGERS = {
    "num_layers",
    "mtp_num_layers",
    "pipeline_model_parallel_size",
    "virtual_pipeline_model_parallel_size",
    "tensor_model_parallel_size",
    "context_parallel_size",
    "data_parallel_size",
    "world_size",
    "nnodes",
    "nproc_per_node",
    "micro_batch_size",
    "global_batch_size",
    "num_layers_per_virtual_pipeline_stage",
    "num_virtual_stages_per_pipeline_rank",
    "decoder_first_pipeline_num_layers",
    "decoder_last_pipeline_num_layers",
    "microbatch_group_size_per_vp_stage",
    "recompute_num_layers",
    "checkpoint_num_layers",
    "activations_checkpoint_num_layers",
    "delta_offload_bytes_across_pp_ranks",
    "expert_model_parallel_size",
}
_TEXTS = {
    "moe_token_dispatcher_type",
    "pipeline_model_parallel_layout",
    "recompute_granularity",
    "recompute_method",
    "activations_checkpoint_method",
}
_SHARES = {"activation_offload_fraction"}
_PLAN_LISTS = {"recompute_modules", "offload_modules", "rampup_batch_size"}
LISTS = _PLAN_LISTS | {"num_experts"}
"""Arguments with any number of values."""
KNOWN = frozenset(SWITCHES | _INTEGERS | _SHARES | _TEXTS | _PLAN_LISTS)
"""Arguments that are read."""
DEGREE_SWITCHES = {
    "sequence_parallel",
    "use_distributed_optimizer",
    "use_megatron_fsdp",
    "use_torch_fsdp2",
    "optimizer_cpu_offload",
}
_DEGREE_INTEGERS = {"expert_tensor_parallel_size", "seq_length"}
OF_DEGREES = KNOWN | DEGREE_SWITCHES | _DEGREE_INTEGERS | {"data_parallel_sharding_strategy", "cp_comm_type"}
"""Arguments that are read for degrees and the batch too."""
_DEEPSPEED_SWITCHES, _DEEPSPEED_INTEGERS = {"fp16", "bf16"}, {"ds_sequence_parallel_size"}
OF_DEEPSPEED = (
    KNOWN
    | _DEEPSPEED_SWITCHES
    | _DEEPSPEED_INTEGERS
    | {"pp_partition_method", "deepspeed_config", "normalization", "num_experts"}
)
"""Arguments that are read where DeepSpeed runs the pipeline."""
_ALL_SWITCHES = SWITCHES | DEGREE_SWITCHES | _DEEPSPEED_SWITCHES
_ALL_INTEGERS = _INTEGERS | _DEGREE_INTEGERS | _DEEPSPEED_INTEGERS
_RELEVANT = re.compile(
    r"pipeline|virtual|vpp|recompute|microbatch|micro_batches|layer_split|layer_list|noop_layers|layers_per_stage"
    r"|checkpoint(ed)?_activations|activations_checkpoint|hybrid.*pattern|decoder_num_layers|embedding_stage|delta_offload|cpu_offloading"
    r"|overlap_dispatch_backward|schedules_method|zero_bubble"
)
"""Names that have to do with the pipeline or with activations."""
_HARMLESS = re.compile(
    r"pipeline_model_parallel_comm_backend|transformer_pipeline_model_parallel_size|pipeline_dtype"
    r"|(no_)?scatter_gather_tensors_in_pipeline|deallocate_pipeline_outputs|use_ring_exchange_p2p"
    r"|cpu_offloading_(?!num_layers)\w+|(inference|rl|eval)_\w+"
)
"""Names that match, but decide neither the cut, nor the order, nor recomputation of the training."""
_OFF = ("None", "False", "0", "0.0", "[]", "")
_INTEGER = re.compile(r"-?[0-9]{1,15}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """Arguments by the names under which Megatron-LM keeps them; those that are None or not given are left out."""

    values: Mapping[str, object]
    """Decoded where possible; what only a run knows is the text of the script, such as ``$LAYERS``."""
    file: str
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of each argument, where known."""
    unknown: tuple[str, ...] = ()
    """What has to do with the pipeline or with activations and is not understood, with its place."""
    undecided: Mapping[str, str] = field(default_factory=dict)
    """Words of the flags that are set in a condition alone, which only a run decides."""

    def num_ranks(self, given: int | None = None) -> int:
        """Return the pipeline ranks: those that are set, else those `given` by the user, else 1 without any flag.

        Raises:
            InputError: they are set in a condition, or are no number of ranks, and none are given.
        """
        words = self.undecided.get(PIPELINE_SIZE)
        if words is not None and PIPELINE_SIZE not in self.values:
            if given is None:
                raise InputError(
                    value=words,
                    rule=_("must have a value that does not depend on a condition"),
                    place=self.place(PIPELINE_SIZE),
                    remedy=_("write the flag outside of the condition, or give the ranks"),
                )
            return given
        return self.integer(PIPELINE_SIZE, RANKS) or given or 1

    def place(self, key: str) -> str:
        """File, line where known, and argument, for messages."""
        return f"{line_place(self.file, self.lines.get(key))}: {key}"

    def error(self, key: str, rule: str, *, remedy: str = "") -> InputError:
        """Return the refusal of an argument, for the caller to raise."""
        value = self.values.get(key)
        if isinstance(value, str) and ("$" in value or "`" in value):
            remedy = _("write its value in place of the variable, or give it with --set or --args")
        return InputError(value=value, rule=rule, place=self.place(key), remedy=remedy)

    def integer(self, key: str, within: Range) -> int | None:
        """Return an integer of a range; None where the argument is not given."""
        value = self.values.get(key)
        if value is None:
            return None
        if value not in within:
            raise self.error(key, within.rule)
        assert isinstance(value, int)
        return value

    def switch(self, key: str) -> bool:
        """Return whether a switch is on; off where it is not given."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.error(key, _("must be true or false"))
        return value

    def share(self, key: str) -> float | None:
        """Return a part of a whole; None where the argument is not given."""
        value = self.values.get(key)
        if value is None:
            return None
        try:
            share = float(str(value))
        except ValueError:
            share = -1.0
        if share not in PART:
            raise self.error(key, PART.rule)
        return share

    def choice(self, key: str, choices: Sequence[str]) -> str | None:
        """Return one of some words; None where the argument is not given."""
        value = self.values.get(key)
        if value is not None and value not in choices:
            raise self.error(key, _("must be one of {names}", names=", ".join(choices)))
        return None if value is None else str(value)

    def texts(self, key: str) -> tuple[str, ...] | None:
        """Return a list of words; None where the argument is not given."""
        value = self.values.get(key)
        if value is None:
            return None
        if (
            not isinstance(value, Sequence)
            or isinstance(value, str)
            or not all(isinstance(item, str) for item in value)
        ):
            raise self.error(key, _("must be a list of texts"))
        return tuple(value)


def line_place(file: str, line: int | None) -> str:
    """Return the name of a file, with the line where it is known."""
    return file if line is None else _("{file}, line {line}", file=file, line=line)


def flag_name(key: str) -> str:
    """Return the flag of an argument.

    >>> flag_name("checkpoint_activations")
    '--checkpoint-activations'
    """
    return f"--{key.replace('_', '-')}"


def is_relevant(key: str) -> bool:
    """Return whether an argument has to do with the pipeline or with activations, by its name."""
    return key in KNOWN or (bool(_RELEVANT.search(key)) and not _HARMLESS.fullmatch(key))


def decoded(key: str, texts: Sequence[str]) -> object:
    """Return the value of a known argument from the texts behind its flag; a text where it cannot be decoded.

    Words behind the value of another argument are not its own.
    """
    if key in LISTS:
        return [text for each in texts for text in each.split()]
    if key in _ALL_SWITCHES:
        return True
    text = texts[0] if texts else ""
    return int(text) if key in _ALL_INTEGERS and _INTEGER.fullmatch(text) else text


def arguments_of(
    values: Mapping[str, object],
    *,
    file: str,
    lines: Mapping[str, int] | None = None,
    known: frozenset[str] = KNOWN,
) -> Arguments:
    """Return the arguments among decoded fields, such as those of a YAML file; others are ignored or named.

    The names are those under which Megatron-LM keeps its flags, such as ``num_layers``, or those of its configuration.
    """
    named = {ALIASES.get(key, key): value for key, value in values.items()}
    numbers = {ALIASES.get(key, key): line for key, line in (lines or {}).items()}
    unknown = tuple(
        f"{line_place(file, numbers.get(key))}: {key}"
        for key, value in named.items()
        if key not in known and is_relevant(key) and str(value) not in _OFF
    )
    kept = {key: value for key, value in named.items() if key in known and value is not None}
    return Arguments(values=kept, file=file, lines=numbers, unknown=unknown)


def is_printed(text: str) -> bool:
    """Return whether a text has arguments as Megatron-LM prints them: ``  num_layers ........ 32``."""
    return any(printed[1] == "pipeline_model_parallel_size" for printed in PRINTED.finditer(text))


def printed_arguments(text: str, *, file: str, known: frozenset[str] = KNOWN) -> Arguments:
    """Return the arguments that a run printed when it started; of several runs in one log, those of the last."""
    values: dict[str, object] = {}
    lines: dict[str, int] = {}
    line, position = 1, 0
    for printed in PRINTED.finditer(text):
        line += text.count("\n", position, printed.start())
        position = printed.start()
        key, value = ALIASES.get(printed[1], printed[1]), printed[2].strip()
        lines[key] = line
        if key in LISTS:
            values[key] = None if value == "None" else re.findall(r"[\w.-]+", value)
        elif value in ("True", "False"):
            values[key] = value == "True"
        else:
            values[key] = None if value == "None" else decoded(key, [value]) if key in known else value
    return arguments_of(values, file=file, lines=lines, known=known)
