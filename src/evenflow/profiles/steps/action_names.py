"""How programs name the actions of a pipeline in their traces, from names that say all to names that say little.

    PP:2F3, 2F3             torch.distributed.pipelining: stage, operation, microbatch
    Forward 3, Backward 3   the same; the stage is that of the trace
    F3, B3, W3, F3.1        zero-bubble schedules, `evenflow … --trace`: microbatch, chunk
    forward_step, …         calls of Megatron-LM and DeepSpeed in a trace with stacks, spans of OpenTelemetry, words
    attn(F), mlp(B), …      DualPipe: pieces of a forward and of a backward, within a range of both

What a name leaves out is counted (see `counted`).
"""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from evenflow.errors import InputError
from evenflow.language import _, to_translate
from evenflow.profiles.steps.pipelining_calls import is_call
from evenflow.profiles.traces.formats.scope_rows import NUMBERED
from evenflow.profiles.traces.names import BODY, LayerNames, Match, NameMatcher
from evenflow.schedule import Op

PATTERN_OPTION = "--actions"
_GROUPS = ("op", "microbatch", "chunk", "stage", "rank")
_OPS = {
    "f": Op.F, "fwd": Op.F, "forward": Op.F,
    "b": Op.B, "bwd": Op.B, "backward": Op.B,
    "i": Op.I, "input": Op.I,
    "w": Op.W, "wgrad": Op.W, "weight": Op.W,
}  # fmt: skip
_PASSES = {"Default": Op.F, "Gradients": Op.B}
_MOST_NUMBER = 10**6
OPTIMIZER = re.compile(r"Optimizer\.(?:step|zero_grad)#.*")
"""Ranges that PyTorch makes itself; their work is of no action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionName:
    """What a name says of an action; None: it does not say that."""

    op: Op
    microbatch: int | None = None
    chunk: int | None = None
    stage: int | None = None
    rank: int | None = None
    is_piece: bool = False
    """Whether the range is a piece of the action."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Naming:
    """One way to name actions."""

    title: str
    """What it is, to be looked up in the language of the reader."""
    read: Callable[[str], ActionName | None]
    """What a name of a range says; None for the name of anything else."""


def _by(pattern: str, flags: re.RegexFlag = re.NOFLAG) -> Callable[[str], ActionName | None]:
    compiled = re.compile(pattern, flags | re.ASCII)

    def read(name: str) -> ActionName | None:
        match = compiled.fullmatch(name)
        return None if match is None else _name_of(match)

    return read


def _passes(name: str) -> ActionName | None:
    op = _PASSES.get(name)
    return None if op is None else ActionName(op=op)


def _pieces(name: str) -> ActionName | None:
    piece = _PIECE(name)
    return None if piece is None else replace(piece, is_piece=True)


READ_NUMBERED = _by(r"(?P<op>Forward|Backward) (?P<microbatch>\d{1,6})")
"""What a range such as ``Forward 3`` says."""
_PIECE = _by(r"\w{1,40} ?\((?P<op>[FBIW])\)")

_MEGATRON = r"(?:.*/)?megatron/(?:core/)?(?:pipeline_parallel/)?schedules\.py\(\d+\): (?P<op>forward|backward)_step"
_WORD = (
    r"[\W_]*(?P<op>forward|backward|fwd|bwd)(?:[ _-]?(?:step|pass|compute))?"
    r"(?:[ _#:-]*(?P<microbatch>\d{1,6}))?[\W_]*"
)

