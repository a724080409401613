"""YAML text as `Fields` that know their lines."""

from collections.abc import Iterator, Mapping

from ruamel.yaml import YAML, MappingNode, ScalarNode
from ruamel.yaml.error import YAMLError

from evenflow.fields import Fields, as_fields, not_readable

_DEEPEST = 3
"""Objects within objects whose lines are kept; no file here has more, and an alias may nest without end."""


def load_yaml(text: str, *, file: str) -> Fields:
    """Return the document as an object, with the line of every field by its dotted path.

    Raises:
        InputError: text that is not YAML, a key given twice, or a document that is no object.
    """
    yaml = YAML(typ="safe", pure=True)
    try:
        values = yaml.load(text)
        node = yaml.compose(text)
    except (YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        at = (mark.line + 1, mark.column + 1) if mark else None
        problem = getattr(error, "problem", None) or str(error)
        raise not_readable(text, file=file, form="YAML", at=at, problem=problem) from None
    fields = as_fields(values, file=file)
    return Fields(values=fields.values, file=file, lines=dict(_lines(node)))


def section(fields: Fields, key: str) -> Fields:
    """Return the object under `key`, with the lines of its fields."""
    inner = fields.inner(key)
    return Fields(values=inner.values, file=inner.file, path=inner.path, lines=_lines_under(fields, key))


def _lines(node: MappingNode, prefix: str = "", depth: int = 1) -> Iterator[tuple[str, int]]:
    for key, value in node.value:
        if not isinstance(key, ScalarNode):
            continue
        path = prefix + key.value
        yield path, key.start_mark.line + 1
        if isinstance(value, MappingNode) and depth < _DEEPEST:
            yield from _lines(value, path + ".", depth + 1)


def _lines_under(fields: Fields, key: str) -> Mapping[str, int]:
    prefix = key + "."
    return {path.removeprefix(prefix): line for path, line in fields.lines.items() if path.startswith(prefix)}
