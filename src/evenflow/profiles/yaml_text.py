"""Values as YAML: on one line, or as the lines of an entry."""

import json
import re
from collections.abc import Mapping, Sequence

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def format_value(value: object) -> str:
    """Return `value` as YAML on one line: ``[[1, 2], [3, 4]]``, ``true``, ``"text"``, ``{a: 1}``."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{format_key(key)}: {format_value(item)}" for key, item in value.items()) + "}"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return "[" + ", ".join(map(format_value, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


def block_text(entries: Mapping[str, object]) -> str:
    """Return a block mapping as text, one entry after the other; mappings inside it become blocks too."""
    return "".join(f"{line}\n" for name, value in entries.items() for line in entry_lines(name, value))


def nested(values: Mapping[str, object]) -> dict[str, object]:
    """Return values by dotted key as mappings within mappings.

    >>> nested({"model.offset": 1, "model.size": 2})
    {'model': {'offset': 1, 'size': 2}}
    """
    tree: dict[str, object] = {}
    for key, value in values.items():
        *path, name = key.split(".")
        parent = tree
        for step in path:
            child = parent.setdefault(step, {})
            assert isinstance(child, dict)
            parent = child
        parent[name] = value
    return tree


def entry_lines(name: str, value: object, *, indent: int = 0) -> list[str]:
    """Return the lines of an entry of a block mapping; a mapping inside it becomes a block too."""
    start = " " * indent + format_key(name) + ":"
    if not isinstance(value, Mapping):
        return [f"{start} {format_value(value)}"]
    return [start, *(line for key, item in value.items() for line in entry_lines(key, item, indent=indent + 2))]


def format_key(name: str) -> str:
    """Return a key as it stands in YAML, in quotation marks where it needs them."""
    return name if _PLAIN_KEY.fullmatch(name) else json.dumps(name, ensure_ascii=False)
