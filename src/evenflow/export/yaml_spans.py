"""The places of mappings, their keys and values in a YAML text, as ranges of characters.

A round trip through a YAML library would reformat a user's file. To change single values, their text is replaced in
place, and this module says where it is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from ruamel.yaml.events import AliasEvent, CollectionEndEvent, MappingStartEvent, ScalarEvent

from evenflow.profiles.yaml_values import node_events


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """The text ``[start, end)`` of a scalar, an alias or a collection, its anchor and tag included.

    A block collection ends where its last item ends, a text after ``|`` or ``>`` before the line breaks that do not
    count. A value that is left out has ``start == end``.
    """

    start: int
    end: int
    line: int
    """Line of the text, counted from 1."""
    name: str = ""
    """Value of a scalar, or the name that an alias repeats."""
    anchor: str | None = None
    is_alias: bool = False
    is_plain: bool = False
    """Whether this is a scalar without quotes."""
    is_block: bool = False
    """Whether this is a collection without brackets, or a scalar after ``|`` or ``>``."""
    is_mapping: bool = False
    items: tuple["Span", ...] = ()
    """Items of a sequence; keys and values of a mapping in turn."""

    @property
    def is_null(self) -> bool:
        """Whether the value is left out, or `null` in one of its spellings."""
        return self.is_plain and self.name in ("", "~", "null", "Null", "NULL")

    @property
    def has_merge(self) -> bool:
        """Whether this is a mapping that takes over entries of others, by the key ``<<``."""
        return self.is_mapping and any(key.is_plain and key.name == "<<" for key in self.items[::2])

    def entry(self, name: str) -> tuple["Span", "Span"] | None:
        """Return key and value under `name` that stand in this mapping itself."""
        pairs = zip(self.items[::2], self.items[1::2], strict=True)
        return next(((key, value) for key, value in pairs if key.name == name and not key.is_alias), None)

    def walk(self) -> Iterator["Span"]:
        """Yield this span and all inside it."""
        yield self
        for item in self.items:
            yield from item.walk()


def yaml_spans(text: str, *, file: str) -> Span:
    """Return the spans of the one document in `text`, which is not empty.

    Raises:
        InputError: as `node_events` does.
    """
    events = node_events(text, file=file)
    return _span(next(events), events, text)


def _span(event: Any, rest: Iterator[Any], text: str) -> Span:
    """Return the span that `event` begins, with items taken from `rest`."""
    start, end, line = event.start_mark.index, event.end_mark.index, event.start_mark.line + 1
    if isinstance(event, AliasEvent):
        return Span(start=start, end=end, line=line, name=event.anchor, is_alias=True)
    if isinstance(event, ScalarEvent):
        is_block = event.style in ("|", ">")
        if is_block and "+" not in text[start:end].splitlines()[0]:
            end = start + len(text[start:end].rstrip())
        return Span(
            start=start,
            end=end,
            line=line,
            name=event.value,
            anchor=event.anchor,
            is_plain=not event.style,
            is_block=is_block,
        )
    is_mapping = isinstance(event, MappingStartEvent)
    items: list[Span] = []
    while not isinstance(item := next(rest), CollectionEndEvent):
        span = _span(item, rest, text)
        if span.start == span.end:
            span = _left_out(span, text, after=items[-1].end if items else start, indicator=":" if is_mapping else "-")
        items.append(span)
    return Span(
        start=start,
        end=item.end_mark.index if event.flow_style else items[-1].end,
        line=line,
        anchor=event.anchor,
        is_block=not event.flow_style,
        is_mapping=is_mapping,
        items=tuple(items),
    )


def _left_out(span: Span, text: str, *, after: int, indicator: str) -> Span:
    """Return a value that is left out, right behind its indicator; the library says where the next token begins."""
    match = re.compile(rf"(?:\s|#[^\r\n]*[\r\n])*{indicator}").match(text, after)
    at = match.end() if match else after
    return replace(span, start=at, end=at)
