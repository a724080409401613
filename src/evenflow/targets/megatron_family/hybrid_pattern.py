"""The pattern of a hybrid model of Megatron-LM: a symbol for each layer, and bars between stages.

``M-M*-|M-M-E/MM``: attention, MLP, experts and mixers with a state are layers of their own. Stage
``chunk * ranks + rank`` is that chunk of that rank; behind a slash is a block for each further token. [Megatron-LM,
`hybrid_layer_allocation.py`]
"""

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import NamedTuple

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan
from evenflow.targets.megatron_family.arguments import KNOWN, Arguments, flag_name, is_printed
from evenflow.targets.megatron_family.baseline import LAYOUT, is_run, run_arguments
from evenflow.targets.megatron_family.even_cuts import EMBEDDING, FIRST, LAST, LOSS, STAGE_LAYERS, STAGES
from evenflow.targets.megatron_family.mindspeed_cuts import is_mindspeed_script

PATTERN, OLD_PATTERN = "hybrid_layer_pattern", "hybrid_override_pattern"
"""The present name of the argument, and that before core 0.17."""
WITH_PATTERN = KNOWN | {PATTERN, OLD_PATTERN}
"""Arguments that are read of a run with a pattern."""

WITH_BARS = """\
with_bars() {  # the pattern in $1, with a bar behind each of the numbers of layers that follow
    local left="${1//|/}" text="" count
    shift
    for count in "$@"; do text+="|${left:0:count}"; left="${left:count}"; done
    printf '%s' "${text:1}$left"
}
"""
"""What is left behind the layers are the blocks for further tokens, which stay behind the last stage."""

_EXCLUDED = (STAGE_LAYERS, STAGES, LAYOUT, EMBEDDING, LOSS)
"""Arguments that Megatron-LM refuses beside a pattern."""
_NAMES = re.compile(rf"\b(?:{PATTERN}|{OLD_PATTERN})\b")

SYMBOLS = "MG*D+-E"
"""Mamba, gated delta net, attention, sparse and latent attention, MLP, experts."""
BAR, SLASH = "|", "/"
_WHOLE, _LATENT = "*", "D+"


class HybridPattern(NamedTuple):
    """The layers of a hybrid model, and how they are cut."""

    segments: tuple[str, ...]
    """Symbols of the stages; one alone where the pattern has no bars."""
    further: tuple[str, ...]
    """Symbols of the block of each further token; all are equal."""

    @property
    def symbols(self) -> str:
        """The symbols of all layers, without those for further tokens."""
        return "".join(self.segments)

    def with_cut(self, counts: Iterable[int]) -> str:
        """Return the pattern with as many layers in each stage as `counts` says, which must add up to its layers."""
        left, stages = self.symbols, []
        for count in counts:
            stages.append(left[:count])
            left = left[count:]
        return SLASH.join((BAR.join(stages), *self.further))


def parse_pattern(text: object, *, place: str) -> HybridPattern:
    """Return a pattern.

    Raises:
        InputError: a symbol that is none, two sorts of attention, or blocks for further tokens that differ.
    """
    main, *further = str(text).split(SLASH)
    for part in (main.replace(BAR, ""), *further):
        unknown = [symbol for symbol in part if symbol not in SYMBOLS]
        if unknown or not part:
            raise InputError(
                value=text,
                rule=_("must have symbols of layers, which are {symbols}", symbols=" ".join(SYMBOLS)),
                place=place,
            )
        if _WHOLE in part and any(symbol in part for symbol in _LATENT):
            raise InputError(value=text, rule=_("must have one sort of attention"), place=place)
    if len(set(further)) > 1:
        raise InputError(value=text, rule=_("must have equal blocks for all further tokens"), place=place)
    return HybridPattern(segments=tuple(main.split(BAR)), further=tuple(further))


def stage_counts(plan: Plan) -> list[int]:
    """Return the layers of the stages in their order."""
    return [count for row in plan.layers for count in row]


def with_pattern(arguments: Arguments) -> tuple[Arguments, HybridPattern, str]:
    """Return arguments with what their pattern says, the pattern, and the name of the argument that has it.

    The stages of the pattern are a layout among the arguments, and its layers their number.

    Raises:
        InputError: as `parse_pattern` does; no pattern, two of them, or what is refused beside it.
    """
    name = pattern_name(arguments)
    if name is None:
        raise InputError(rule=_("must be given"), place=arguments.place(PATTERN))
    if arguments.values.get(PATTERN) is not None and arguments.values.get(OLD_PATTERN) is not None:
        raise arguments.error(OLD_PATTERN, _("must not be given beside {other}", other=PATTERN))
    if "$" in str(arguments.values[name]):
        raise arguments.error(name, _("must be a pattern of layers"))
    pattern = parse_pattern(arguments.values[name], place=arguments.place(name))
    ends = (FIRST, LAST) if len(pattern.segments) > 1 else ()
    for key in (*_EXCLUDED, *ends):
        if arguments.values.get(key):
            raise arguments.error(key, _("must not be given beside a pattern of layers"))
    values = {**arguments.values, "num_layers": len(pattern.symbols), "mtp_num_layers": len(pattern.further)}
    if len(pattern.segments) > 1:
        values[LAYOUT] = "|".join("t" * len(segment) for segment in pattern.segments)
        values[LAYOUT] = f"E{values[LAYOUT]}L"
    return replace(arguments, values=values), pattern, name


def check_stages(arguments: Arguments, pattern: HybridPattern, name: str, *, num_ranks: int) -> None:
    """Raise InputError for stages that are not dealt out to the ranks evenly."""
    if len(pattern.segments) > 1 and len(pattern.segments) % num_ranks:
        rule = _("must have stages that are a multiple of the {ranks} ranks", ranks=num_ranks)
        raise InputError(value=len(pattern.segments), rule=rule, place=arguments.place(name))


def check_layers(arguments: Arguments, pattern: HybridPattern, name: str, plan: Plan) -> None:
    """Raise InputError for a pattern with another number of layers than a plan."""
    if len(pattern.symbols) != plan.num_layers - plan.mtp_layers:
        raise InputError(
            value=len(pattern.symbols),
            rule=_("must have {count} layers, as the plan", count=plan.num_layers - plan.mtp_layers),
            place=arguments.place(name),
        )


def has_pattern(text: str) -> bool:
    """Return whether a text names a pattern of layers."""
    return bool(_NAMES.search(text))


def is_hybrid(text: str, file: str) -> bool:
    """Return whether a text is a script for Megatron-LM, or what a run printed, with a pattern of layers."""
    if is_printed(text):
        return pattern_name(run_arguments(text, file, known=WITH_PATTERN)) is not None
    has_flag = any(flag_name(key) in text for key in (PATTERN, OLD_PATTERN))
    return is_run(text, file) and has_flag and not is_mindspeed_script(text, file)


def pattern_name(arguments: Arguments) -> str | None:
    """Return the name of the argument that has the pattern; None where there is none."""
    return next((key for key in (PATTERN, OLD_PATTERN) if arguments.values.get(key) is not None), None)
