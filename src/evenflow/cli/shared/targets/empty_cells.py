"""``--allow-empty`` and ``--no-empty``: whether cells may hold no layer."""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Empty
from evenflow.targets.target import Target


def may_be_empty(answer: bool | None, target: Target | None, version: str | None, *, everywhere: bool = False) -> bool:
    """Return whether cells may hold no layer where they can be run; `answer` is None without either option.

    Raises:
        InputError: ``--allow-empty`` for a framework that runs no such cells, or with `everywhere` not all of them.
    """
    if answer and target is not None:
        run = target.abilities(target.version(version)).empty
        where = _("where every stage has a layer") if run is Empty.NONE else _("which does not run them everywhere")
        if run is Empty.NONE or (everywhere and run is not Empty.ANY):
            raise InputError(
                rule=_("must not be allowed for {title}, {where}", title=target.title, where=where),
                place=_("empty cells"),
                remedy=_("leave --allow-empty out"),
            )
    return answer is not False
