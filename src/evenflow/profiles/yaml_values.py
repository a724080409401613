"""The one door for YAML: its events within limits, and the value of a document.

A library that builds values from YAML follows tags into any type, aliases into themselves, and nine lists of nine
aliases each into billions of values. Here the library only cuts the text into events. Values are made from them: texts,
numbers, true, false, null, lists and mappings. Documents of people are far below the limits.
"""

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError
from ruamel.yaml.events import (
    AliasEvent,
    CollectionEndEvent,
    DocumentStartEvent,
    MappingStartEvent,
    NodeEvent,
    ScalarEvent,
)
from ruamel.yaml.nodes import ScalarNode

from evenflow.errors import shown
from evenflow.fields import not_readable
from evenflow.language import _

MOST_CHARACTERS = 2**20
MOST_VALUES = 30_000
"""Values of a document, those behind every alias counted again."""
DEEPEST = 50
"""Most lists and mappings within one another."""

_MOST_BITS = 10_000
"""Bits of an integer that can still be written in decimal."""
_TAG = "tag:yaml.org,2002:"
_LIST, _MAPPING, _MERGE = _TAG + "seq", _TAG + "map", _TAG + "merge"
_SCALARS = tuple(_TAG + name for name in ("str", "int", "float", "bool", "null"))
_LINES_DEPTH = 4
"""Mappings within mappings whose lines are kept; no file here has more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Document:
    """The value of a YAML text, and where its fields stand."""

    value: object
    lines: dict[str, int]
    """Line of a field by its dotted path, for the first levels."""


@dataclass(slots=True, eq=False)
class _Extent:
    """How many values are in a collection, and how deep they nest."""

    values: int = 1
    depth: int = 1

    def add(self, inner: "_Extent") -> None:
        """Count a finished value inside this collection."""
        self.values += inner.values
        self.depth = max(self.depth, inner.depth + 1)


def node_events(text: str, *, file: str) -> Iterator[Any]:
    """Yield the events of the nodes of the one document in `text`; none for an empty text.

    Raises:
        InputError: text that is not YAML, has several documents, or is beyond the limits on size, values and depth.
    """
    if len(text) > MOST_CHARACTERS:
        raise _too_much(
            text,
            None,
            _("it has {length:,} characters, and at most {limit:,} are read", length=len(text), limit=MOST_CHARACTERS),
            file,
        )
    with clear_errors(text, file):
        documents = values = 0
        opened: list[_Extent] = []
        anchors: dict[str, _Extent] = {}
        for event in YAML(typ="safe", pure=True).parse(text):
            if isinstance(event, DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise _too_much(text, event, _("a second document begins here, and only one is read"), file)
            elif isinstance(event, CollectionEndEvent):
                ended = opened.pop()
                if opened:
                    opened[-1].add(ended)
                yield event
            elif isinstance(event, NodeEvent):
                values += _values_of(event, opened, anchors, text, file)
                if values > MOST_VALUES:
                    problem = _(
                        "there must be at most {limit:,} values, those behind every alias counted again",
                        limit=MOST_VALUES,
                    )
                    raise _too_much(text, event, problem, file)
                yield event


def _values_of(event: Any, opened: list[_Extent], anchors: dict[str, _Extent], text: str, file: str) -> int:
    """Return how many values a node adds; refuse one that is too deep, or an alias of nothing or of itself."""
    extent = _Extent()
    if isinstance(event, AliasEvent):
        named = anchors.get(event.anchor)
        if named is None:
            raise _too_much(text, event, _("*{name} repeats what has not been named", name=event.anchor), file)
        if named in opened:
            raise _too_much(text, event, _("*{name} must not stand inside what it repeats", name=event.anchor), file)
        extent = named
    elif event.anchor:
        anchors[event.anchor] = extent
    depth = len(opened) + extent.depth
    if depth > DEEPEST:
        raise _too_much(text, event, _("lists and mappings must nest at most {limit} deep", limit=DEEPEST), file)
    if not isinstance(event, AliasEvent | ScalarEvent):
        opened.append(extent)
    elif opened:
        opened[-1].add(extent)
    return extent.values


@dataclass(slots=True)
class _Open:
    """A list or mapping that is still being read."""

    anchor: str | None
    items: list[Any] = field(default_factory=list)
    values: dict[Any, Any] | None = None
    """Entries of a mapping; None for a list."""
    merged: list[dict[Any, Any]] = field(default_factory=list)
    """Mappings of a merge key, whose entries count where there is no other."""
    key: Any = None
    has_key: bool = False
    is_merge: bool = False
    path: str | None = None
    """Dotted path with a dot at its end; None where lines are not kept."""
    depth: int = 1

    def whole(self) -> object:
        """Return the finished list or mapping, with merged mappings filled in."""
        if self.values is None:
            return self.items
        return {**{key: value for mapping in reversed(self.merged) for key, value in mapping.items()}, **self.values}


def load_document(text: str, *, file: str) -> Document:
    """Return the value of a YAML text with one document; None for an empty one.

    Plain scalars are what the core schema of YAML 1.2 says. Explicit tags of that schema are read, others refused.

    Raises:
        InputError: as `node_events` does; a tag of another type, a value that is not of its tag's type, a key given
            twice or that is no scalar, a merge key without mappings.
    """
    resolver = YAML(typ="safe", pure=True)
    lines: dict[str, int] = {}
    anchors: dict[str, object] = {}
    opened: list[_Open] = []
    result: object = None
    for event in node_events(text, file=file):
        value: object
        if isinstance(event, CollectionEndEvent):
            ended = opened.pop()
            value = ended.whole()
            if ended.anchor:
                anchors[ended.anchor] = value
        elif isinstance(event, AliasEvent):
            value = anchors[event.anchor]
        elif isinstance(event, ScalarEvent):
            value = _scalar(event, resolver, text, file)
            if event.anchor:
                anchors[event.anchor] = value
        else:
            opened.append(_opened(event, opened[-1] if opened else None, text, file))
            continue
        if opened:
            _put(opened[-1], value, event, lines, text, file)
        else:
            result = value
    return Document(value=result, lines=lines)


def _opened(event: Any, owner: _Open | None, text: str, file: str) -> _Open:
    """Return a new list or mapping for the event that begins it."""
    is_mapping = isinstance(event, MappingStartEvent)
    tag = None if event.ctag is None else str(event.ctag)
    if tag not in (None, "!", _MAPPING if is_mapping else _LIST):
        raise _wrong_tag(event, text, file)
    if owner is not None and owner.values is not None and not owner.has_key:
        raise _too_much(text, event, _("a key must be a single value, not a list or mapping"), file)
    path = "" if owner is None else None
    if owner is not None and owner.path is not None and owner.has_key and owner.depth < _LINES_DEPTH:
        path = f"{owner.path}{owner.key}."
    depth = 1 if owner is None else owner.depth + 1
    return _Open(event.anchor, values={} if is_mapping else None, path=path if is_mapping else None, depth=depth)


def _put(owner: _Open, value: Any, event: Any, lines: dict[str, int], text: str, file: str) -> None:
    """Add a whole value to the collection that it stands in: as item, as key, or as the value of the key before."""
    if owner.values is None:
        owner.items.append(value)
    elif not owner.has_key:
        if isinstance(value, list | dict):
            raise _too_much(text, event, _("a key must be a single value, not a list or mapping"), file)
        owner.is_merge = isinstance(event, ScalarEvent) and event.value == "<<" and not event.style
        if value in owner.values or (owner.is_merge and owner.merged):
            raise _too_much(text, event, _("the key {key} is given twice", key=shown(value)), file)
        owner.key, owner.has_key = value, True
        if owner.path is not None:
            lines[f"{owner.path}{value}"] = event.start_mark.line + 1
    elif owner.is_merge:
        owner.has_key = False
        mappings = value if isinstance(value, list) else [value]
        if not mappings or not all(isinstance(mapping, dict) for mapping in mappings):
            raise _too_much(text, event, _("a merge key (<<) must have a mapping or a list of mappings"), file)
        owner.merged = mappings
    else:
        owner.values[owner.key] = value
        owner.has_key = False


def _scalar(event: Any, yaml: YAML, text: str, file: str) -> object:
    """Return the value of a scalar."""
    tag = None if event.ctag is None else str(event.ctag)
    if tag == "!" or (tag is None and event.style):
        return event.value
    if tag is not None and tag not in _SCALARS:
        raise _wrong_tag(event, text, file)
    plain = yaml.resolver.resolve(ScalarNode, event.value, (True, False))
    wanted = plain if tag is None else tag
    if wanted not in _SCALARS[1:] or (tag is None and plain == _MERGE):
        return event.value
    if plain != wanted and (plain, wanted) != (_TAG + "int", _TAG + "float"):
        raise _wrong_tag(event, text, file)
    if wanted == _TAG + "null":
        return None
    if wanted == _TAG + "bool":
        return event.value.lower() == "true"
    node = ScalarNode(wanted, event.value, event.start_mark, event.end_mark)
    make = yaml.constructor.construct_yaml_int if plain == _TAG + "int" else yaml.constructor.construct_yaml_float
    try:
        number = make(node)
        if isinstance(number, int) and number.bit_length() > _MOST_BITS:
            raise ValueError
    except (ValueError, IndexError):  # digits without end, or none behind a sign
        raise _too_much(
            text, event, _("{value} is no number that can be read", value=shown(event.value)), file
        ) from None
    return float(number) if wanted == _TAG + "float" else number


def _wrong_tag(event: Any, text: str, file: str) -> Exception:
    tag = str(event.ctag)
    written = f"!!{tag.removeprefix(_TAG)}" if tag.startswith(_TAG) else tag
    node = _("a list or mapping") if not isinstance(event, ScalarEvent) else shown(event.value)
    return _too_much(text, event, _("{what} must not have the tag {tag}", what=node, tag=shown(written)), file)


def _too_much(text: str, event: Any, problem: str, file: str) -> Exception:
    """Return the refusal of a text at an event; of the whole text without one."""
    at = None if event is None else (event.start_mark.line + 1, event.start_mark.column + 1)
    return not_readable(text, file=file, form="plain YAML", at=at, problem=problem)


@contextmanager
def clear_errors(text: str, file: str) -> Iterator[None]:
    """Turn the errors of the YAML library into one message with the line; its warnings of legal anchors are dropped."""
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    except (YAMLError, ValueError, RecursionError) as error:
        mark = getattr(error, "problem_mark", None)
        raise not_readable(
            text,
            file=file,
            form="YAML",
            at=(mark.line + 1, mark.column + 1) if mark else None,
            problem=" ".join(str(getattr(error, "problem", None) or error).split()),  # some of its messages have lines
        ) from None
