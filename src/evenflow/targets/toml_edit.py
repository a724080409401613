"""Set values in a TOML text and leave every other character as it is.

Lines are searched for tables and keys; that the result says what was asked, and nothing else, is then read by TOML's
own parser. So a text in which the search goes astray is refused and never spoiled.
"""

import copy
import re
import tomllib
from collections.abc import Mapping

from evenflow.errors import InputError
from evenflow.language import _

_HEADER = re.compile(r"\s*\[\s*([A-Za-z0-9_-]+)\s*\]\s*(#.*)?")
_OTHER_HEADER = re.compile(r"\s*\[")
_BEGINNING = re.compile(r"\s*(#|$|\[[^\"',]*\]|[\w.\"' -]+=)")
"""A line behind a value: a comment, an empty line, a table or a key. Inside of a list of texts, lines are none."""


def set_values(text: str, tables: Mapping[str, Mapping[str, str | None]], *, file: str) -> str:
    """Return `text` with these keys of these tables set to values in TOML; None takes a key out.

    A value that is there is replaced, and what stands behind it on its line stays; a key that is missing is added at
    the end of its table, a table that is missing at the end of the text.

    Raises:
        InputError: a text that is no TOML, or whose tables stand in another form than ``[name]`` and ``key = value``.
    """
    wanted = copy.deepcopy(tomllib.loads(text))
    end = "\r\n" if "\r\n" in text else "\n"
    lines = text.splitlines(keepends=True)
    for table, values in tables.items():
        section = wanted.get(table, {})
        if not isinstance(section, dict):
            raise InputError(value=section, rule=_("must be a table"), place=f"{file}: {table}")
        for key, value in values.items():
            lines = _with_key(lines, table, key, value, end)
            if value is None:
                section.pop(key, None)
            else:
                wanted.setdefault(table, section)[key] = tomllib.loads(f"x = {value}")["x"]
    result = "".join(lines)
    if _parsed(result) != wanted:
        names = ", ".join(f"[{table}]" for table in tables)
        raise InputError(
            rule=_("must have {names} as tables with a key on each line", names=names),
            place=file,
            remedy=_("write them so, or paste what evenflow export prints"),
        )
    return result


def _parsed(text: str) -> dict[str, object] | None:
    try:
        return tomllib.loads(text)
    except ValueError:
        return None


def _with_key(lines: list[str], table: str, key: str, value: str | None, end: str) -> list[str]:
    header = next((index for index, line in enumerate(lines) if _table_of(line) == table), None)
    if header is None:
        if value is None:
            return lines
        gap = [end] if lines and lines[-1].strip() else []
        return [*_ended(lines, end), *gap, f"[{table}]{end}", f"{key} = {_broken(value, end)}{end}"]
    index = header + 1
    last = index  # behind the last line of the table that says something
    while index < len(lines) and not _OTHER_HEADER.match(lines[index]):
        match = re.match(rf"(\s*(?:{re.escape(key)}|\"{re.escape(key)}\")\s*=\s*)(?=\S)", lines[index])
        span, rest = _value_span(lines, index)
        if match and value is None:
            return lines[:index] + lines[index + span :]
        if match and value is not None:
            return [*lines[:index], f"{match[1]}{_broken(value, end)}{rest}", *lines[index + span :]]
        last = index + span if lines[index].strip() else last
        index += span
    if value is None:
        return lines
    return [*_ended(lines[:last], end), f"{key} = {_broken(value, end)}{end}", *lines[last:]]


def _table_of(line: str) -> str | None:
    match = _HEADER.fullmatch(line.rstrip("\r\n"))
    return match[1] if match else None


def _value_span(lines: list[str], index: int) -> tuple[int, str]:
    """Return how many lines an assignment has that begins on line `index`, and what follows its value on the last."""
    name, is_assigned, first = lines[index].partition("=")
    if not is_assigned or name.lstrip().startswith("#"):
        return 1, ""
    for span in range(1, len(lines) - index + 1):
        behind = lines[index + span : index + span + 1]
        if behind and not _BEGINNING.match(behind[0]):
            continue
        value = "".join([first, *lines[index + 1 : index + span]])
        if _parsed(f"x = {value}") is not None:
            return span, _behind(value)
    return 1, ""


def _behind(value: str) -> str:
    """Return the comment and line end behind a value: the longest end that can be taken off without changing it."""
    whole = _parsed(f"x = {value}")
    stripped = value.rstrip("\r\n")
    ends = (index for index, letter in enumerate(stripped) if letter == "#")
    comment = next((index for index in ends if _parsed(f"x = {value[:index]}") == whole), len(stripped))
    return value[len(value[:comment].rstrip()) :]


def _broken(value: str, end: str) -> str:
    return value.replace("\n", end)


def _ended(lines: list[str], end: str) -> list[str]:
    """Return `lines`, the last one with a line end."""
    if lines and not lines[-1].endswith(("\n", "\r")):
        return [*lines[:-1], lines[-1] + end]
    return lines
