"""Dry runs written into an init file that is there: its comments, times and other fields stay, and so do its peaks."""

from collections.abc import Sequence

from evenflow.errors import InputError
from evenflow.export.dry_run_text import format_init_start, init_values
from evenflow.export.train_yaml import apply_to_training_yaml
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.init.init_file import MEMORY, is_init_file, parse_init_file
from evenflow.profiles.init.init_planning import PIPELINE
from evenflow.profiles.yaml_file import load_yaml


def with_dry_runs(text: str, rounds: Sequence[Plan], *, file: str) -> str:
    """Return the init file `text` with the dry runs `rounds`; a text without any value is continued.

    A file that has the peaks of these very rounds is returned as it is.

    Raises:
        InputError: a text that is no init file, or one that has the peaks of other dry runs, which would be taken for
            peaks of these.
    """
    if all(not line.strip() or line.lstrip().startswith("#") for line in text.splitlines()):
        return text + format_init_start(rounds)
    top = load_yaml(text, file=file)
    if not is_init_file(top):
        raise InputError(
            value=", ".join(map(str, list(top.values)[:4])),
            rule=_("must be an init file, with {section} and the sections beside it, or a new file", section=PIPELINE),
            place=file,
            remedy=_("choose another name, or add --overwrite"),
        )
    if MEMORY in top:
        if init_values(parse_init_file(text, place=file).dry_runs.rounds) == init_values(rounds):
            return text
        raise InputError(
            value=None,
            rule=_("must not be the peaks of other dry runs, which would be taken for peaks of these"),
            place=top.place(MEMORY),
            remedy=_("choose another name, or add --overwrite, which removes them"),
        )
    return apply_to_training_yaml(text, file=file, values=init_values(rounds))