NAMINGS = (
    Naming(
        title=to_translate("ranges such as PP:2F3"),
        read=_by(r"(?:PP:)?(?P<stage>\d{1,4})(?P<op>[FBIW])(?P<microbatch>\d{1,6})"),
    ),
    Naming(title=to_translate("ranges such as Forward 3"), read=READ_NUMBERED),
    Naming(
        title=to_translate("ranges such as F3"),
        read=_by(r"(?P<op>[FBIW])_?(?P<microbatch>\d{1,6})(?:(?: chunk |[._])(?P<chunk>\d{1,3}))?(?:\.0)?"),
    ),
    Naming(title=to_translate("calls of forward_step and backward_step of Megatron-LM"), read=_by(_MEGATRON)),
    Naming(
        title=to_translate("calls of _exec_forward_pass and _exec_backward_pass of DeepSpeed"),
        read=_by(r"(?:.*/)?deepspeed/runtime/pipe/engine\.py\(\d+\): _exec_(?P<op>forward|backward)_pass"),
    ),
    Naming(
        title=to_translate("spans such as megatron.microbatch.forward"),
        read=_by(r"megatron\.microbatch\.(?P<op>forward|backward)"),
    ),
    Naming(title=to_translate("scopes Default and Gradients of MindSpore"), read=_passes),
    Naming(title=to_translate("ranges named forward and backward"), read=_by(_WORD, re.IGNORECASE)),
    Naming(title=to_translate("pieces such as attn(F) and mlp(B)"), read=_pieces),
)
"""What is tried, the surest first."""


def naming_of_pattern(pattern: str) -> Naming:
    """Return the way to name actions that a regular expression of a user describes, by its named groups.

    Raises:
        InputError: no regular expression, one without a group ``op``, or with a group that means nothing.
    """
    try:
        compiled = re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise InputError(
            value=pattern,
            rule=_("must be a regular expression of Python ({error})", error=error),
            place=PATTERN_OPTION,
        ) from None
    names = set(compiled.groupindex)
    if "op" not in names or not names <= set(_GROUPS):
        raise InputError(
            value=pattern,
            rule=_(
                "must have the group (?P<op>…), and may have the groups {groups}, but no others",
                groups=", ".join(_GROUPS[1:]),
            ),
            place=PATTERN_OPTION,
            remedy=_("write (?P<op>F|B)(?P<microbatch>[0-9]+), for example"),
        )

    def read(name: str) -> ActionName | None:
        match = compiled.search(name)
        return None if match is None else _name_of(match, place=PATTERN_OPTION)

    return Naming(title=to_translate("the names that --actions matches"), read=read)


def pattern_without_timelines(pattern: str | None) -> InputError:
    """Return the error of a regular expression beside files that hold no ranges for it to match."""
    return InputError(
        value=pattern,
        rule=_("must come with the timelines of a profiler, whose actions it names"),
        place=PATTERN_OPTION,
    )


def _name_of(match: re.Match[str], *, place: str = "") -> ActionName | None:
    """Return what the groups of a match say."""
    groups = {key: text for key, text in match.groupdict().items() if text is not None}
    op = _OPS.get(groups.pop("op", "").lower())
    numbers = {key: int(text) if text.isdecimal() and len(text) <= 7 else -1 for key, text in groups.items()}
    if op is None or any(not 0 <= number <= _MOST_NUMBER for number in numbers.values()):
        raise InputError(
            value=match[0],
            rule=_(
                "must match an operation ({ops}) as group op, and whole numbers as all other groups",
                ops=", ".join(_OPS),
            ),
            place=place,
        )
    return ActionName(
        op=op,
        microbatch=numbers.get("microbatch"),
        chunk=numbers.get("chunk"),
        stage=numbers.get("stage"),
        rank=numbers.get("rank"),
    )


_PAIR = re.compile(r"(?:PP:)?(?:\d*F\d*B\d*|OVERLAP_F_B)", re.IGNORECASE)


def is_pair(name: str) -> bool:
    """Return whether a range is that of a forward beside a backward.

    >>> is_pair("1F1B"), is_pair("F3")
    (True, False)
    """
    return _PAIR.fullmatch(name) is not None


class ActionMatcher(NameMatcher):
    """Takes ranges that name actions in any of these ways, calls that stand for them, and those of the optimizer."""

    takes_functions = True

    def __init__(self, namings: Iterable[Naming]) -> None:
        super().__init__(LayerNames())
        self._namings = tuple(namings)

    def __call__(self, scope: str) -> Match | None:
        """Return the range itself as a match, or None."""
        if scope not in self._known:
            if len(self._known) >= self._MOST_REMEMBERED:
                self._known.clear()
            is_match = (
                OPTIMIZER.fullmatch(scope)
                or NUMBERED.fullmatch(scope)
                or is_call(scope)
                or is_pair(scope)
                or any(naming.read(scope) for naming in self._namings)
            )
            self._known[scope] = Match(BODY, scope) if is_match else None
        return self._known[scope]
