"""The one door for YAML: what a library reads from ordinary texts, one message for the others, quickly."""

import io
import math

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st
from ruamel.yaml import YAML
from ruamel.yaml.error import YAMLError

from evenflow.errors import InputError
from evenflow.profiles.yaml_values import DEEPEST, MOST_CHARACTERS, MOST_VALUES, load_document
from tests.fuzz.nasty import YAML_RAW, YAML_WHOLE

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def read(text: str) -> object:
    return load_document(text, file="f.yaml").value


def refusal(text: str) -> str:
    with pytest.raises(InputError) as error:
        read(text)
    return str(error.value)


@given(VALUES, st.booleans())
def test_what_a_library_writes_is_read_as_it_was(value: object, flow: bool) -> None:
    stream = io.StringIO()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = flow
    yaml.dump(value, stream)
    text = stream.getvalue()
    try:
        expected = YAML(typ="safe", pure=True).load(text)
    except YAMLError:  # it writes {:0: null}, which it cannot read
        reject()
    assert read(text) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing\n", None),
        ("a: !!str 1", {"a": "1"}),
        ("a: ! 1", {"a": "1"}),
        ("a: !!int '7'", {"a": 7}),
        ("a: !!float 1", {"a": 1.0}),
        ("a: !!seq [1]", {"a": [1]}),
        ("a: !!map {b: !!null ~}", {"a": {"b": None}}),
        ("a: !!bool TRUE", {"a": True}),
        ("[0x1F, 0o17, 0b11, 1_000, 1e3, .inf, yes, ~]", [31, 15, 3, 1000, 1000.0, math.inf, "yes", None]),
        ("2001-12-14", "2001-12-14"),
        ("a: &x [1, 2]\nb: *x", {"a": [1, 2], "b": [1, 2]}),
        ("a: &x {b: 1, c: 2}\nd: {<<: *x, c: 3}", {"a": {"b": 1, "c": 2}, "d": {"b": 1, "c": 3}}),
        ("d: {<<: [{b: 1}, {b: 2, c: 2}], e: 3}", {"d": {"b": 1, "c": 2, "e": 3}}),
        ("'<<': 1", {"<<": 1}),
        ("%YAML 1.2\n---\na: 1\n...\n", {"a": 1}),
        ("&a x: 1\ny: *a", {"x": 1, "y": "x"}),
    ],
)
def test_the_core_schema(text: str, value: object) -> None:
    assert read(text) == value


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: !!float ''", "line 1, column 4"),
        ("a: !!float x", "'x' must not have the tag '!!float'"),
        ("a: !!bool x", "'x' must not have the tag '!!bool'"),
        ('a: !!int ""', "'' must not have the tag '!!int'"),
        ("a: !!omap [b: 1]", "a list or mapping must not have the tag '!!omap'"),
        ("a: !!set {b}", "tag '!!set'"),
        ("a: !!binary AAAA", "tag '!!binary'"),
        ("a: !!timestamp x", "tag '!!timestamp'"),
        ("a: !!seq {b: 1}", "tag '!!seq'"),
        ("a: !mine 1", "tag '!mine'"),
        ("&a [*a]", "*a must not stand inside what it repeats"),
        ("a: &a {b: {c: *a}}", "*a must not stand inside what it repeats"),
        ("a: *b", "*b repeats what has not been named"),
        ("a: 1\na: 2", "line 2, column 1 ('a: 2'): the key 'a' is given twice"),
        ("{[1]: 2}", "a key must be a single value"),
        ("? {a: 1}\n: 2", "a key must be a single value"),
        ("{<<: 1}", "a merge key (<<) must have a mapping"),
        ("{<<: []}", "a merge key (<<) must have a mapping"),
        ("a: 1\n---\nb: 2", "a second document begins here"),
        ("[" * 20_000, f"at most {DEEPEST} deep"),
        ("".join(" " * depth + "a:\n" for depth in range(600)), f"at most {DEEPEST} deep"),
        ("- " * 3000 + "1", f"at most {DEEPEST} deep"),
        ("[" + "1, " * MOST_VALUES + "1]", f"at most {MOST_VALUES:,} values"),
        ("# " + "x" * MOST_CHARACTERS, f"characters, and at most {MOST_CHARACTERS:,} are read"),
        ("a: " + "9" * 5000, "is no number that can be read"),
        ("a: 1\n\tb: 2", "line 2"),
    ],
)
def test_what_is_refused(text: str, part: str) -> None:
    message = refusal(text)
    assert message.startswith(("cannot read f.yaml: not YAML", "cannot read f.yaml: not plain YAML"))
    assert part in message
    assert len(message) < 2000


def test_values_behind_aliases_are_counted_again() -> None:
    bomb = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
        f"{new}: &{new} [{', '.join(['*' + old] * 9)}]\n" for old, new in zip("abcdefgh", "bcdefghi", strict=True)
    )
    assert f"at most {MOST_VALUES:,} values, those behind every alias counted again" in refusal(bomb)
    assert f"at most {DEEPEST} deep" in refusal(
        "a0: &a0 [1]\n" + "".join(f"a{index + 1}: &a{index + 1} [*a{index}]\n" for index in range(60))
    )


@pytest.mark.parametrize("text", [*(f"a: {raw.text}\nb: 1\n" for raw in YAML_RAW), *YAML_WHOLE])
def test_nothing_but_a_value_or_one_message(text: str) -> None:
    message = ""
    try:
        read(text)
    except InputError as error:
        message = str(error)
    assert not message or message.startswith(("cannot read f.yaml: not YAML", "cannot read f.yaml: not plain YAML"))
