"""What ``--software`` says: a framework with its version, and words."""

import re
from dataclasses import dataclass, field

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.stated_software import StatedSoftware, stated_software
from evenflow.predict.training import Software
from evenflow.predict.vocabulary import Aspect
from evenflow.targets.registry import all_targets

_PLACE = "--software"
_PRESET = re.compile(r"(?P<name>[a-z][a-z_-]*?)(?:[-_]?v?(?P<version>[0-9]+(?:\.[0-9]+)*))?")


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What was said of software."""

    name: str = ""
    """The framework with its version, as it is shown; empty where none is named."""
    usual: Software | None = None
    """What is usual in it."""
    stated: StatedSoftware = field(default_factory=StatedSoftware)


def said_software(text: str, precision: str) -> Said:
    """Return what a text says, for a number format of the linear layers.

    Raises:
        InputError: a word that is not known, a second framework, a version that is older than all that are known, or
            what other options say.
    """
    said, words = Said(), []
    for piece in re.split(r"[\s,;+]+", text.strip()):
        preset = _preset(piece, precision)
        if preset is None:
            words.append(piece)
        elif said.name:
            rule = _("must name one framework, and names {one} and {other}", one=said.name, other=preset.name)
            raise InputError(value=text, rule=rule, place=_PLACE)
        else:
            said = preset
    stated = stated_software(" ".join(words), place=_PLACE, also=tuple(all_targets()))
    if stated.about(Aspect.SHARDING) is not None:
        rule = _("must not say what copies share out")
        raise InputError(value=text, rule=rule, place=_PLACE, remedy=_("use --zero"))
    if stated.about(Aspect.PLACEMENT) is not None:
        raise InputError(value=text, rule=_("must not say where devices lie"), place=_PLACE)
    return Said(name=said.name, usual=said.usual, stated=stated)


def _preset(piece: str, precision: str) -> Said | None:
    match = _PRESET.fullmatch(piece.lower())
    name = match["name"].replace("_", "-") if match else ""
    if match is None or name not in all_targets():
        return None
    target, version = all_targets()[name], match["version"]
    try:
        known = target.version(version)
    except InputError as error:
        raise InputError(value=piece, rule=error.rule, place=_PLACE, remedy=error.remedy) from None
    return Said(name=f"{name}-{version or known}", usual=target.software(precision))
