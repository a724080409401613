"""The pattern of a hybrid model of Megatron-LM: a symbol for each layer, and bars between stages.

``M-M*-|M-M-E/MM``: attention, MLP, experts and mixers with a state are layers of their own. Stage
``chunk * ranks + rank`` is that chunk of that rank; behind a slash is a block for each further token. [Megatron-LM,
`hybrid_layer_allocation.py`]
"""

from collections.abc import Iterable
from typing import NamedTuple

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.targets.megatron_family.arguments import KNOWN, Arguments, flag_name, is_printed
from evenflow.targets.megatron_family.baseline import is_run, run_arguments
from evenflow.targets.megatron_family.mindspeed_cuts import is_mindspeed_script

PATTERN, OLD_PATTERN = "hybrid_layer_pattern", "hybrid_override_pattern"
"""The present name of the argument, and that before core 0.17."""
WITH_PATTERN = KNOWN | {PATTERN, OLD_PATTERN}
"""Arguments that are read of a run with a pattern."""

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


def is_hybrid(text: str, file: str) -> bool:
    """Return whether a text is a script for Megatron-LM, or what a run printed, with a pattern of layers."""
    if is_printed(text):
        return pattern_name(run_arguments(text, file, known=WITH_PATTERN)) is not None
    has_flag = any(flag_name(key) in text for key in (PATTERN, OLD_PATTERN))
    return is_run(text, file) and has_flag and not is_mindspeed_script(text, file)


def pattern_name(arguments: Arguments) -> str | None:
    """Return the name of the argument that has the pattern; None where there is none."""
    return next((key for key in (PATTERN, OLD_PATTERN) if arguments.values.get(key) is not None), None)
