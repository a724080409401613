"""What a text says of software: words, and settings of frameworks with their values, by the table of `vocabulary`.

Words are separated by blanks, commas, semicolons or plus signs and may be of several parts (``float8 all-gather``);
settings are ``name=value``, behind the path of their configuration or not (``ddp.overlap_grad_reduce=True``). Remarks
in parentheses say nothing. Of two statements about the same thing the later one holds, as in configurations.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from evenflow.errors import InputError
from evenflow.fields import nearest
from evenflow.language import _
from evenflow.predict.recipes import BLOCKWISE, DELAYED, MXFP8, TENSORWISE
from evenflow.predict.training import Sharding, Software
from evenflow.predict.vocabulary import Aspect, SoftwareWord, known_words, normal, spellings

_NOTHING = "said-elsewhere"
SETTINGS: Mapping[str, Mapping[str, str]] = {
    "tp_comm_overlap": {"true": "overlap-tensor", "false": "no-overlap-tensor"},
    "overlap_grad_reduce": {"true": "overlap-gradients", "false": "no-overlap-gradients"},
    "overlap_param_gather": {"true": "overlap-parameters", "false": "no-overlap-parameters"},
    "overlap_p2p_comm": {"true": "overlap-pipeline", "false": "no-overlap-pipeline"},
    "overlap_moe_expert_parallel_comm": {"true": "overlap-experts", "false": "no-overlap-experts"},
    "moe_a2a_overlap": {"true": "overlap-experts", "false": _NOTHING},
    "moe_token_dispatcher_type": {"alltoall": "alltoall", "flex": "flex-dispatcher", "allgather": "not-priced"},
    "moe_flex_dispatcher_backend": {"deepep": "deepep", "hybridep": "hybridep"},
    "moe_enable_deepep": {"true": "deepep", "false": _NOTHING},
    "enable_cuda_graph": {"true": "cuda-graphs", "false": _NOTHING},
    "external_cuda_graph": {"true": "cuda-graphs", "false": _NOTHING},
    "full_cuda_graph": {"true": "cuda-graphs", "false": _NOTHING},
    "cuda_graph_impl": {
        "none": "no-cuda-graphs", "local": "cuda-graphs", "full_iteration": "cuda-graphs",
        "transformer_engine": "partial-cuda-graphs",
    },
    "fp8_recipe": {"delayed": DELAYED, "tensorwise": TENSORWISE, "blockwise": BLOCKWISE, "mxfp8": MXFP8},
    "grad_reduce_in_fp32": {"true": "fp32-gradients", "false": "bf16-gradients"},
    "fp8_param_gather": {"true": "fp8-gather", "false": "bf16-gather"},
    "use_tp_pp_dp_mapping": {"true": "data-outermost", "false": _NOTHING},
    "tp_pp_dp_mapping": {"true": "data-outermost", "false": _NOTHING},
    "cross_entropy_loss_fusion": {"true": "fused-loss", "false": "unfused-loss"},
    "use_distributed_optimizer": {"true": "zero-1", "false": _NOTHING},
}  # fmt: skip
"""Words by a setting of Megatron-LM, or of what is built on it, and its value."""
_OF_SETTINGS = {normal(name): {normal(value): word for value, word in of.items()} for name, of in SETTINGS.items()}
_OFF = ("false", "none", "null", "0", "off", "no")
_CALL = re.compile(r"[\w.]+=\w+\(")
"""A setting whose value is an object, which has settings itself."""
_REMARK = re.compile(r"\([^()]*\)")
_MOST_PARTS = 6
"""Words of the longest name."""
_CUT_OFF = 400
"""Characters at which tables of published runs cut a text off: its last word may not be whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StatedSoftware:
    """What a text says, one word for each aspect."""

    words: tuple[SoftwareWord, ...] = ()
    unpriced: tuple[str, ...] = ()
    """What is known but changes nothing that is predicted, as it was written."""
    has_settings: bool = False
    """Whether it has settings by their names in Megatron-LM."""

    def about(self, aspect: Aspect) -> SoftwareWord | None:
        """Return the word about one thing; None where nothing is said of it."""
        return next((word for word in self.words if word.aspect is aspect), None)

    @property
    def sharding(self) -> Sharding | None:
        """What is said to be sharded over copies."""
        word = self.about(Aspect.SHARDING)
        return word.sharding if word else None

    @property
    def data_outermost(self) -> bool:
        """Whether copies are said to lie furthest apart."""
        return self.about(Aspect.PLACEMENT) is not None

    def applied(self, usual: Software) -> Software:
        """Return software that does what is said, and otherwise what is usual."""
        for word in sorted(self.words, key=lambda word: word.aspect is not Aspect.BUNDLE):
            usual = replace(usual, **word.changes)
        return usual


