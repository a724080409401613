"""Overrides of a Hydra configuration in the commands of a shell script: ``model.micro_batch_size=1``."""

import re

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.targets.megatron_family.arguments import is_relevant, line_place
from evenflow.targets.megatron_family.shell_script import parse_script
from evenflow.targets.megatron_family.shell_values import run_through
from evenflow.targets.megatron_family.shell_words import line_of


def overrides_in(text: str, file: str, override: re.Pattern[str]) -> dict[str, str | None]:
    """Return the values of overrides by the name of the setting, as texts; `override` has both as groups.

    A setting that no plan depends on is None where it stands in a condition.

    Raises:
        InputError: a quotation mark is never closed, or a setting that a plan depends on stands in a condition.
    """
    commands, _values = run_through(parse_script(text, file=file), text, file=file)
    found: dict[str, str | None] = {}
    for word in (word for command in commands for word in command):
        if match := override.fullmatch(word.text):
            if word.is_conditional and not is_relevant(match["name"].rpartition(".")[2]):
                found[match["name"]] = None
                continue
            if word.is_conditional:
                raise InputError(
                    value=word.text,
                    rule=_("must have a value that does not depend on a condition"),
                    place=line_place(file, line_of(text, word.start)),
                    remedy=_("write it outside of the condition"),
                )
            found[match["name"]] = match["value"]
    return found


def decoded_override(text: str) -> object:
    """Return the value of an override in Hydra's words."""
    if text[:1] == text[-1:] and text[:1] in ("'", '"') and len(text) > 1:
        return text[1:-1]
    if text.startswith("["):
        return [item.strip(" '\"") for item in text.strip("[]").split(",") if item.strip()]
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    return None if text == "null" else int(text) if re.fullmatch(r"-?[0-9]{1,15}", text) else text
