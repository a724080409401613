import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.profiles.yaml_file import load_yaml, section

TEXT = """\
# a comment
first:
  inner:
    deep: 1
  other: [1,
    2]
second: {flow: 3}
"""


def test_fields_know_their_lines():
    top = load_yaml(TEXT, file="f.yaml")
    first = section(top, "first")
    assert top.place("second") == "f.yaml, line 7: second"
    assert first.place("other") == "f.yaml, line 5: first.other"
    assert section(first, "inner").place("deep") == "f.yaml, line 4: first.inner.deep"
    assert section(top, "second").place("flow") == "f.yaml, line 7: second.flow"
    assert first.values == {"inner": {"deep": 1}, "other": [1, 2]}


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("a: [1", "f.yaml: not YAML at line 1"),
        ("a: 1\na: 2\n", "line 2"),
        ("- 1\n- 2\n", "an object of named fields"),
        ("", "an object of named fields"),
        ("a: *nothing", "line 1"),
        ("a: !!python/object 1", "line 1"),
        ("a: 1\n\tb: 2", "line 2"),
        ("a: \x1a", "special characters are not allowed in"),
    ],
)
def test_what_is_no_object_of_fields_is_refused_with_its_place(text, part):
    with pytest.raises(InputError) as error:
        load_yaml(text, file="f.yaml")
    assert part in str(error.value)


def test_an_object_of_an_alias_has_its_lines():
    top = load_yaml("a: &a {b: 1}\nc: *a", file="f.yaml")
    assert section(top, "c").values == {"b": 1}
    assert top.place("c") == "f.yaml, line 2: c"


@given(st.text())
def test_any_text_is_fields_or_one_message(text):
    message = ""
    try:
        load_yaml(text, file="f.yaml")
    except InputError as error:
        message = str(error)
    assert not message or message.startswith(("f.yaml", "cannot read f.yaml"))
