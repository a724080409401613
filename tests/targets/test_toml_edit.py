"""Values set in a TOML text."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.targets.toml_edit import set_values

TEXT = """\
# a run
title = "x [a]"

[a]  # the first
one = 1  # one # still one
  "two" = "a # b"   # two
three = [
    1,  # a
    2,
]

[b]
one = 5
"""


def test_what_is_replaced_keeps_what_stands_behind_it() -> None:
    assert set_values(TEXT, {"a": {"one": "2", "two": '"c"', "three": "[\n    3,\n]"}}, file="x") == (
        TEXT.replace("one = 1 ", "one = 2 ")
        .replace('"a # b"', '"c"')
        .replace("[\n    1,  # a\n    2,\n]", "[\n    3,\n]")
    )


def test_what_is_missing_is_added_at_the_end() -> None:
    assert set_values(TEXT, {"a": {"four": "4"}, "c": {"one": "1", "two": "2"}}, file="x") == (
        TEXT.replace("]\n\n[b]", "]\nfour = 4\n\n[b]") + "\n[c]\none = 1\ntwo = 2\n"
    )


def test_what_is_taken_out_leaves_the_rest() -> None:
    assert set_values(TEXT, {"a": {"three": None, "none": None}, "d": {"e": None}}, file="x") == TEXT.replace(
        "three = [\n    1,  # a\n    2,\n]\n", ""
    )


def test_line_ends_of_the_file() -> None:
    text = TEXT.replace("\n", "\r\n").removesuffix("\r\n")
    edited = set_values(text, {"b": {"two": "[\n1]"}}, file="x")
    assert edited == text + "\r\ntwo = [\r\n1]\r\n"


@pytest.mark.parametrize(
    "text",
    [
        "a.one = 1\n",
        "a = {one = 1}\n",
        '[ "a" ]\none = 1\n',
        "a = 3\n",
        "[[a]]\none = 1\n",
    ],
)
def test_other_forms_are_refused(text: str) -> None:
    with pytest.raises(InputError, match="must "):
        set_values(text, {"a": {"one": "2", "two": "3"}}, file="x")


def test_a_tables_name_inside_of_a_text_is_none() -> None:
    text = 'x = """\n[a]\none = 7\n"""\n[a]\none = 1\n'
    assert set_values(text, {"a": {"one": "2"}}, file="x") == text.replace("one = 1", "one = 2")


KEYS = st.sampled_from(["one", "two", "three"])
VALUES = st.sampled_from(
    ["1", '"a # [b]"', "[1, 2]", "{a.b = '# ]', c = [1.5, 2]}", "[\n  3,  # x\n]", "'''\n[a]\n'''", "1979-05-27"]
)


@given(
    st.dictionaries(st.sampled_from(["a", "b"]), st.dictionaries(KEYS, VALUES)),
    st.dictionaries(
        st.sampled_from(["a", "b", "c"]), st.dictionaries(KEYS, st.none() | VALUES.filter(lambda v: "'''" not in v))
    ),
    st.sampled_from(["", "  # note", "\n\n# note\n"]),
)
def test_the_result_says_what_was_asked(
    tables: dict[str, dict[str, str]], asked: dict[str, dict[str, str | None]], behind: str
) -> None:
    text = "".join(
        f"[{table}]\n" + "".join(f"{key} = {value}{behind}\n" for key, value in values.items())
        for table, values in tables.items()
    )
    wanted = {table: dict(values) for table, values in tomllib.loads(text).items()}
    for table, values in asked.items():
        for key, value in values.items():
            if value is None:
                wanted.get(table, {}).pop(key, None)
            else:
                wanted.setdefault(table, {})[key] = tomllib.loads(f"x = {value}")["x"]
    found = tomllib.loads(set_values(text, asked, file="x"))
    assert {table: values for table, values in found.items() if values} == {
        table: values for table, values in wanted.items() if values
    }
