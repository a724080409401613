"""Values set in a YAML text.

The property test draws a document as a model, renders it, and renders it again with the value in its place: what
evenflow makes of the first text must be the second, to the byte.
"""

import json
from dataclasses import dataclass, replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from evenflow.errors import InputError
from evenflow.export.train_yaml import apply_to_training_yaml
from evenflow.profiles.yaml_text import format_value
from tests.thoroughness import examples


@dataclass(frozen=True)
class Entry:
    """One key of a mapping and its value."""

    key: str
    form: str = "beside"
    """beside: `text`, on the line of the key; items, literal: `value`, below it; block, flow: `inner`."""
    text: str = ""
    value: object = None
    comment: str = ""
    quote: str = ""
    indent: int = 2
    inner: "tuple[Entry | str, ...]" = ()

    def lines(self, margin: str) -> list[str]:
        start, below = f"{margin}{self.quote}{self.key}{self.quote}:", margin + " " * self.indent
        if self.form == "beside":
            return [f"{start}{' ' if self.text else ''}{self.text}{self.comment}"]
        if self.form == "flow":
            inner = ", ".join(line for item in self.inner if isinstance(item, Entry) for line in item.lines(""))
            return [f"{start} {{{inner}}}{self.comment}"]
        if self.form == "items":
            assert isinstance(self.value, list)
            return [start + self.comment, *(f"{below}- {item}  # item" for item in self.value)]
        if self.form == "literal":
            return [f"{start} |{self.comment}", *(f"{below} {line}" for line in str(self.value).splitlines())]
        return [start + self.comment, *lines(self.inner, below)]


Items = tuple[Entry | str, ...]
"""Entries of a mapping, and lines of comments between them."""


def lines(items: Items, margin: str = "") -> list[str]:
    return [line for item in items for line in (item.lines(margin) if isinstance(item, Entry) else [item])]


def plain(items: Items) -> dict[str, object]:
    """The document as Python values."""
    return {
        item.key: plain(item.inner) if item.form in ("block", "flow") else item.value
        for item in items
        if isinstance(item, Entry)
    }


def nested(names: list[str], value: object) -> object:
    return nested(names[:-1], {names[-1]: value}) if names else value


def with_value(items: Items, path: list[str], value: object, *, flow: bool = False) -> Items:
    """`items` with `value` under `path`: in the place of the old one, or after the last entry."""
    name, *rest = path
    for index, item in enumerate(items):
        if isinstance(item, Entry) and item.key == name:
            if rest and item.form in ("block", "flow"):
                new = replace(item, inner=with_value(item.inner, rest, value, flow=item.form == "flow"))
            elif rest and item.value is not None:
                raise InputError(value=item.value, rule="a mapping", place=name)
            else:
                whole = nested(rest, value)
                new = replace(item, form="beside", text=format_value(whole), value=whole)
            return (*items[:index], new, *items[index + 1 :])
    if rest and not flow:
        new = Entry(name, form="block", inner=with_value((), rest, value))
    else:
        whole = nested(rest, value)
        new = Entry(name, text=format_value(whole), value=whole)
    last = max((index for index, item in enumerate(items) if isinstance(item, Entry)), default=-1)
    return (*items[: last + 1], new, *items[last + 1 :])


NAMES = st.sampled_from(["model", "offset", "a", "b-c"])
COMMENTS = st.sampled_from(["", "", " # why: {a: 1}", "   # \ttab", "  #"])
SCALARS = [
    *[("0", 0), ("False", False), ("'1, 2'", "1, 2"), ('"x # y"', "x # y"), ("~", None), ("[]", []), ("a b", "a b")],
    *[("[0, 1]", [0, 1]), ("[ [1 ,2], [3, 4,] ]", [[1, 2], [3, 4]]), ("&anchor 3", 3), ("!!int 4", 4)],
]
BESIDE = [*SCALARS, ("", None), ("[1,   # one\n               2]", [1, 2]), ("two\n               lines", "two lines")]
VALUES = st.one_of(
    st.booleans(), st.integers(-99, 99), st.lists(st.lists(st.integers(-9, 9), max_size=3), max_size=3), st.just("1f1b")
)


def ends_in_literal(items: Items) -> bool:
    last = items[-1] if items else ""
    return isinstance(last, Entry) and (last.form == "literal" or ends_in_literal(last.inner))


