"""Mutations: of a tree of values (JSON, YAML), of lines, and of raw bytes. All choices come from one `random.Random`."""

import gzip
import json
from collections.abc import Iterator, Sequence
from copy import deepcopy
from random import Random
from typing import Any

from tests.fuzz.nasty import (
    BYTES,
    JSON_RAW,
    JSON_WHOLE,
    LINES,
    NUMBERS,
    SHAPES,
    TEXTS,
    TOML_LINES,
    TOML_WHOLE,
    YAML_RAW,
    YAML_WHOLE,
    Raw,
)

JSON, YAML, LINED, TOML = "json", "yaml", "lines", "toml"


def mutated(seed: Any, form: str, random: Random) -> bytes:
    """Return a file made from `seed`: a tree for JSON and YAML, a text for lines."""
    whole = {JSON: JSON_WHOLE, YAML: YAML_WHOLE, LINED: LINES, TOML: TOML_WHOLE}[form]
    if random.random() < 0.05:
        return _encoded(random.choice(whole), random)
    if form in (LINED, TOML):
        odd = LINES if form == LINED else TOML_LINES
        return _noisy(_encoded(_mutated_lines(seed, odd, random), random), random, share=0.4)
    tree = deepcopy(seed)
    for _ in range(random.choice((0, 1, 1, 1, 1, 1, 2, 3))):
        tree = _mutated_tree(tree, form, random)
    text = _in_brackets(tree) if form == JSON else "\n".join(_as_yaml(tree, random)) + "\n"
    return _noisy(_encoded(text, random), random, share=0.15)


def _places(tree: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the path of every value below the top; long lists have only their first values."""
    entries = tree.items() if isinstance(tree, dict) else enumerate(tree[:20]) if isinstance(tree, list) else ()
    for key, value in entries:
        yield (*path, key)
        yield from _places(value, (*path, key))


def _at(tree: Any, path: tuple[Any, ...]) -> Any:
    for key in path:
        tree = tree[key]
    return tree


def _mutated_tree(tree: Any, form: str, random: Random) -> Any:
    paths = list(_places(tree))
    if not paths:
        return nasty_value(form, random)
    path = random.choice(paths)
    owner, key = _at(tree, path[:-1]), path[-1]
    kind = random.random()
    if kind < 0.62:
        owner[key] = nasty_value(form, random)
    elif kind < 0.70:
        del owner[key]
    elif kind < 0.76:
        other = _at(tree, random.choice(paths))
        owner[key] = deepcopy(other)
    elif kind < 0.82 and isinstance(owner, dict):
        name = random.choice([*(p[-1] for p in paths if isinstance(p[-1], str)), *filter(_is_text, TEXTS)])
        owner[name] = owner.pop(key)
    elif kind < 0.88:
        owner[key] = random.choice(([owner[key]], {"a": owner[key]}, [owner[key]] * random.choice((0, 2, 30, 3000))))
    elif kind < 0.94 and isinstance(owner[key], int | float) and not isinstance(owner[key], bool):
        owner[key] = random.choice(_near(owner[key]))
    elif isinstance(owner, list):
        owner.insert(random.randrange(len(owner) + 1), deepcopy(owner[key]))
    else:
        owner[f"{key}{random.randrange(9)}"] = deepcopy(owner[key])
    return tree


def _near(number: float) -> tuple[Any, ...]:
    """Return numbers made from one, and its text; of an integer of any length."""
    third = number // 3 if isinstance(number, int) and abs(number) > 10**300 else number / 3
    return number * 10, -number, number + 1, third, _scalar(number)


def nasty_value(form: str, random: Random) -> Any:
    """Return a value that may break a reader."""
    raw = JSON_RAW if form == JSON else YAML_RAW
    return deepcopy(random.choice(random.choice((NUMBERS, TEXTS, SHAPES, raw, raw))))


def _is_text(value: object) -> bool:
    return isinstance(value, str)


def _in_brackets(value: Any) -> str:
    """Return a value as JSON, which YAML reads too."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(str(key))}: {_in_brackets(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(_in_brackets, value)) + "]"
    return _scalar(value)


def _as_yaml(value: Any, random: Random, indent: str = "") -> list[str]:
    """Return lines: mappings mostly in block style, lists mostly in brackets."""
    if isinstance(value, dict) and value and random.random() < 0.9:
        lines = []
        for key, item in value.items():
            name = str(key) if str(key).isidentifier() else json.dumps(str(key))
            nested = isinstance(item, dict) and item
            if nested:
                lines += [f"{indent}{name}:", *_as_yaml(item, random, indent + "  ")]
            else:
                first, *rest = _as_yaml(item, random, indent + "  ")
                lines += [f"{indent}{name}: {first.lstrip(' ')}", *rest]
        return lines
    if isinstance(value, list | tuple) and value and random.random() < 0.1:
        lines = []
        for item in value:
            first, *rest = _as_yaml(item, random, indent + "  ")
            lines += [f"{indent}- {first.lstrip(' ')}", *rest]
        return ["", *lines]
    return [indent + _in_brackets(value)]


def _scalar(value: Any) -> str:
    try:
        return json.dumps(value)
    except ValueError:  # an integer of more digits than Python writes
        return hex(value)


def _mutated_lines(text: str, odd: Sequence[str], random: Random) -> str:
    lines = text.splitlines()
    for _ in range(random.choice((1, 1, 2, 5))):
        at = random.randrange(len(lines) + 1)
        kind = random.random()
        if kind < 0.5 or not lines:
            lines.insert(at, random.choice(odd))
        elif kind < 0.7:
            del lines[at % len(lines)]
        elif kind < 0.85:
            lines[at % len(lines)] += "," + random.choice(lines)
        else:
            random.shuffle(lines)
    return "\n".join(lines)


def _encoded(text: str, random: Random) -> bytes:
    kind = random.random()
    if kind < 0.01:
        return text.encode("utf-16", "surrogatepass")
    if kind < 0.02:
        return text.replace("\n", "\r\n").encode("utf-8", "surrogatepass")
    if kind < 0.03:
        return b"\xef\xbb\xbf" + text.encode("utf-8", "surrogatepass")
    return text.encode("utf-8", "surrogatepass")


def _noisy(data: bytes, random: Random, *, share: float) -> bytes:
    """Return `data`, a share of the time with bytes changed, cut, doubled or compressed."""
    if random.random() >= share or not data:
        return data
    for _ in range(random.choice((1, 1, 3, 10))):
        at, kind = random.randrange(len(data) + 1), random.random()
        if kind < 0.4:
            data = data[:at] + random.choice(BYTES) + data[at:]
        elif kind < 0.6:
            data = data[:at] + bytes([random.randrange(256)]) + data[at + 1 :]
        elif kind < 0.75:
            data = data[:at] + data[at + random.choice((1, 2, 10, 100)) :]
        elif kind < 0.85:
            data = data[:at]
        elif kind < 0.95:
            data = data[:at] + data[max(0, at - 50) :]
        else:
            data = gzip.compress(data, mtime=0)  # an input is the same whenever it is made
    return data
