"""Fields of a decoded JSON or YAML object, read with their place, so that an error can name file, field and value."""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import BinaryIO, TypeGuard

from evenflow.errors import FileError, InputError
from evenflow.language import _, english
from evenflow.ranges import Range

MOST_BYTES = 32 * 2**20
"""Most bytes of a text file that is read whole."""
MOST_MARKS = 2_000_000
"""Most brackets and commas of a JSON text; each can be a value that takes up to a hundred bytes."""
_LONGEST_NAME = 60
"""Names that are compared with others are not longer; comparing takes the square of the length."""
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


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
                remedy = did_you_mean(key, names) or _("the fields are {names}", names=", ".join(names))
                raise InputError(rule=_("is an unknown field"), place=self.place(key), remedy=remedy)

    def required(self, key: str) -> object:
        """Return the raw value of `key`."""
        if key not in self.values:
            raise InputError(rule=_("must have the field {key!r}", key=key), place=self.place())
        return self.values[key]

    def text(self, key: str) -> str:
        """Return a string that is not empty."""
        value = self.required(key)
        if not isinstance(value, str) or not value.strip():
            raise self.error(key, _("must be a text that is not empty"))
        return value

    def choice(self, key: str, names: Iterable[str]) -> str:
        """Return a text that is one of `names`."""
        value = self.text(key)
        check_one_of(value, names, place=self.place(key))
        return value

    def quantity(self, key: str) -> str:
        """Return a number with its unit; a bare number is read as its text, and the parser of the unit judges it."""
        value = self.required(key)
        return str(value) if isinstance(value, int | float) and not isinstance(value, bool) else self.text(key)

    def flag(self, key: str) -> bool:
        """Return true or false; false for an absent field."""
        value = self.values.get(key, False)
        if not isinstance(value, bool):
            raise self.error(key, _("must be true or false"))
        return value

    def number(self, key: str, within: Range, *, above_zero: bool = False) -> float:
        """Return a number of a range; with `above_zero`, of a range that begins at zero, another than zero."""
        value = self.required(key)
        within = within.above_zero if above_zero else within
        if value not in within:
            is_large = isinstance(value, int | float) and value > within.most
            remedy = _("check the unit") if within.unit and is_large else ""
            raise self.error(key, within.rule, remedy=remedy)
        assert isinstance(value, int | float)
        return value

    def integer(self, key: str, within: Range) -> int:
        """Return an integer of a range."""
        value = self.required(key)
        if value not in within:
            raise self.error(key, within.rule)
        assert isinstance(value, int)
        return value

    def integers(self, key: str, within: Range, *, length: int | None = None) -> tuple[int, ...]:
        """Return a list of integers of a range, of `length` entries where that is given."""
        value = self.required(key)
        is_long_enough = isinstance(value, list) and len(value) == (length or len(value))
        if not is_long_enough or not is_integer_list(value) or not all(item in within for item in value):
            if length is None:
                raise self.error(key, _("must be a list of integers {range}", range=within.text))
            raise self.error(key, _("must be a list of {length} integers {range}", length=length, range=within.text))
        return tuple(value)

    def rows(self, key: str, within: Range) -> list[list[int]]:
        """Return a list of lists of integers of a range."""
        value = self.required(key)
        if not is_integer_table(value) or not all(item in within for row in value for item in row):
            rule = _("must be a list of lists of integers {range}, one for each chunk", range=within.text)
            raise self.error(key, rule)
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


def nearest(name: str, names: Iterable[str]) -> str:
    """Return the one of `names` that `name` may have meant; empty for none, and for a text that is no name."""
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.6) if len(name) <= _LONGEST_NAME else []
    return near[0] if near else ""


def did_you_mean(name: str, names: Iterable[str]) -> str:
    """Return the remedy that names the nearest one of `names`; empty where none is near."""
    near = nearest(name, map(str, names))
    return _("did you mean {near!r}?", near=near) if near else ""


