"""What an init file says to plan for: the fields of `pipeline_config` that newer balancers read. [SAPP-PPB]"""

from dataclasses import dataclass
from pathlib import Path

from evenflow.fields import Fields, read_text
from evenflow.language import _
from evenflow.profiles.yaml_file import load_yaml, section
from evenflow.ranges import CHUNKS, LAYERS, MEGABYTES, MICROBATCHES, MILLISECONDS, RANKS, Range
from evenflow.units import bytes_from_megabytes, nanoseconds_from_milliseconds

PIPELINE = "pipeline_config"
PLANNING_KEYS = (
    "micro_batch_num", "num_of_interleave", "vpp_less_memory", "optimization_level", "memory_limit", "constant_memory",
    "enable_simulation", "sim_comm_time", "use_backward_time",
)  # fmt: skip
"""Fields of the pipeline that say what to plan for, beside the number of stages."""
_WORDS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}


@dataclass(frozen=True, slots=True, kw_only=True)
class InitPlanning:
    """What to plan for; a field that the file does not have is None."""

    file: str
    has_measurements: bool
    """Whether the file has dry runs to fit as well; one with nothing but `pipeline_config` has none."""
    stated: tuple[str, ...]
    """Names of the fields beside stages and layers that are there, as in the file."""
    num_layers: int | None
    num_stages: int | None
    num_microbatches: int | None
    num_chunks: int | None
    less_memory: bool | None
    optimization_level: int | None
    memory_limit_bytes: int | None
    """None also for 0, which is the format's word for none."""
    constant_bytes: int | None
    """None also for 0, the format's default."""
    message_ns: int | None
    """Time of a message between neighbouring stages; None also for 0."""
    enable_simulation: bool | None
    use_backward_time: bool | None


def read_init_planning(path: Path | str) -> InitPlanning:
    """Return what the init file at `path` says to plan for; its measurements are not read.

    Raises:
        InputError: a file that cannot be read, or a field of a wrong form or out of range.
    """
    top = load_yaml(read_text(path), file=str(path))
    return planning_of(top)


def planning_of(top: Fields) -> InitPlanning:
    """Return what to plan for of a decoded init file; raises InputError as `read_init_planning` does."""
    fields = section(top, PIPELINE)
    fields.check_known(("pipeline_num", "num_layer", "offset", *PLANNING_KEYS))

    def count(key: str, within: Range) -> int | None:
        return fields.integer(key, within) if key in fields else None

    def amount(key: str, within: Range) -> float | None:
        return (fields.number(key, within) or None) if key in fields else None

    limit, constant = amount("memory_limit", MEGABYTES), amount("constant_memory", MEGABYTES)
    message, level = amount("sim_comm_time", MILLISECONDS), count("optimization_level", Range(least=0, most=2))
    return InitPlanning(
        file=top.file,
        has_measurements=list(top.values) != [PIPELINE],
        stated=tuple(key for key in PLANNING_KEYS if key in fields),
        num_layers=count("num_layer", LAYERS),
        num_stages=count("pipeline_num", RANKS),
        num_microbatches=count("micro_batch_num", MICROBATCHES),
        num_chunks=count("num_of_interleave", CHUNKS),
        less_memory=_flag(fields, "vpp_less_memory"),
        optimization_level=level,
        memory_limit_bytes=None if limit is None else bytes_from_megabytes(limit),
        constant_bytes=None if constant is None else bytes_from_megabytes(constant),
        message_ns=None if message is None else nanoseconds_from_milliseconds(message),
        enable_simulation=_flag(fields, "enable_simulation"),
        use_backward_time=_flag(fields, "use_backward_time"),
    )


def _flag(fields: Fields, key: str) -> bool | None:
    """Return true or false, also written as 1, 0, yes or no, as the original takes them."""
    if key not in fields:
        return None
    value = _WORDS.get(str(fields.values[key]).lower())
    if value is None:
        raise fields.error(key, _("must be true or false"))
    return value
