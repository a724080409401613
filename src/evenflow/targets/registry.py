"""All targets by name: every folder of `evenflow.targets.frameworks` is one, and installed packages bring others.

The formats of logs are those of all targets, and NeMo's, which no plan is written for.
"""

import importlib
import pkgutil
from collections.abc import Sequence
from functools import cache

from evenflow.errors import InputError
from evenflow.fields import nearest
from evenflow.joining import TARGETS, Registry
from evenflow.language import _
from evenflow.profiles.measured.logs.log_format import LogFormats
from evenflow.targets import frameworks
from evenflow.targets.megatron_family.nemo_logs import NEMO
from evenflow.targets.target import Target


@cache
def all_targets() -> Registry[Target]:
    """Return all targets by name, evenflow's own first, each group in the order of names."""
    folders = sorted(folder.name for folder in pkgutil.iter_modules(frameworks.__path__))
    targets = [importlib.import_module(f"{frameworks.__name__}.{folder}.target").TARGET for folder in folders]
    own = {target.name: target for target in sorted(targets, key=lambda target: target.name)}
    return Registry(own, TARGETS, Target)


def target_named(name: str, *, place: str = "--to") -> Target:
    """Return the target with this name; raises InputError, with the nearest name, where there is none."""
    targets = all_targets()
    if name in targets:
        return targets[name]
    close = nearest(name, targets)
    raise InputError(
        value=name,
        rule=_("must be one of {names}", names=", ".join(targets)),
        place=place,
        remedy=_("did you mean {near}?", near=close) if close else "",
    )


def target_of_file(
    text: str, file: str, *, able: Sequence[Target], option: str, otherwise: Target | None = None
) -> Target:
    """Return the one of the targets `able` that recognises a text as its own configuration; else `otherwise`.

    `file` is the name of the text's file, and `option` the one by which a user names the target.

    Raises:
        InputError: no target does, or several do.
    """
    found = [target for target in able if target.recognise(text, file)] or ([otherwise] if otherwise else [])
    if len(found) == 1:
        return found[0]
    names = ", ".join(target.name for target in found or able)
    rule = _("must be a configuration of a framework that is known")
    if found:
        rule = _("must be a configuration of one framework, and may be that of {names}", names=names)
    remedy = _("name the framework with {option}: {names}", option=option, names=names)
    raise InputError(rule=rule, place=file, remedy=remedy)


@cache
def log_formats() -> LogFormats:
    """Return all formats; one that gives way to others comes behind them."""
    formats = [log_format for target in all_targets().values() for log_format in target.logs]
    return LogFormats(formats=tuple(sorted([*formats, NEMO], key=lambda log_format: log_format.gives_way)))
