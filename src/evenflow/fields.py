"""Fields of a decoded JSON or YAML object, read with their place, so that an error can name file, field and value."""

import difflib
import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from evenflow.errors import InputError

LARGEST = 1e8
"""A time in milliseconds (a day) or a memory in megabytes (100 terabytes) above this is a mistake in the unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """One object of a file; every reader raises `InputError` with the place of the field."""

    values: Mapping[str, object]
    file: str
    path: str = ""
    """Where the object stands in the file, such as ``layers_description[1]``; empty for the whole file."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of each field, where the format tells."""

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def place(self, key: str = "") -> str:
        """File, line where known, and field, for messages."""
        name = ".".join(part for part in (self.path, key) if part)
        file = f"{self.file}, line {self.lines[key]}" if key in self.lines else self.file
        return f"{file}: {name}" if name else file

    def check_known(self, valid: Iterable[str]) -> None:
        """Refuse a field that is not in `valid`, and name the nearest one."""
        names = sorted(valid)
        for key in self.values:
            if key not in names:
                near = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
                remedy = f"did you mean {near[0]!r}?" if near else f"valid fields: {', '.join(names)}"
                raise InputError(value=key, rule="the field is unknown", place=self.place(key), remedy=remedy)

    def required(self, key: str) -> object:
        """The raw value of `key`."""
        if key not in self.values:
            raise InputError(value=sorted(self.values), rule=f"the field {key!r} is required", place=self.place())
        return self.values[key]

    def text(self, key: str) -> str:
        """A string that is not empty."""
        value = self.required(key)
        if not isinstance(value, str) or not value.strip():
            raise InputError(value=value, rule="a text that is not empty", place=self.place(key))
        return value

    def number(self, key: str, *, above_zero: bool = False) -> float:
        """A finite number, not negative (or above zero) and not absurdly large."""
        value = self.required(key)
        place = self.place(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputError(value=value, rule="a number", place=place)
        if isinstance(value, float) and not math.isfinite(value):
            raise InputError(value=value, rule="a finite number", place=place)
        if value < 0 or (above_zero and value == 0):
            rule = "a number above zero" if above_zero else "a number that is not negative"
            raise InputError(value=value, rule=rule, place=place)
        if value > LARGEST:
            raise InputError(value=value, rule=f"a number up to {LARGEST:g}", place=place, remedy="check the unit")
        return value

    def integer(self, key: str, *, maximum: int) -> int:
        """An integer from 1 to `maximum`."""
        value = self.required(key)
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= maximum:
            raise InputError(value=value, rule=f"an integer from 1 to {maximum}", place=self.place(key))
        return value

    def rows(self, key: str) -> list[list[int]]:
        """A list of lists of integers."""
        value = self.required(key)
        if not isinstance(value, list) or not all(is_integer_list(row) for row in value):
            raise InputError(value=value, rule="a list of lists of integers, one a chunk", place=self.place(key))
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self.required(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise InputError(value=value, rule="a list of texts", place=self.place(key))
        return tuple(value)

    def inner(self, key: str) -> "Fields":
        """The object under `key`."""
        path = f"{self.path}.{key}" if self.path else key
        return as_fields(self.required(key), file=self.file, path=path)


def is_integer_list(value: object) -> bool:
    """Whether `value` is a list of integers; ``true`` and ``false`` are not integers."""
    return isinstance(value, list) and all(isinstance(item, int) and not isinstance(item, bool) for item in value)


def as_fields(value: object, *, file: str, path: str = "") -> Fields:
    """`value` as an object with text keys."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        place = f"{file}: {path}" if path else file
        raise InputError(value=type(value).__name__, rule="an object of named fields", place=place)
    return Fields(values=value, file=file, path=path)


def read_text(path: Path | str) -> str:
    """The whole of a UTF-8 text file."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(value=str(path), rule=f"the file is UTF-8 text ({error.reason})", place=str(path)) from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InputError(value=str(path), rule=f"the file can be read ({reason})", place=str(path)) from None


def load_json(text: str, *, file: str) -> object:
    """Decoded JSON; a key given twice in one object is refused."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        values: dict[str, object] = {}
        for key, value in pairs:
            if key in values:
                owner = f" of {values['name']!r}" if "name" in values and key != "name" else ""
                raise InputError(
                    value=key, rule=f"the field{owner} is given twice", place=file, remedy="keep one of the two"
                )
            values[key] = value
        return values

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        place = f"{file}, line {error.lineno}, column {error.colno}"
        raise InputError(value=line_of(text, error.lineno), rule=f"not JSON: {error.msg}", place=place) from None
    except (ValueError, RecursionError) as error:
        raise InputError(value=_short(text), rule=f"not usable JSON: {error}", place=file) from None


def line_of(text: str, number: int) -> str:
    """Line `number` of `text`, counted from 1, short enough for a message; empty beyond the end."""
    lines = text.splitlines()
    return _short(lines[number - 1].strip()) if number <= len(lines) else ""


def _short(text: str) -> str:
    """`text` short enough for one message."""
    return text if len(text) <= 80 else text[:77] + "..."
