"""Values written into the configuration YAML of a user, whose file is otherwise unchanged, byte for byte."""

from collections.abc import Mapping, Sequence

from evenflow.errors import InputError
from evenflow.export.yaml_edit import set_value
from evenflow.language import _
from evenflow.profiles.yaml_values import load_document

BOM = "\ufeff"
"""The mark that a file may begin with."""


def apply_to_training_yaml(text: str, *, file: str, values: Mapping[str, object]) -> str:
    """Return `text` with `values` by dotted key, such as ``model.model_config.offset``; nothing else changes.

    Values are integers, booleans, texts, lists and mappings, written on one line. A value that the file already has
    keeps its text. A key that is missing is added at the end of its mapping.

    Raises:
        InputError: text that is not YAML with a mapping at its top, a key that cannot be set without changing
            something else. The result is read back, so what cannot be set is refused, never spoiled.
    """
    bom = BOM if text.startswith(BOM) else ""
    before = after = text.removeprefix(BOM)
    document = load_document(before, file=file).value
    if not isinstance(document, dict):
        raise InputError(value=type(document).__name__, rule=_("must be a mapping at its top"), place=file)
    expected: object = document
    for key, value in values.items():
        path = key.split(".")
        if not _same(value_at(document, path), value):
            after = set_value(after, path, value, file=file)
            expected = _with(expected, path, value)
    if not _same(_reread(after, file), expected):
        rule = _("must let these keys be set without changing anything else: {names}", names=", ".join(values))
        raise InputError(rule=rule, place=file, remedy=_("set them by hand"))
    return bom + after


def _reread(text: str, file: str) -> object:
    try:
        return load_document(text, file=file).value
    except InputError:
        return None


def value_at(document: object, path: Sequence[str]) -> object:
    """Return the value under the keys of `path`; None where there is none."""
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


def _with(document: object, path: Sequence[str], value: object) -> object:
    """Return a copy of `document` with `value` under `path`; values shared by aliases stay as they are elsewhere."""
    if not path:
        return value
    entries = document if isinstance(document, dict) else {}
    return {**entries, path[0]: _with(entries.get(path[0]), path[1:], value)}


def _same(left: object, right: object) -> bool:
    """Return whether YAML values are equal, where true is not 1, tuples are lists, and NaN is itself."""
    if isinstance(left, Mapping) and isinstance(right, Mapping):
        return left.keys() == right.keys() and all(_same(left[key], right[key]) for key in left)
    if isinstance(left, list | tuple) and isinstance(right, list | tuple):
        return len(left) == len(right) and all(map(_same, left, right))
    return type(left) is type(right) and (left == right or (left != left and right != right))
