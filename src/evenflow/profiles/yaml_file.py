"""YAML text as `Fields` that know their lines."""

from collections.abc import Mapping

from evenflow.fields import Fields, as_fields, load_json
from evenflow.profiles.yaml_values import load_document


def load_yaml(text: str, *, file: str) -> Fields:
    """Return the document as an object, with the line of every field by its dotted path.

    Raises:
        InputError: as `load_document` does, and a document that is no object.
    """
    document = load_document(text, file=file)
    return Fields(values=as_fields(document.value, file=file).values, file=file, lines=document.lines)


def load_object(text: str, *, file: str) -> Fields:
    """Return the object in a text that is JSON by the ending of its file's name, and else YAML.

    Raises:
        InputError: as `load_json` or `load_yaml` does.
    """
    if file.lower().endswith(".json"):
        return as_fields(load_json(text, file=file), file=file)
    return load_yaml(text, file=file)


def section(fields: Fields, key: str) -> Fields:
    """Return the object under `key`, with the lines of its fields."""
    inner = fields.inner(key)
    return Fields(values=inner.values, file=inner.file, path=inner.path, lines=_lines_under(fields, key))


def optional_section(fields: Fields, key: str) -> Fields:
    """Return the object under `key`; an empty one where there is none."""
    if fields.values.get(key) is not None:
        return section(fields, key)
    path = f"{fields.path}.{key}" if fields.path else key
    return Fields(values={}, file=fields.file, path=path)


def _lines_under(fields: Fields, key: str) -> Mapping[str, int]:
    prefix = key + "."
    return {path.removeprefix(prefix): line for path, line in fields.lines.items() if path.startswith(prefix)}
