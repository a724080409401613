"""A user's own file with a plan in it, and the lines that this changes."""

import difflib
from pathlib import Path

from evenflow.cli.shared.files.user_file import UserFile
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan
from evenflow.targets import registry
from evenflow.targets.target import Target


def target_to_apply(file: UserFile, named: Target | None, *, option: str) -> Target:
    """Return the target that a file is of, or the one that was named, if it edits files.

    Raises:
        InputError: no target can be told, or the one that was named edits no files.
    """
    if named is None:
        return registry.target_of_file(
            file.text, str(file.path), can=lambda target: target.apply is not None, option=option
        )
    if named.apply is None:
        able = ", ".join(target.name for target in registry.all_targets().values() if target.apply is not None)
        raise InputError(
            value=named.name,
            rule=_("must be one of {names}, whose files can be edited", names=able),
            place=option,
            remedy=_("paste what evenflow export prints"),
        )
    return named


def applied_text(file: UserFile, target: Target, plan: Plan) -> str:
    """Return the file's text with all that `plan` decides; raises InputError where file or framework forbid it."""
    assert target.apply is not None  # of every target that `target_to_apply` gives
    return target.apply(file.text, str(file.path), plan)


def changed_lines(before: str, after: str, *, old: Path, new: Path) -> str:
    """Return the lines that differ, in the form that ``patch`` reads; empty where none does."""
    lines = difflib.unified_diff(
        before.splitlines(), after.splitlines(), fromfile=str(old), tofile=str(new), n=0, lineterm=""
    )
    return "\n".join(lines)
