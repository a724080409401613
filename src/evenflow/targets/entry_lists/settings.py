"""Settings at the top of a JSON or YAML file, whose names may have hyphens or underscores."""

from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.profiles.yaml_file import load_object
from evenflow.ranges import Range


@dataclass(frozen=True, slots=True, kw_only=True)
class FileSettings:
    """The settings of a file by their names with underscores."""

    fields: Fields

    def size(self, names: Sequence[str], given: int | None, within: Range, *, option: str) -> int:
        """Return the integer under the first of `names` that is there, or what was given beside the file.

        Raises:
            InputError: neither is there, or a value outside of its range; `option` is where it can be given.
        """
        name = next((name for name in names if name in self.fields), None)
        if name is not None:
            return self.fields.integer(name, within)
        if given is None:
            raise InputError(
                rule=_("must have the field {key!r}", key=names[0]),
                place=self.fields.place(),
                remedy=_("add it, or give {option}", option=option),
            )
        within.check(given, place=option)
        return given


def read_settings(text: str, file: str, *, sections: Sequence[str] = ()) -> FileSettings:
    """Return the settings of a text that is JSON by the name of its file, and else YAML.

    Settings in one of the `sections` count as if they stood at the top.

    Raises:
        InputError: text that is no object, or a setting that is there twice.
    """
    top = load_object(text, file=file)
    values: dict[str, object] = {}
    lines: dict[str, int] = {}
    for fields in (top, *(top.inner(name) for name in sections if name in top)):
        for name, value in fields.values.items():
            key = name.replace("-", "_")
            if key in values:
                raise InputError(rule=_("is given twice"), place=fields.place(name), remedy=_("keep one of the two"))
            values[key] = value
            if name in fields.lines:
                lines[key] = fields.lines[name]
    return FileSettings(fields=Fields(values=values, file=file, lines=lines))


def even_counts(count: int, parts: int, *, larger_last: bool = False) -> list[int]:
    """Return how many of `count` each of `parts` gets when they are dealt out evenly; what is left goes to the first.

    >>> even_counts(10, 4), even_counts(10, 4, larger_last=True)
    ([3, 3, 2, 2], [2, 2, 3, 3])
    """
    each, more = divmod(count, parts)
    counts = [each + (part < more) for part in range(parts)]
    return counts[::-1] if larger_last else counts
