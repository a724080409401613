"""Every refusal names file, place, rule and value, and what is right comes back as it was."""

import io
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import FileError, InputError
from evenflow.fields import MOST_BYTES, Fields, as_fields, is_integer_list, load_json, read_stream, read_text, shortened
from evenflow.ranges import Range

SMALL = Range(least=0, most=9, is_whole=False, unit="MB")
COUNT = Range(least=1, most=9)
TO_99 = Range(least=0, most=99)


def fields(**values: object) -> Fields:
    return Fields(values=values, file="f.json", path="layers[1]", lines={"time": 7})


@pytest.mark.parametrize(
    ("read", "message"),
    [
        (lambda: fields(time="x").number("time", SMALL), "line 7: layers[1].time must be a number from 0 to 9 MB"),
        (lambda: fields(size=True).number("size", SMALL), "size must be a number from 0 to 9 MB, got True"),
        (lambda: fields(size=9.5).number("size", SMALL), "size must be a number from 0 to 9 MB, got 9.5; check"),
        (lambda: fields(size=0).number("size", SMALL, above_zero=True), "number above zero, at most 9 MB,"),
        (lambda: fields(n=0).integer("n", COUNT), "layers[1].n must be an integer from 1 to 9, got 0"),
        (lambda: fields(n=True).integer("n", COUNT), "layers[1].n must be an integer from 1 to 9, got True"),
        (lambda: fields(n=[1, -1]).integers("n", COUNT), "n must be a list of integers from 1 to 9, got [1, -1]"),
        (lambda: fields(n=[1]).integers("n", COUNT, length=2), "n must be a list of 2 integers from 1 to 9, got [1]"),
        (lambda: fields(n=[1]).rows("n", COUNT), "n must be a list of lists of integers from 1 to 9, one for each"),
        (lambda: fields(show=1).flag("show"), "layers[1].show must be true or false, got 1"),
        (lambda: fields(name=" ").text("name"), "layers[1].name must be a text that is not empty, got ' '"),
        (lambda: fields(names=[3]).texts("names"), "layers[1].names must be a list of texts, got [3]"),
        (lambda: fields(a=[]).inner("a"), "f.json: layers[1].a must be an object of named fields, got 'list'"),
        (lambda: fields(a=[3]).objects("a"), "f.json: layers[1].a[0] must be an object of named fields, got 'int'"),
        (lambda: fields().text("name"), "f.json: layers[1] must have the field 'name'"),
        (lambda: fields(tiem=1).check_known(["time"]), "layers[1].tiem is an unknown field; did you mean 'time'?"),
        (lambda: fields(x=1).check_known(["time", "name"]), ".x is an unknown field; the fields are name, time"),
        (lambda: load_json('{"a": 1, "a": 2}', file="f.json"), "f.json: a is given twice; keep one of the two"),
        (lambda: load_json("[1,\n 2 3]", file="f.json"), "cannot read f.json: not JSON at line 2, column 4 ('2 3]'): "),
        (lambda: load_json("[" * 10**5, file="f.json"), "f.json: not JSON: its lists and objects nest too deep"),
        (lambda: load_json("9" * 5000, file="f.json"), "f.json: not JSON: one of its integers has thousands"),
        (lambda: load_json('"\\ud800"', file="f.json"), "f.json: not JSON: one of its texts has half a char"),
        (lambda: load_json("," * 10**7, file="f.json"), "it has 10,000,000 brackets and commas, and at most 2,000,000"),
        (lambda: read_stream(io.BytesIO(bytes(MOST_BYTES + 1)), place="-"), "cannot read -: it has more than 32 MB"),
        (lambda: fields(**{"x" * 10**6: 1}).check_known(["time"]), "is an unknown field; the fields are time"),
        (lambda: fields(size="x" * 10**6).number("size", SMALL), "xxx...xxx"),
        (lambda: fields(size=10**5000).number("size", SMALL), "got (an integer of about 5000 digits)"),
    ],
)  # fmt: skip
def test_messages(read, message):
    with pytest.raises(InputError) as caught:
        read()
    assert message in str(caught.value)


def test_rules_of_a_value_get_the_place_of_its_field():
    def refuse(place: str) -> None:
        raise InputError(value=3, rule="must be even", place=place, remedy="add one")

    whole = r"^f.json, line 7: layers\[1\].time must be even, got 3; add one$"
    with pytest.raises(InputError, match=whole), fields().at("time"):
        refuse("size")
    with pytest.raises(InputError, match=r"^f.json: layers\[1\].size, rank 2 must be even"), fields().at():
        refuse("size, rank 2")
    with pytest.raises(InputError, match=r"^f.json: deeper must be even"), fields().at("time"):
        refuse("f.json: deeper")


def test_files_that_cannot_be_read(tmp_path: Path):
    binary = tmp_path / "binary.json"
    binary.write_bytes(b"\xff\xfe\x00")
    none = tmp_path / "none"
    for path, reason in (
        (none, "no such file"),
        (tmp_path, "it is a folder"),
        (binary, "not UTF-8 text (invalid start byte)"),
    ):
        with pytest.raises(FileError) as caught:
            read_text(path)
        assert str(caught.value) == f"cannot read {path}: {reason}"


@given(st.dictionaries(st.text(), st.integers(0, 99) | st.lists(st.integers(0, 99)) | st.text(min_size=1)))
def test_what_is_right_comes_back(values):
    read = as_fields(load_json(json.dumps(values), file="f"), file="f")
    for key, value in values.items():
        if isinstance(value, str):
            assert not value.strip() or read.text(key) == value
        elif is_integer_list(value):
            assert read.integers(key, TO_99) == tuple(value)
        else:
            assert read.integer(key, TO_99) == read.number(key, TO_99) == value


@given(st.text(), st.integers(3, 100))
def test_shortened_keeps_what_fits(text, length):
    assert len(shortened(text, length=length)) <= max(length, 3)
    assert len(text) > length or shortened(text, length=length) == text
