"""The two sections of an init file that say how long layers take: given times, or where the timelines are."""

from dataclasses import dataclass

from evenflow.fields import Fields
from evenflow.language import _
from evenflow.profiles.layer_entry import plain_backward_ns
from evenflow.profiles.yaml_file import section
from evenflow.ranges import MICROBATCHES, MILLISECONDS
from evenflow.units import nanoseconds_from_milliseconds

TIMES, PROFILING = "time_config", "profiling_config"
_LLAMA = {
    "head_layers": ("LlamaEmbedding",),
    "body_layers": ("LLamaDecodeLayer",),
    "tail_layers": ("lm_head-Linear", "LlamaRMSNorm"),
}
"""Names of layers where the file gives none. [SAPP guide, Step 3]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class PassTimes:
    """Times of one layer, or of the whole head or tail, for one microbatch."""

    name: str
    forward_ns: int
    backward_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerTimes:
    """Times of the head, of one body layer, and of the tail."""

    head: PassTimes
    body: PassTimes
    tail: PassTimes


@dataclass(frozen=True, slots=True, kw_only=True)
class Profiling:
    """Where the timelines of some stages are, and the names of the layers in them."""

    folder: str
    num_microbatches: int
    head_layers: tuple[str, ...]
    body_layers: tuple[str, ...]
    tail_layers: tuple[str, ...]
    place: str
    """Place of the section, for messages."""


def read_times(top: Fields) -> LayerTimes | None:
    """Return the forward times of `time_config` with the plain backward; None where the section is absent."""
    if TIMES not in top:
        return None
    fields = section(top, TIMES)
    fields.check_known(("head", "body", "tail"))

    def part(key: str, *, above_zero: bool = False) -> PassTimes:
        forward_ns = nanoseconds_from_milliseconds(fields.number(key, MILLISECONDS, above_zero=above_zero))
        if above_zero and not forward_ns:
            raise fields.error(key, _("must be a nanosecond or more, in milliseconds"))
        names = _names(section(top, PROFILING), f"{key}_layers") if PROFILING in top else _LLAMA[f"{key}_layers"]
        return PassTimes(name=" + ".join(names), forward_ns=forward_ns, backward_ns=plain_backward_ns(forward_ns))

    return LayerTimes(head=part("head"), body=part("body", above_zero=True), tail=part("tail"))


def read_profiling(top: Fields) -> Profiling | None:
    """Return where the timelines are and what to look for in them; None where the section is absent."""
    if PROFILING not in top:
        return None
    fields = section(top, PROFILING)
    fields.check_known(("micro_batch_num", "folder_path", *_LLAMA))
    head, body, tail = (_names(fields, key) for key in _LLAMA)
    return Profiling(
        folder=fields.text("folder_path"),
        num_microbatches=fields.integer("micro_batch_num", MICROBATCHES),
        head_layers=head,
        body_layers=body,
        tail_layers=tail,
        place=top.place(PROFILING),
    )


def _names(fields: Fields, key: str) -> tuple[str, ...]:
    """Return one name or several."""
    value = fields.values.get(key)
    if value is None:
        return _LLAMA[key]
    names = [value] if isinstance(value, str) else value
    if not isinstance(names, list) or not names or not all(isinstance(name, str) and name.strip() for name in names):
        raise fields.error(key, _("must be a name or a list of names"))
    if len(set(names)) < len(names):
        raise fields.error(key, _("must have every name once"))
    return tuple(names)