def check_one_of(value: object, names: Iterable[str], *, place: str, suggests: bool = False) -> None:
    """Raise `InputError` for a value that is none of `names`; with `suggests` the message has the nearest one."""
    known = tuple(names)
    if value not in known:
        remedy = did_you_mean(str(value), known) if suggests else ""
        raise not_one_of(value, known, place=place, remedy=remedy)


def not_one_of(value: object, names: Iterable[str], *, place: str, remedy: str = "") -> InputError:
    """Return the refusal of a value that is none of `names`, for the caller to raise."""
    return InputError(value=value, rule=_("must be one of {names}", names=", ".join(names)), place=place, remedy=remedy)


def read_text(path: Path | str) -> str:
    """Return the whole of a UTF-8 text file, without a byte order mark.

    Raises:
        FileError: a file that cannot be read, is not UTF-8, or has more than `MOST_BYTES`.
    """
    try:
        with Path(path).open("rb") as file:
            return read_stream(file, place=str(path))
    except (OSError, ValueError) as error:
        raise FileError.from_os(path, error) from None


def read_head(path: Path, num_bytes: int) -> bytes:
    """Return the first bytes of a file, by which formats are told apart; raises FileError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(num_bytes)
    except (OSError, ValueError) as error:
        raise FileError.from_os(path, error) from None


def read_stream(stream: BinaryIO, *, place: str) -> str:
    """Return the whole of a stream of UTF-8 text, as `read_text` does; `place` names it in messages."""
    data = stream.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise FileError(place, reason=_("it has more than {limit} MB", limit=MOST_BYTES // 2**20))
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FileError.from_os(place, error) from None


def load_json(text: str, *, file: str) -> object:
    """Return decoded JSON.

    Raises:
        InputError: text that is not JSON, that has a key twice in one object, half a character, a number of thousands
            of digits, or more values or levels than can be held.
    """

    def unique(pairs: list[tuple[str, object]]) -> dict[str, object]:
        values: dict[str, object] = {}
        for key, value in pairs:
            if key in values:
                place = f"{file}: {key}"
                if "name" in values and key != "name":
                    place = _("{file}: {key} of {name!r}", file=file, key=key, name=values["name"])
                raise InputError(rule=_("is given twice"), place=place, remedy=_("keep one of the two"))
            values[key] = value
        return values

    marks = sum(map(text.count, "[{,"))
    if marks > MOST_MARKS:
        problem = _(
            "it has {marks:,} brackets and commas, and at most {limit:,} are read", marks=marks, limit=MOST_MARKS
        )
        raise not_readable(text, file=file, form="JSON", at=None, problem=problem)
    try:
        value = json.loads(text, object_pairs_hook=unique)
        if _SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except json.JSONDecodeError as error:
        at = (error.lineno, error.colno)
        raise not_readable(text, file=file, form="JSON", at=at, problem=_json_problem(error.msg)) from None
    except RecursionError:
        problem = _("its lists and objects nest too deep")
        raise not_readable(text, file=file, form="JSON", at=None, problem=problem) from None
    except UnicodeEncodeError:
        problem = _("one of its texts has half a character (a surrogate without its pair)")
        raise not_readable(text, file=file, form="JSON", at=None, problem=problem) from None
    except ValueError:  # the one other thing that the decoder refuses
        problem = _("one of its integers has thousands of digits")
        raise not_readable(text, file=file, form="JSON", at=None, problem=problem) from None
    return value


def _json_problem(said: str) -> str:
    """Return in plain words what is wrong with a JSON text; unknown complaints of Python's reader stay as they are."""
    known = (
        _("expecting value"),
        _("expecting ',' delimiter"),
        _("expecting ':' delimiter"),
        _("expecting property name enclosed in double quotes"),
        _("extra data"),
        _("unterminated string starting at"),
        _("invalid control character at"),
    )
    problem = said[:1].lower() + said[1:]
    return next((message for message in known if english(message) == problem), problem)


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
    lines = text.split("\n", number)
    return shortened(lines[number - 1].strip()) if number <= len(lines) else ""


def shortened(text: str, *, length: int = 80) -> str:
    """Return `text`, cut to `length` characters for a message."""
    return text if len(text) <= length else text[: length - 3] + "..."