def stated_software(text: str, *, place: str, also: Sequence[str] = ()) -> StatedSoftware:
    """Return what `text` says; `place` is for messages, which may propose a name from `also`.

    Raises:
        InputError: a word, or a value of a setting, that is not in the table.
    """
    by_aspect: dict[Aspect | str, SoftwareWord] = {}
    unpriced = []
    has_settings = False
    for part in _parts(text):
        name, equals, value = part.partition("=")
        try:
            word = _of_setting(name, value, place) if equals else _of_word(name, place, also)
        except InputError:
            if len(text) == _CUT_OFF and text.endswith(part):
                continue
            raise
        if word is not None:
            # All of what comes as a bundle holds together: Transformer Engine beside a compiler.
            key = word.name if word.aspect in (Aspect.BUNDLE, Aspect.NOTHING) else word.aspect
            by_aspect.pop(key, None)
            by_aspect[key] = word
            if not word.changes and word.sharding is None and not word.data_outermost:
                unpriced.append(part)
        has_settings = has_settings or (bool(equals) and normal(_last(name)) in _OF_SETTINGS)
    return StatedSoftware(words=tuple(by_aspect.values()), unpriced=tuple(unpriced), has_settings=has_settings)


def _parts(text: str) -> list[str]:
    """Return settings and words, those of several parts as one."""
    text = _REMARK.sub(" ", _CALL.sub(" ", text)).replace(")", " ")
    pieces = [piece.strip("'\"").lstrip("-") for piece in re.split(r"[\s,;+&]+", text)]
    pieces = [piece for piece in pieces if normal(piece)]
    parts, start = [], 0
    while start < len(pieces):
        counts = range(min(_MOST_PARTS, len(pieces) - start), 0, -1)
        whole = (count for count in counts if normal(" ".join(pieces[start : start + count])) in known_words())
        count = 1 if "=" in pieces[start] else next(whole, 1)
        parts.append(" ".join(pieces[start : start + count]))
        start += count
    return parts


def _last(path: str) -> str:
    return path.rpartition(".")[2]


def _of_setting(name: str, value: str, place: str) -> SoftwareWord | None:
    """Return what a setting with its value says; None where it says nothing."""
    key, value = normal(_last(name)), normal(value)
    if key in _OF_SETTINGS:
        choices = _OF_SETTINGS[key]
        if value not in choices and value in _OFF:
            return None
        if value not in choices:
            raise _unknown(value, place, _("must be a value of {name} that is known", name=_last(name)), choices)
        return known_words()[normal(choices[value])]
    word = known_words().get(key)
    if word is None:
        raise _unknown(name, place, _rule(), (*spellings(), *SETTINGS))
    return None if value in _OFF else word


def _of_word(name: str, place: str, also: Sequence[str]) -> SoftwareWord:
    words = known_words()
    key = normal(name) if normal(name) in words else normal(_last(name))
    if key in words:
        return words[key]
    if re.fullmatch(r"(fsdp|tp|pp|cp|ep|dp)[0-9]+|[0-9]+", key):  # a degree, such as FSDP 8
        return words[normal(_NOTHING)]
    raise _unknown(name, place, _rule(), (*also, *spellings()))


def _rule() -> str:
    return _("must be a word for what software does that is known")


def _unknown(value: str, place: str, rule: str, names: Iterable[str]) -> InputError:
    known = {normal(name): name for name in names}
    close = nearest(normal(value), known)
    remedy = _("did you mean {near!r}?", near=known[close]) if close else _("docs/software.md lists all")
    return InputError(value=value, rule=rule, place=place, remedy=remedy)
