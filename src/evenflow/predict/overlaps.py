"""The exchanges that may run under computation, as people list their names."""

from collections.abc import Mapping

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.vocabulary import SoftwareWord, known_words, normal

OVERLAPS = {"tensor": False, "gradients": True, "parameters": True, "pipeline": True, "experts": False}
"""Exchanges by name, and whether they overlap unless the user says otherwise."""
STAGE_OVERLAPS = {name: OVERLAPS[name] for name in ("tensor", "gradients", "parameters")}
"""Those inside a stage."""
_NOTHING = "none"


def overlaps_named(text: str, offered: Mapping[str, bool] = OVERLAPS) -> tuple[str, ...]:
    """Return the names in a text, separated by commas, in the order in which they are offered; ``none`` has none.

    Raises:
        InputError: a name that is not offered.
    """
    said = [] if normal(text) == _NOTHING else [name.strip() for name in text.split(",")]
    words = {word: name for name in offered if (word := known_words()[normal(f"overlap-{name}")])}
    names = [_name(name, words) for name in said]
    if None in names:
        rule = _("must be some of {names}, separated by commas, or none", names=", ".join(offered))
        raise InputError(value=text, rule=rule, place="--overlap")
    return tuple(name for name in offered if name in names)


def _name(text: str, names: Mapping[SoftwareWord, str]) -> str | None:
    """Return the exchange that a text names, itself or by a word for its overlap."""
    known = known_words()
    return names.get(known.get(normal(f"overlap-{text}")) or known.get(normal(text)))  # type: ignore[arg-type]


def stage_overlaps_named(text: str) -> tuple[str, ...]:
    """Return the names of exchanges inside a stage that a text has, as `overlaps_named` does."""
    return overlaps_named(text, STAGE_OVERLAPS)


def usual(overlaps: Mapping[str, bool]) -> str:
    """Return the exchanges that overlap by default, as a user would type them."""
    return ",".join(name for name, is_default in overlaps.items() if is_default)