@st.composite
def mappings(draw: st.DrawFn, depth: int = 0) -> Items:
    items: list[Entry | str] = []
    for key in draw(st.lists(NAMES, unique=True, min_size=1)):
        # After a text block an indented comment would be part of the text.
        notes = ["", "#", "# a: 1"] + ["         # deep ["] * (not ends_in_literal(tuple(items)))
        items += draw(st.lists(st.sampled_from(notes), max_size=2))
        entry = Entry(key, comment=draw(COMMENTS), quote=draw(st.sampled_from(["", "'", '"'])))
        form = draw(st.sampled_from(["beside", "beside", "items", "literal", "flow"] + ["block"] * 3 * (depth < 2)))
        if form == "beside":
            text, value = draw(st.sampled_from(BESIDE))
            entry = replace(entry, text=text, value=value)
        elif form == "items":
            value = draw(st.lists(st.integers(0, 9), min_size=1, max_size=3))
            entry = replace(entry, form=form, value=value, indent=draw(st.sampled_from([0, 2, 4])))
        elif form == "literal":
            entry = replace(entry, form=form, value="a: [1\n  # text\n")
        elif form == "block":
            entry = replace(entry, form=form, inner=draw(mappings(depth + 1)), indent=draw(st.sampled_from([1, 2, 4])))
        else:
            keys = draw(st.lists(NAMES, unique=True))
            pairs = [(key, draw(st.sampled_from(SCALARS))) for key in keys]
            entry = replace(
                entry, form=form, inner=tuple(Entry(key, text=text, value=value) for key, (text, value) in pairs)
            )
        items.append(entry)
    return tuple(items)


def found(document: object, path: list[str]) -> object:
    for name in path:
        document = document.get(name) if isinstance(document, dict) else None
    return document


@pytest.mark.filterwarnings("ignore::ruamel.yaml.error.ReusedAnchorWarning")
@settings(report_multiple_bugs=False)
@given(
    mappings(),
    st.lists(NAMES, min_size=1, max_size=3),
    VALUES,
    st.sampled_from(["\n", "\r\n"]),
    st.booleans(),
    st.booleans(),
)
def test_only_the_value_changes(items: Items, path: list[str], value: object, line_break: str, bom: bool, ended: bool):
    def text_of(document: Items) -> str:
        end = "\n" if ended or ends_in_literal(items) else ""
        text = "\ufeff" * bom + "\n".join(lines(document)) + end
        return text.replace("\n", line_break) if len(lines(items)) > 1 else text

    values = {".".join(path): value}
    old = found(plain(items), path)
    if type(old) is type(value) and old == value:
        assert apply_to_training_yaml(text_of(items), file="train.yaml", values=values) == text_of(items)
        return
    try:
        expected = with_value(items, path, value)
    except InputError:
        with pytest.raises(InputError, match=r"^train.yaml, line \d+: .*a mapping"):
            apply_to_training_yaml(text_of(items), file="train.yaml", values=values)
        return
    after = apply_to_training_yaml(text_of(items), file="train.yaml", values=values)
    assert after == text_of(expected)
    assert YAML(typ="safe", pure=True).load(after) == plain(expected)


def applied(text: str, **values: object) -> str:
    return apply_to_training_yaml(
        text, file="train.yaml", values={key.replace("__", "."): v for key, v in values.items()}
    )


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{a: 1}\n", "{a: 1, x: {y: true}}\n"),
        ("{a: }\n", "{a: , x: {y: true} }\n"),
        ("{a, x: {}, }\n", "{a, x: {y: true}, }\n"),
        ("a: {x}\nx: {y}\n", "a: {x}\nx: {y: true}\n"),
        ("x: ~  # none\n", "x: {y: true}  # none\n"),
        ("---\na: 1  # one\n# end\n...\n", "---\na: 1  # one\nx:\n  y: true\n# end\n...\n"),
        ("a: |+\n  kept\n\n# end\n", "a: |+\n  kept\n\nx:\n  y: true\n# end\n"),
        ("x:\n  y: &unused\n  - 1\nz: 2\n", "x:\n  y: true\nz: 2\n"),
        ("base: &base {y: 1, z: 2}\nx: {<<: *base}\n", "base: &base {y: 1, z: 2}\nx: {<<: *base, y: true}\n"),
        ("base: &base 1\nx: {y: *base}\n", "base: &base 1\nx: {y: true}\n"),
        ("x: &id {y: True}\nz: *id\n", "x: &id {y: True}\nz: *id\n"),  # already so
        ("x: {y: !!bool true}\nd: 2024-01-01\nn: .nan\n", "x: {y: !!bool true}\nd: 2024-01-01\nn: .nan\n"),
        ("x: {y: 1}\nn: .nan\n", "x: {y: true}\nn: .nan\n"),  # 1 is not true
    ],
)
def test_unusual_forms(before: str, after: str):
    assert applied(before, x__y=True) == after


