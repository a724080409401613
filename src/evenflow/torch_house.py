"""The door to evenflow-torch: the package that has everything which needs PyTorch."""

import importlib
from importlib.util import find_spec
from types import ModuleType

from evenflow.errors import InputError
from evenflow.language import _

_PACKAGE = "evenflow_torch"


def torch_house(module: str, *, place: str) -> ModuleType:
    """Return a module of evenflow-torch; raises InputError where the package is not installed.

    `module` is its name inside the package, and `place` what needs it.
    """
    if find_spec(_PACKAGE) is None:
        raise needs_torch_house(place=place)
    return importlib.import_module(f"{_PACKAGE}.{module}")


def needs_torch_house(*, place: str) -> InputError:
    """Return the message that `place` needs a package which is not installed."""
    return InputError(
        rule=_("must have the package evenflow-torch, and it is not installed"),
        place=place,
        remedy=_("pip install 'evenflow[torch]'"),
    )
