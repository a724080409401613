"""Whether a file has anything of the framework that it is said to be of."""

from collections.abc import Sequence

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _


def check_own_keys(fields: Fields, names: Sequence[str], *, title: str) -> None:
    """Raise InputError for fields without any of `names`, which files of the framework `title` have.

    Such a file would read as a framework's defaults: a plan that its training does not run.
    """
    if not any(name in fields for name in names):
        rule = _("must have a key that files of {title} have, such as {names}", title=title, names=", ".join(names[:4]))
        raise InputError(rule=rule, place=fields.file, remedy=_("name the framework that the file is of"))