@pytest.mark.filterwarnings("ignore::ruamel.yaml.error.ReusedAnchorWarning")
@given(st.text(alphabet="xy:?-#&*<|>[]{},'\" \n\r\t!~1", max_size=20).map(lambda text: "x:" + text))
def test_any_text_is_changed_rightly_or_refused(text: str):
    try:
        after = applied(text, x__y=[1])
    except InputError:
        return
    assert YAML(typ="safe", pure=True).load(after)["x"]["y"] == [1]


def test_a_list_with_an_item_left_out_is_replaced_whole():
    assert applied("x:\n  -\n  -  # nothing\ny: 1\n", x=[1]) == "x: [1]\ny: 1\n"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x: [", r"^cannot read train.yaml: not YAML at line 1, column \d+"),
        ("x: 1\n\tz: 2\n", "^cannot read train.yaml: not YAML at line 2, column 1"),
        ("x: 1\nx: 2\n", r"not plain YAML at line 2, column 1 \('x: 2'\): the key 'x' is given twice"),
        ("a: 1\n---\nb: 2\n", "not plain YAML at .*: a second document begins here"),
        ("a: !mine 1\n", "not plain YAML at .*: '1' must not have the tag '!mine'"),
        ("- 1\n", r"^train.yaml must be a mapping at its top, got 'list'"),
        ("# nothing\n", "must be a mapping at its top"),
        (
            "x:\n  y: &id [1]\nz: *id\n",
            r"line 2: x.y must not be repeated elsewhere, as \*id in line 3 .*got '&id'.*out in line 3",
        ),
        ("x:\n  y: [&id 1, 2]\nz: *id\n", r"line 2: x.y must not be repeated elsewhere, as \*id in line 3"),
        ("x: &id {y: 1}\nz: *id\n", r"line 1: x must not be repeated elsewhere, as \*id in line 2"),
        ("z: &id {y: 1}\nx: *id\n", r"line 2: x must not be the alias of another.*got '\*id'"),
        ("x:\n  -\n  - 1\n", r"line 2: x must be a mapping, with keys and values, got 'a list'"),
        ("x: text\n", r"line 1: x must be a mapping, with keys and values, got 'text'"),
        ("z: &id {x: {y: 1}}\n<<: *id\n", r"line 1: x must stand in this place itself.*write 'x' out"),
        ("x:\n  ? y\n  :\n    - 1\n", r"line 2 must have a colon behind its key, got '\? y'"),
        (
            "a: |\n  no line break at the end",
            "must let these keys be set without changing anything else: x.y; .*by hand",
        ),
    ],
)
def test_what_cannot_be_changed_alone_is_refused(text: str, message: str):
    with pytest.raises(InputError, match=message):
        applied(text, x__y=True)


def test_values_mean_the_same_to_readers_of_yaml_1_1():
    values = {"list": [[1, -2], []], "flag": False, "word": "1f1b", "words": "no: #", "map": {r"a\.b": [1]}}
    old_yaml = YAML(typ="safe", pure=True)
    old_yaml.version = (1, 1)
    assert old_yaml.load(applied("a: 1\n", **values)) == {"a": 1, **values}


scalars = st.integers(-9, 9) | st.booleans() | st.none() | st.sampled_from(["1f1b", "no: #", "", "true"])
json_values = st.recursive(scalars, lambda inner: st.dictionaries(st.sampled_from("abx"), inner, max_size=3))


@settings(max_examples=examples(100))
@given(
    st.dictionaries(st.sampled_from("abx"), json_values, max_size=3),
    scalars.filter(lambda value: value is not None)
    | st.lists(st.integers(0, 9), max_size=3)
    | st.dictionaries(st.sampled_from("yz"), scalars, min_size=1),
    st.sampled_from([None, 2]),
)
def test_a_text_that_is_json_stays_json(document: dict[str, object], value: object, indent: int | None):
    try:
        after = applied(json.dumps(document, indent=indent), x__a__y=value)
    except InputError:
        return
    x = document.get("x")
    inner = x.get("a") if isinstance(x, dict) else None
    expected = {**document, "x": {**(x or {}), "a": {**(inner or {}), "y": value}}}  # type: ignore[dict-item]
    assert json.loads(after) == expected
