"""Defaults of options in a file of the user: ``evenflow.toml``, or the table ``[tool.evenflow]`` of ``pyproject.toml``.

The file is that of the working directory, or of the nearest folder above it, up to the one that has ``.git`` or is the
home folder. A key is the long name of an option without its dashes.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from evenflow.asking import question_of
from evenflow.errors import InputError
from evenflow.language import _

OWN_FILE, PROJECT_FILE, TABLE = "evenflow.toml", "pyproject.toml", "tool.evenflow"
_META = "evenflow.defaults"
"""Key of the defaults in what contexts of click share."""
_PLANS_SAY = {"export": {"memory"}, "apply": {"memory"}, "replan": {"memory"}}
"""Options of verbs that read a plan file, which says them."""

RequestType = TypeVar("RequestType", bound=Any)


@dataclass(frozen=True, slots=True, kw_only=True)
class Defaults:
    """What a file says of options, by their names without dashes."""

    file: Path
    values: Mapping[str, object]

    @property
    def name(self) -> str:
        """The file for messages, as it is seen from the working directory."""
        return self.file.name if self.file.parent == Path.cwd() else str(self.file)


def read_defaults() -> Defaults | None:
    """Return the defaults that hold in the working directory; None where there is no file.

    Raises:
        InputError: a file that cannot be read, or two beside each other.
    """
    try:
        folders = _folders(Path.cwd())
    except OSError:  # a working directory that is gone
        return None
    for folder in folders:
        both = [defaults for defaults in (_of_own_file(folder), _of_project(folder)) if defaults is not None]
        if len(both) > 1:
            rule = _("must not have [{table}] beside {file}", table=TABLE, file=OWN_FILE)
            raise InputError(rule=rule, place=str(folder / PROJECT_FILE), remedy=_("leave one of the two out"))
        if both:
            return both[0]
    return None


def _folders(start: Path) -> list[Path]:
    above = [start, *start.parents]
    try:
        home = Path.home()
    except RuntimeError:
        home = start
    last = next((number for number, folder in enumerate(above) if folder == home or (folder / ".git").exists()), 0)
    return above[: last + 1]


def _of_own_file(folder: Path) -> Defaults | None:
    file = folder / OWN_FILE
    return Defaults(file=file, values=_loaded(file)) if file.is_file() else None


def _of_project(folder: Path) -> Defaults | None:
    file = folder / PROJECT_FILE
    try:
        if f"[{TABLE}" not in file.read_text(encoding="utf-8"):
            return None
    except (OSError, ValueError):  # there is none, or it is none of ours
        return None
    tool = _loaded(file).get("tool")
    table = tool.get("evenflow") if isinstance(tool, dict) else None
    return Defaults(file=file, values=table) if isinstance(table, dict) else None


def _loaded(file: Path) -> dict[str, object]:
    from evenflow.fields import read_text  # most commands have no such file, and start without a reader
    from evenflow.profiles.toml_text import load_toml

    return load_toml(read_text(file), file=str(file))


def names_of(param: click.Parameter) -> list[str]:
    """Return the keys of an option; none for an argument, and for what is no value of a command."""
    if not isinstance(param, click.Option) or not param.expose_value:
        return []
    return [name.removeprefix("--") for name in param.opts if name.startswith("--")]


def commands_of(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    """Yield every verb that can be loaded, with its name."""
    for name in group.list_commands(context):
        try:
            command = group.get_command(context, name)
        except InputError:  # of a package that is not installed
            continue
        if isinstance(command, click.Group):
            inner = click.Context(command, info_name=name)
            yield from ((f"{name} {below}", verb_command) for below, verb_command in commands_of(command, inner))
        elif command is not None:
            yield name, command


def use_defaults(context: click.Context, verb: str, command: click.Command) -> None:
    """Let `command`, which `context` is about to run, have the defaults of the file.

    Raises:
        InputError: a key that is an option of no verb, or a value that the option cannot have.
    """
    defaults = read_defaults()
    if defaults is None:
        return
    own = {name for below in _below(command) for param in below.params for name in names_of(param)}
    if set(defaults.values) - own:  # else no other verb need be loaded
        check_keys(defaults, context)
    context.meta[_META] = defaults
    context.default_map = {verb: _map_of(verb, command, defaults)}


def check_keys(defaults: Defaults, context: click.Context) -> None:
    """Raise `InputError` for a key that is the name of no option of any verb."""
    from evenflow.fields import did_you_mean

    names = {name for _verb, command in _commands(context) for param in command.params for name in names_of(param)}
    for key in defaults.values:
        if key not in names:
            raise InputError(
                value=key,
                rule=_("must be the long name of an option of some verb, without its dashes"),
                place=str(defaults.file),
                remedy=did_you_mean(key, sorted(names)) or _("leave it out"),
            )


def takers(defaults: Defaults, context: click.Context) -> dict[str, list[str]]:
    """Return for every key the verbs that take it."""
    taken: dict[str, list[str]] = {key: [] for key in defaults.values}
    for verb, command in _commands(context):
        for key in {name for param in command.params for name in names_of(param)} & set(taken):
            if key not in _PLANS_SAY.get(verb, ()):
                taken[key].append(verb)
    return taken


def _commands(context: click.Context) -> Iterator[tuple[str, click.Command]]:
    group = context.find_root().command
    return commands_of(group, context.find_root()) if isinstance(group, click.Group) else iter(())


def _below(command: click.Command) -> list[click.Command]:
    return list(command.commands.values()) if isinstance(command, click.Group) else [command]


def _map_of(verb: str, command: click.Command, defaults: Defaults) -> dict[str, Any]:
    if isinstance(command, click.Group):
        return {name: _map_of(name, below, defaults) for name, below in command.commands.items()}
    taken: dict[str, Any] = {}
    for param in command.params:
        for key in names_of(param):
            if key in defaults.values and key not in _PLANS_SAY.get(verb, ()):
                taken[param.name or ""] = _value(param, key, defaults, click.Context(command, info_name=verb))
    return taken


def _value(param: click.Parameter, key: str, defaults: Defaults, context: click.Context) -> object:
    """Return the value of a key as the option takes it."""
    value, place = defaults.values[key], f"{defaults.file}: {key}"
    is_flag = isinstance(param, click.Option) and param.is_flag
    several = param.multiple and isinstance(value, list)
    parts = value if several and isinstance(value, list) else [value]
    if is_flag != isinstance(value, bool) or not all(isinstance(part, bool | str | int | float) for part in parts):
        rule = _("must be true or false") if is_flag else _("must be text or a number")
        raise InputError(value=value, rule=rule, place=place)
    if is_flag:
        return value
    texts = [str(part) for part in parts]
    typed = texts if param.multiple else texts[0]
    try:
        param.type_cast_value(context, typed)
    except click.BadParameter as error:
        rule = _("must be a value that the option takes ({reason})", reason=error.message.rstrip("."))
        raise InputError(value=value, rule=rule, place=place) from None
    except InputError as error:
        raise InputError(value=error.value, rule=error.rule, place=place, remedy=error.remedy) from None
    return typed


def say_defaults(context: click.Context) -> None:
    """Say on stderr, in one line, which defaults a command has from the file."""
    defaults = context.meta.get(_META)
    if not isinstance(defaults, Defaults):
        return
    said = _as_typed(defaults, context, lambda name: from_file(name, context))
    if said:
        click.echo(_("defaults of {file}: {options}", file=defaults.name, options=", ".join(said)), err=True)


def say_unused(names: Collection[str]) -> None:
    """Say which defaults of the file, by the names of their fields, the command leaves aside; nothing without any."""
    context = click.get_current_context()
    defaults = context.meta.get(_META)
    if not isinstance(defaults, Defaults):
        return
    said = _as_typed(defaults, context, lambda name: name in names and from_file(name, context))
    if said:
        click.echo(_("note: not used beside this input: {options}", options=", ".join(said)), err=True)


def typed_of(options: Collection[str]) -> list[str]:
    """Return those of some options that the command line has; say of the others, defaults, that they are not used."""
    context = click.get_current_context()
    names = {param.name or "" for param in context.command.params if set(options) & set(param.opts)}
    say_unused(names)
    aside = {
        option for param in context.command.params if from_file(param.name or "", context) for option in param.opts
    }
    return [option for option in options if option not in aside]


def _as_typed(defaults: Defaults, context: click.Context, is_shown: Callable[[str], bool]) -> list[str]:
    return [
        text
        for param in context.command.params
        for key in names_of(param)
        if key in defaults.values and is_shown(param.name or "")
        for text in _typed(param, key, defaults.values[key])
    ]


def _typed(param: click.Parameter, key: str, value: object) -> list[str]:
    """Return an option as it would be typed; nothing for a flag that stays as it is."""
    if isinstance(value, bool):
        return [f"--{key}"] if value else list(param.secondary_opts[:1])
    parts = value if isinstance(value, list) else [value]
    return [f"--{key}={part}" for part in parts]


def from_file(name: str, context: click.Context) -> bool:
    """Return whether the value of a parameter is a default of the file."""
    return context.get_parameter_source(name) is ParameterSource.DEFAULT_MAP


def without_defaults(request: RequestType, names: Collection[str]) -> RequestType:
    """Return a request in which those fields of `names` that are defaults of the file are not given, which is said."""
    say_unused(names)
    return _without(request, names)


def _without(request: RequestType, names: Collection[str]) -> RequestType:
    context = click.get_current_context()
    changes: dict[str, object] = {}
    for field in fields(request):
        question = question_of(field)
        if question is not None and question.group is not None:
            changes[field.name] = _without(getattr(request, field.name), names)
        elif field.name in names and from_file(field.name, context):
            changes[field.name] = None if field.default is MISSING else field.default
    return replace(request, **changes)
