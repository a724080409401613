"""Set or take out one value in a YAML text and leave every other character as it is. A text that is JSON stays JSON."""

import json
import re
from collections.abc import Sequence

from evenflow.errors import InputError
from evenflow.export.yaml_spans import Span, yaml_spans
from evenflow.language import _
from evenflow.profiles.yaml_text import entry_lines, format_key, format_value

_COLON = re.compile(r"[ \t]*:")
_COMMENT = re.compile(r"[ \t]+#[^\r\n]*")
_LINE_BREAK = re.compile(r"\r\n|\r|\n")


def set_value(text: str, path: Sequence[str], value: object, *, file: str) -> str:
    """Return `text` with `value` under the keys of `path`.

    A value that is there is replaced whole: also an alias, a list over several lines with the comments inside it, an
    anchor that nothing repeats. A key that is missing is added at the end of its mapping, and missing mappings are
    created.

    Raises:
        InputError: a key of the path holds something other than a mapping, or holds text that is repeated elsewhere.
    """
    root = parent = yaml_spans(text, file=file)
    as_json = _is_json(text)
    for depth, name in enumerate(path):
        _check_mapping(parent, root, path[:depth], file=file)
        entry = parent.entry(name)
        inside = path[depth + 1 :]
        if entry is None:
            if parent.has_merge and inside:
                raise _refusal(
                    path[: depth + 1],
                    parent,
                    file=file,
                    value="<<",
                    rule=_("must stand in this place itself, not come from a merge key, which other places share"),
                    remedy=_("write {name!r} out in this place", name=name),
                )
            return _with_entry(text, parent, name, _nested(inside, value), as_json=as_json)
        key, old = entry
        if not inside or old.is_null:
            _check_not_repeated(old, root, path[: depth + 1], file=file)
            new = _nested(inside, value)
            return _with_value(text, key, old, json.dumps(new) if as_json else format_value(new), file=file)
        parent = old
    raise AssertionError("an empty path")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except ValueError:
        return False
    return True


def without_entry(text: str, path: Sequence[str], *, file: str) -> str:
    """Return `text` without the lines of the key under `path`, which is there; a mapping that it leaves empty goes too.

    Raises:
        InputError: the key does not have its lines for itself, or holds text that is repeated elsewhere.
    """
    root = yaml_spans(text, file=file)
    parents = [root]
    entries: list[tuple[Span, Span]] = []
    for depth, name in enumerate(path):
        _check_mapping(parents[-1], root, path[:depth], file=file)
        entry = parents[-1].entry(name)
        if entry is None:
            raise AssertionError(name)
        entries.append(entry)
        parents.append(entry[1])
    depth = len(path) - 1
    while depth and len(parents[depth].items) == 2:
        depth -= 1
    key, value = entries[depth]
    _check_not_repeated(value, root, path[: depth + 1], file=file)
    begin = key.start - _column(text, key.start)
    end = _line_end(text, begin + len(text[begin : max(key.end, value.end)].rstrip()))
    rest = text[max(key.end, value.end) : end].lstrip(" \t:")
    if not parents[depth].is_block or text[begin : key.start].strip() or not (not rest or rest.startswith("#")):
        rule = _("must have its lines for itself, to be taken out")
        raise _refusal(path[: depth + 1], key, file=file, value=path[depth], rule=rule, remedy=_("take it out by hand"))
    line_break = _LINE_BREAK.match(text, end)
    return text[:begin] + text[line_break.end() if line_break else end :]


def _with_value(text: str, key: Span, old: Span, new: str, *, file: str) -> str:
    """Return `text` with `new` in the place of `old`."""
    if old.start == old.end:
        colon = ":" if old.start == key.end else ""  # {key} in a flow mapping
        return f"{text[: old.start]}{colon} {new}{text[old.start :]}"
    if not old.is_block:
        return text[: old.start] + new + text[old.end :]
    # A block value begins below its key. The new one goes beside the key, before the comment there.
    colon_at = _COLON.match(text, key.end)
    if colon_at is None:
        place = f"{file}, line {key.line}"
        raise InputError(value=f"? {key.name}", rule=_("must have a colon behind its key"), place=place)
    comment = _COMMENT.search(text, colon_at.end(), _line_end(text, colon_at.end()))
    last = old.start + len(text[old.start : old.end].rstrip())
    return f"{text[: colon_at.end()]} {new}{comment[0] if comment else ''}{text[_line_end(text, last) :]}"


def _with_entry(text: str, parent: Span, name: str, value: object, *, as_json: bool) -> str:
    """Return `text` with a new last entry in the mapping `parent`."""
    if not parent.is_block:
        entry = json.dumps({name: value})[1:-1] if as_json else f"{format_key(name)}: {format_value(value)}"
        if not parent.items:
            return text[: parent.end - 1] + entry + text[parent.end - 1 :]
        # Without the space, a last value that is left out would join its colon to the comma.
        at = parent.items[-1].end
        space = " " if parent.items[-1].start == at else ""
        return f"{text[:at]}{space}, {entry}{text[at:]}"
    first_line = _LINE_BREAK.search(text)
    line_break = first_line[0] if first_line else "\n"
    lines = entry_lines(name, value, indent=_column(text, parent.items[0].start))
    if text[parent.end - 1] in "\r\n":  # after a text whose last line breaks count
        return text[: parent.end] + "".join(line + line_break for line in lines) + text[parent.end :]
    at = _line_end(text, parent.end)
    return text[:at] + "".join(line_break + line for line in lines) + text[at:]


def _nested(names: Sequence[str], value: object) -> object:
    for name in reversed(names):
        value = {name: value}
    return value


def _line_end(text: str, index: int) -> int:
    """Return where the line of `index` ends, before its line break."""
    line_break = _LINE_BREAK.search(text, index)
    return line_break.start() if line_break else len(text)


def _column(text: str, index: int) -> int:
    return index - max(text.rfind("\n", 0, index), text.rfind("\r", 0, index)) - 1


def _check_mapping(span: Span, root: Span, path: Sequence[str], *, file: str) -> None:
    """Refuse what has no entries of its own to change."""
    if span.is_alias:
        rule = _("must not be the alias of another mapping, which would change with it")
        raise _refusal(path, span, file=file, value=f"*{span.name}", rule=rule, remedy=_("write the mapping out here"))
    if not span.is_mapping:
        rule = _("must be a mapping, with keys and values")
        raise _refusal(path, span, file=file, value=span.name or "a list", rule=rule)
    if span.anchor:
        _check_anchor(span, span.anchor, root, path, file=file)


def _check_not_repeated(old: Span, root: Span, path: Sequence[str], *, file: str) -> None:
    """Refuse to replace what an alias elsewhere repeats."""
    for span in old.walk():
        if span.anchor:
            _check_anchor(span, span.anchor, root, path, file=file)


def _check_anchor(span: Span, anchor: str, root: Span, path: Sequence[str], *, file: str) -> None:
    uses = [other.line for other in root.walk() if other.is_alias and other.name == anchor]
    if uses:
        rule = _(
            "must not be repeated elsewhere, as *{anchor} in line {line} does, which would change with it",
            anchor=anchor,
            line=uses[0],
        )
        remedy = _("write the value out in line {line}", line=uses[0])
        raise _refusal(path, span, file=file, value=f"&{anchor}", rule=rule, remedy=remedy)


def _refusal(path: Sequence[str], span: Span, *, file: str, value: str, rule: str, remedy: str = "") -> InputError:
    place = f"{file}, line {span.line}"
    return InputError(
        value=value,
        rule=rule,
        place=f"{place}: {'.'.join(path)}" if path else place,
        remedy=remedy,
    )
