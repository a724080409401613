"""The verb ``evenflow config``."""

from dataclasses import dataclass, field
from pathlib import Path

import click

from evenflow.cli.shared import options
from evenflow.cli.shared.defaults import OWN_FILE, PROJECT_FILE, TABLE, Defaults, check_keys, read_defaults, takers
from evenflow.cli.shared.files.output_files import Outputs
from evenflow.cli.shared.request_options import options_as
from evenflow.cli.shared.result_files import paths_of
from evenflow.cli.text.display_width import text_width, wrapped
from evenflow.cli.text.tables import aligned
from evenflow.language import _


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigOptions:
    """What ``evenflow config`` is asked for: an option for each field."""

    json_file: Path | None = field(default=None, metadata=options.JSON_FILE)
    overwrite: bool = field(default=False, metadata=options.OVERWRITES)


@click.command()
@options_as("request", ConfigOptions)
@click.pass_context
def config(context: click.Context, request: ConfigOptions) -> int:
    """Show the defaults of options that hold in this folder: where they come from, and which verbs take them.

    Defaults stand in evenflow.toml, or in the table [tool.evenflow] of pyproject.toml, of this folder or of the nearest
    one above it, up to the one with .git or your home folder. A key is the long name of an option without its dashes.
    The command line goes before them, and so does what a plan file says.

    \b
    Example:
      evenflow config --json defaults.json

    \b
    Examples of lines in evenflow.toml:
      accelerator = "h100"
      memory = "72GB"
      target = "megatron"
      time-limit = 120
    """
    outputs = Outputs(paths_of(request), overwrite=request.overwrite)
    defaults = read_defaults()
    verbs: dict[str, list[str]] = {}
    if defaults is not None:
        check_keys(defaults, context)
        verbs = takers(defaults, context)
    outputs.write_json(lambda: _fields(defaults, verbs))
    outputs.say(_no_file() if defaults is None else _table(defaults, verbs))
    return 0


def _fields(defaults: Defaults | None, verbs: dict[str, list[str]]) -> dict[str, object]:
    if defaults is None:
        return {"file": None, "defaults": {}}
    told = {key: {"value": value, "verbs": verbs[key]} for key, value in defaults.values.items()}
    return {"file": str(defaults.file), "defaults": told}


def _no_file() -> str:
    sentence = _(
        "no defaults: neither this folder nor one above it has {own_file}, or [{table}] in {project_file}; "
        "evenflow config --help shows what to write",
        own_file=OWN_FILE,
        table=TABLE,
        project_file=PROJECT_FILE,
    )
    return "\n".join(wrapped(sentence, text_width()))


def _table(defaults: Defaults, verbs: dict[str, list[str]]) -> str:
    rows = [[f"--{key}", _words(value), ", ".join(verbs[key])] for key, value in defaults.values.items()]
    table = aligned([_("option"), _("default"), _("for the verbs")], rows, left={0, 1, 2}, most=text_width())
    return f"{defaults.file}\n\n{table}"


def _words(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return ", ".join(map(str, value)) if isinstance(value, list) else str(value)
