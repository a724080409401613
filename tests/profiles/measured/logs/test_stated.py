"""Names with values in the forms in which frameworks print them."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.profiles.measured.logs.stated import Names, Stated

NAMES = Names(["num_layers", "hidden_size", "bf16", "layout", "modules", "kind"])
VALUES = st.one_of(
    st.integers(min_value=0, max_value=10**14), st.booleans(), st.none(), st.text("abcXYZ._-/", min_size=1, max_size=20)
)


def read(text: str) -> dict[str, str]:
    stated = Stated()
    for line in text.split("\n"):
        for name, value in NAMES.pairs(line):
            stated.state(name, value)
    return stated.texts


@pytest.mark.parametrize(
    "text",
    [
        "  num_layers ..................................... 32\n  bf16 .......................................... True",
        "0:   num_layers ............ 32\n1:   bf16 ...... True",
        "model:\n  num_layers: 32\n  bf16: true",
        "- {num_layers: 32, bf16: true}",
        '{\n  "num_layers": 32,\n  "bf16": true\n}',
        "Running with args: {'a': {'num_layers': 32, 'x': [1]}, 'b': {'bf16': True}}",
        "Config(hidden=None, num_layers=32, bf16=True)",
        "[NeMo I 2025-01-01 00:00:00 exp:1] num_layers: 32\nINFO:root:bf16: True",
    ],
)
def test_the_forms_in_use(text: str) -> None:
    found = {name: value.lower() for name, value in read(text).items()}
    assert found == {"num_layers": "32", "bf16": "true"}


@given(st.dictionaries(st.sampled_from(["num_layers", "hidden_size", "bf16", "kind"]), VALUES))
def test_what_is_printed_is_what_is_stated(values: dict[str, object]) -> None:
    dotted = "\n".join(f"  {name} {'.' * (48 - len(name))} {value}" for name, value in values.items())
    wanted = {name: "" if value is None else str(value) for name, value in values.items()}
    assert read(dotted) == read(str(values)) == read(f"Config({', '.join(f'{k}={v!r}' for k, v in values.items())})")
    assert read(dotted) == wanted
    as_json = {name: text.lower() for name, text in read(json.dumps(values, indent=2)).items()}
    assert as_json == {name: text.lower() for name, text in wanted.items()}


def test_other_names_and_parts_of_names_are_passed_over() -> None:
    assert read("min_num_layers: 3\nnum_layers_to_keep: 4\nmy-hidden_size=5\na.bf16: True\nnum_layers is 7") == {}


def test_the_last_value_counts_and_nothing_only_where_there_is_no_other() -> None:
    assert read("num_layers: 2\nnum_layers: 3\nnum_layers: null\nbf16: None") == {"num_layers": "3", "bf16": ""}


def test_a_layout_and_a_list_are_whole() -> None:
    dotted = "  layout .......... Et*3|(tt|)*29,m|L\n  modules ......... ['core_attn', 'moe_act']"
    stated = Stated(texts=read(dotted))
    assert stated.word("layout") == "Et*3|(tt|)*29,m|L"
    assert stated.words("modules") == ("core_attn", "moe_act")


def test_values_in_another_form_than_is_asked_for_are_not_stated() -> None:
    stated = Stated(texts={"a": "many", "b": "0", "c": "-1", "d": "12", "e": "True", "f": "", "g": "9" * 16})
    assert [stated.whole(name) for name in "abcdefg"] == [None, None, None, 12, None, None, None]
    assert [stated.flag(name) for name in "abdef"] == [None, None, None, True, None]
    assert (stated.whole("a", "d"), stated.word("f", "a"), stated.on("a", "e", "f")) == (12, "many", "e=True")
    assert [stated.is_nothing(name) for name in "abdefz"] == [False, True, False, False, True, False]


@given(st.text(max_size=300))
def test_any_line_has_pairs_or_none(line: str) -> None:
    assert all(name in NAMES.names for name, _value in NAMES.pairs(line + " num_layers" + line))
