"""Fields of a decoded JSON or YAML object, read with their place, so that an error can name file, field and value."""

import difflib
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeGuard

from evenflow.errors import FileError, InputError
from evenflow.language import _

LARGEST = 1e8
"""A time in milliseconds (a day) or a memory in megabytes (100 terabytes) above this is a mistake in the unit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fields:
    """One object of a file; every method that reads a field raises `InputError` with the place of the field."""

    values: Mapping[str, object]
    """Decoded values by key."""
    file: str
    """Name of the file for messages."""
    path: str = ""
    """Place of the object in the file, such as ``layers_description[1]``; empty for the whole file."""
    lines: Mapping[str, int] = field(default_factory=dict)
    """Line of each field, for formats that tell it."""

    def __contains__(self, key: str) -> bool:
        return key in self.values

    def place(self, key: str = "") -> str:
        """File, line where known, and field, for messages."""
        name = ".".join(part for part in (self.path, key) if part)
        file = _("{file}, line {line}", file=self.file, line=self.lines[key]) if key in self.lines else self.file
        return f"{file}: {name}" if name else file

    def error(self, key: str, rule: str, *, remedy: str = "") -> InputError:
        """Return the refusal of the value of `key` (an empty key: of the whole object), for the caller to raise."""
        return InputError(value=self.values.get(key), rule=rule, place=self.place(key), remedy=remedy)

    @contextmanager
    def at(self, key: str = "") -> Iterator[None]:
        """Give errors raised inside the place of `key`: the rules of a value do not know the file it comes from.

        With an empty key the error keeps its own place, after the name of the file.
        """
        try:
            yield
        except InputError as error:
            if error.place.startswith(self.file):
                raise
            place = self.place(key or error.place)
            raise InputError(value=error.value, rule=error.rule, place=place, remedy=error.remedy) from None

    def check_known(self, valid: Iterable[str]) -> None:
        """Refuse a field that is not in `valid`, and name the nearest one."""
        names = sorted(valid)
        for key in self.values:
            if key not in names:
                near = difflib.get_close_matches(key, names, n=1, cutoff=0.6)
                remedy = (
                    _("did you mean {near!r}?", near=near[0])
                    if near
                    else _("the fields are {names}", names=", ".join(names))
                )
                raise InputError(value=None, rule=_("is an unknown field"), place=self.place(key), remedy=remedy)

    def required(self, key: str) -> object:
        """Return the raw value of `key`."""
        if key not in self.values:
            raise InputError(value=None, rule=_("must have the field {key!r}", key=key), place=self.place())
        return self.values[key]

    def text(self, key: str) -> str:
        """Return a string that is not empty."""
        value = self.required(key)
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, _("must be a text that is not empty"))
        return value

    def flag(self, key: str) -> bool:
        """Return true or false; false for an absent field."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.error(key, _("must be true or false"))
        return value

    def number(self, key: str, *, above_zero: bool = False) -> float:
        """Return a finite number, not negative (or above zero) and not absurdly large."""
        value = self.required(key)
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(key, _("must be a number"))
        if isinstance(value, float) and not math.isfinite(value):
            raise self.error(key, _("must be a finite number"))
        if value < 0 or (above_zero and value == 0):
            raise self.error(key, _("must be above zero") if above_zero else _("must not be negative"))
        if value > LARGEST:
            raise self.error(key, _("must be at most {limit:g}", limit=LARGEST), remedy=_("check the unit"))
        return value

    def integer(self, key: str, *, maximum: int, minimum: int = 1) -> int:
        """Return an integer from `minimum` to `maximum`."""
        value = self.required(key)
        if not is_integer(value) or not minimum <= value <= maximum:
            raise self.error(key, _("must be an integer from {minimum} to {maximum}", minimum=minimum, maximum=maximum))
        return value

    def integers(self, key: str, *, minimum: int = 0, length: int | None = None) -> tuple[int, ...]:
        """Return a list of integers from `minimum` on, of `length` entries where that is given."""
        value = self.required(key)
        if not is_integer_list(value) or min(value, default=minimum) < minimum or len(value) != (length or len(value)):
            if length is None:
                raise self.error(key, _("must be a list of integers from {minimum} on", minimum=minimum))
            rule = _("must be a list of {length} integers from {minimum} on", length=length, minimum=minimum)
            raise self.error(key, rule)
        return tuple(value)

    def rows(self, key: str) -> list[list[int]]:
        """Return a list of lists of integers."""
        value = self.required(key)
        if not is_integer_table(value):
            raise self.error(key, _("must be a list of lists of integers, one for each chunk"))
        return value

    def texts(self, key: str) -> tuple[str, ...]:
        """Return a list of strings."""
        value = self.required(key)
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.error(key, _("must be a list of texts"))
        return tuple(value)

    def inner(self, key: str) -> "Fields":
        """Return the object under `key`."""
        path = f"{self.path}.{key}" if self.path else key
        return as_fields(self.required(key), file=self.file, path=path)

    def objects(self, key: str) -> list["Fields"]:
        """Return the objects of the list under `key`."""
        value = self.required(key)
        if not isinstance(value, list):
            raise self.error(key, _("must be a list of objects"))
        path = f"{self.path}.{key}" if self.path else key
        return [as_fields(item, file=self.file, path=f"{path}[{index}]") for index, item in enumerate(value)]


