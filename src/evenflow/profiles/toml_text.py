"""TOML text within limits: its values, and where each of its statements stands.

Python's own parser follows lists into each other until its stack is full, and takes the square of the length for a key
of many parts. Files of people are far below the limits.
"""

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass

from evenflow.errors import FileError
from evenflow.language import _
from evenflow.profiles.yaml_values import DEEPEST, MOST_CHARACTERS

_TOKEN = re.compile(
    r"""
      (?P<comment>\#[^\n]*)
    | (?P<text>\"{3}(?:\\.|[^\\])*?(?:"{3,5}|\Z) | '{3}.*?(?:'{3,5}|\Z) | "(?:\\.|[^"\\\n])*"? | '[^'\n]*'?)
    | (?P<opening>[\[{]) | (?P<closing>[\]}]) | (?P<assigning>=) | (?P<comma>,) | (?P<ending>\n)
    | (?P<plain>[^\#"'\[\]{}=,\n]+)
    """,
    re.VERBOSE | re.DOTALL,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TomlStatement:
    """A table's header, an assignment or a line without either, as offsets in a text; its line end belongs to it."""

    start: int
    value: int | None
    """Where the value of an assignment begins; None for what is none."""
    behind: int
    """Where what it says ends: behind it are spaces, a comment and the line end."""
    end: int


def load_toml(text: str, *, file: str) -> dict[str, object]:
    """Return the values of a TOML text.

    Raises:
        FileError: text that is not TOML, or is beyond the limits on size and depth.
    """
    try:
        _check_extent(text, file)
        values = tomllib.loads(text)
    except RecursionError:
        raise _too_deep(file) from None
    except ValueError as error:  # also of integers of thousands of digits
        raise FileError(file, reason=_("not TOML: {problem}", problem=str(error))) from None
    if _is_deep(values):
        raise _too_deep(file)
    return values


def statements(text: str) -> Iterator[TomlStatement]:
    """Yield the statements of a TOML text, which follow each other without a gap."""
    start, depth = 0, 0
    value: int | None = None
    behind = start
    for token in _TOKEN.finditer(text):
        kind = token.lastgroup
        if kind == "ending" and depth == 0:
            yield TomlStatement(start=start, value=value, behind=behind, end=token.end())
            start = behind = token.end()
            value = None
            continue
        depth = depth + (kind == "opening") - (kind == "closing" and depth > 0)
        if kind == "assigning" and depth == 0 and value is None:
            value = token.end()
        if kind not in ("comment", "ending") and not token[0].isspace():
            behind = token.start() + len(token[0].rstrip())
    if start < len(text):
        yield TomlStatement(start=start, value=value, behind=behind, end=len(text))


def _check_extent(text: str, file: str) -> None:
    """Refuse what the parser would take too long for: a long text, and keys of very many parts."""
    if len(text) > MOST_CHARACTERS:
        limits = {"length": len(text), "limit": MOST_CHARACTERS}
        raise FileError(file, reason=_("it has {length:,} characters, and at most {limit:,} are read", **limits))
    dots = 0
    for token in _TOKEN.finditer(text):
        if token.lastgroup == "plain":
            dots += token[0].count(".")
        elif token.lastgroup != "text":
            dots = 0
        if dots >= DEEPEST:
            raise _too_deep(file)


def _is_deep(values: dict[str, object]) -> bool:
    """Return whether lists and tables nest deeper than is read."""
    level: list[object] = [values]
    for _depth in range(DEEPEST):
        level = [
            inner
            for value in level
            for inner in (value.values() if isinstance(value, dict) else value if isinstance(value, list) else ())
        ]
    return any(isinstance(value, dict | list) for value in level)


def _too_deep(file: str) -> FileError:
    return FileError(file, reason=_("its lists and tables nest more than {limit} deep", limit=DEEPEST))
