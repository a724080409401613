"""Set values in a TOML text and leave every other character as it is.

Lines are searched for tables and keys; that the result says what was asked, and nothing else, is then read by TOML's
own parser. So a text in which the search goes astray is refused and never spoiled.
"""

import re
import tomllib
from collections.abc import Mapping

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.toml_text import TomlStatement, load_toml, statements

_HEADER = re.compile(r"[ \t]*\[[ \t]*([A-Za-z0-9_-]+)[ \t]*\]")
_OTHER_HEADER = re.compile(r"[ \t]*\[")


def set_values(text: str, tables: Mapping[str, Mapping[str, str | None]], *, file: str) -> str:
    """Return `text` with these keys of these tables set to values in TOML; None takes a key out.

    A value that is there is replaced, and what stands behind it on its line stays; a key that is missing is added at
    the end of its table, a table that is missing at the end of the text.

    Raises:
        InputError: a text that is no TOML, or whose tables stand in another form than ``[name]`` and ``key = value``.
    """
    wanted = load_toml(text, file=file)
    end = "\r\n" if "\r\n" in text else "\n"
    result = text
    for table, values in tables.items():
        section = wanted.get(table, {})
        if not isinstance(section, dict):
            raise InputError(value=section, rule=_("must be a table"), place=f"{file}: {table}")
        for key, value in values.items():
            result = _with_key(result, table, key, value, end)
            if value is None:
                section.pop(key, None)
            else:
                section[key] = tomllib.loads(f"x = {value}")["x"]
                wanted[table] = section
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


def _with_key(text: str, table: str, key: str, value: str | None, end: str) -> str:
    assigned = re.compile(rf"[ \t]*(?:{re.escape(key)}|\"{re.escape(key)}\")[ \t]*=")
    found, last = False, 0  # behind the last line of the table that says something
    for statement in statements(text):
        is_header = statement.value is None and _OTHER_HEADER.match(text, statement.start)
        if is_header and found:
            break
        if is_header:
            header = _HEADER.fullmatch(text, statement.start, statement.behind)
            found = header is not None and header[1] == table
            last = statement.end
        elif found and statement.value is not None and assigned.match(text, statement.start):
            if value is None:
                return text[: statement.start] + text[statement.end :]
            return _with_value(text, statement, _broken(value, end))
        elif found and text[statement.start : statement.end].strip():
            last = statement.end
    if value is None:
        return text
    line = f"{key} = {_broken(value, end)}{end}"
    if found:
        return _ended(text[:last], end) + line + text[last:]
    gap = end if any(last_line.strip() for last_line in text.splitlines()[-1:]) else ""
    return f"{_ended(text, end)}{gap}[{table}]{end}{line}"


def _with_value(text: str, statement: TomlStatement, value: str) -> str:
    """Return `text` with another value in an assignment; the spaces before the value stay."""
    assert statement.value is not None
    old = text[statement.value : statement.behind]
    start = statement.value + len(old) - len(old.lstrip())
    return text[:start] + value + text[statement.behind :]


def _broken(value: str, end: str) -> str:
    return value.replace("\n", end)


def _ended(text: str, end: str) -> str:
    """Return `text` with a line end where it lacks one."""
    return text if not text or text.endswith("\n") else text + end