def is_integer(value: object) -> TypeGuard[int]:
    """Whether `value` is an integer; ``true`` and ``false`` are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def is_integer_list(value: object) -> TypeGuard[list[int]]:
    """Whether `value` is a list of integers."""
    return isinstance(value, list) and all(map(is_integer, value))


def is_integer_table(value: object) -> TypeGuard[list[list[int]]]:
    """Whether `value` is a list of lists of integers."""
    return isinstance(value, list) and all(map(is_integer_list, value))


def as_fields(value: object, *, file: str, path: str = "") -> Fields:
    """Return `value` as an object with text keys."""
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        place = f"{file}: {path}" if path else file
        raise InputError(value=type(value).__name__, rule=_("must be an object of named fields"), place=place)
    return Fields(values=value, file=file, path=path)


def read_text(path: Path | str) -> str:
    """Return the whole of a UTF-8 text file."""
    try:
        return Path(path).read_bytes().decode("utf-8-sig")
    except (OSError, ValueError) as error:
        raise FileError.from_os(path, error) from None


def load_json(text: str, *, file: str) -> object:
    """Return decoded JSON; a key given twice in one object is refused."""

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        values: dict[str, object] = {}
        for key, value in pairs:
            if key in values:
                place = f"{file}: {key}"
                if "name" in values and key != "name":
                    place = _("{file}: {key} of {name!r}", file=file, key=key, name=values["name"])
                raise InputError(value=None, rule=_("is given twice"), place=place, remedy=_("keep one of the two"))
            values[key] = value
        return values

    try:
        return json.loads(text, object_pairs_hook=unique)
    except json.JSONDecodeError as error:
        problem = error.msg[:1].lower() + error.msg[1:]
        raise not_readable(text, file=file, form="JSON", at=(error.lineno, error.colno), problem=problem) from None
    except (ValueError, RecursionError) as error:
        raise not_readable(text, file=file, form="JSON", at=None, problem=str(error)) from None


def not_readable(text: str, *, file: str, form: str, at: tuple[int, int] | None, problem: str) -> FileError:
    """Return the refusal of a text that is not in its format (`form`); `at` is line and column, counted from 1.

    >>> str(not_readable("[1 2]", file="plan.json", form="JSON", at=(1, 4), problem="expecting ',' delimiter"))
    "cannot read plan.json: not JSON at line 1, column 4 ('[1 2]'): expecting ',' delimiter"
    """
    if at is None:
        return FileError(file, reason=_("not {form}: {problem}", form=form, problem=problem))
    line = line_of(text, at[0])
    shown = f" ({line!r})" if line else ""
    return FileError(
        file,
        reason=_(
            "not {form} at line {line}, column {column}{shown}: {problem}",
            form=form,
            line=at[0],
            column=at[1],
            shown=shown,
            problem=problem,
        ),
    )


def line_of(text: str, number: int) -> str:
    """Return line `number` of `text`, counted from 1, short enough for a message; empty beyond the end."""
    lines = text.splitlines()
    return shortened(lines[number - 1].strip()) if number <= len(lines) else ""


def shortened(text: str, *, length: int = 80) -> str:
    """Return `text`, cut to `length` characters for a message."""
    return text if len(text) <= length else text[: length - 3] + "..."
