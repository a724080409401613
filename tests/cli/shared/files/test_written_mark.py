"""Marks are found in what was marked, whatever it is, and notice every change."""

import json
import random
import struct
import xml.etree.ElementTree
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from evenflow.cli.shared.files.written_mark import WrittenMark, mark_of, marked
from evenflow.export.results.json_text import MARK, format_object


def png(*chunks: tuple[bytes, bytes]) -> bytes:
    parts = [
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


PICTURE = png((b"IHDR", b"\x00" * 13), (b"IDAT", b"pixels"), (b"IEND", b""))
SAMPLES = {
    "json": b'{\n  "one": 1\n}\n',
    "svg": "<svg xmlns='http://www.w3.org/2000/svg'>✓</svg>\n".encode(),
    "html": "<!doctype html>\n<html><body>✓</body></html>\n".encode(),
    "png": PICTURE,
}
UNTOUCHED = WrittenMark(measured_by="", is_changed=False)


@pytest.mark.parametrize("content", SAMPLES.values(), ids=SAMPLES)
class TestMarks:
    def test_a_mark_is_found_again(self, content):
        assert mark_of(content) is None
        assert mark_of(marked(content)) == UNTOUCHED
        assert mark_of(marked(content, measured_by="run")) == WrittenMark(measured_by="run", is_changed=False)

    def test_marking_is_no_question_of_time(self, content):
        assert marked(content) == marked(content)

    @given(st.integers(0, 10**6), st.integers(1, 255))
    def test_any_change_is_noticed(self, content, seed, flipped):
        done = bytearray(marked(content))
        done[random.Random(seed).randrange(len(done))] ^= flipped
        assert mark_of(bytes(done)) != UNTOUCHED

    @given(st.data())
    def test_what_is_cut_off_or_added_is_noticed(self, content, data):
        done = marked(content)
        assert mark_of(done[: data.draw(st.integers(0, len(done) - 1))]) != UNTOUCHED
        assert mark_of(done + data.draw(st.binary(min_size=1))) != UNTOUCHED


@given(st.dictionaries(st.text(min_size=1), st.integers() | st.text(), min_size=1))
def test_json_stays_json(fields):
    done = marked(format_object(fields).encode())
    assert mark_of(done) == UNTOUCHED
    read = json.loads(done)
    read.pop(MARK)
    assert {key: value for key, value in fields.items() if key != MARK} == read


def test_pictures_stay_pictures():
    assert xml.etree.ElementTree.fromstring(marked(SAMPLES["svg"])).text == "✓"
    done, kinds = marked(PICTURE)[8:], []
    while done:
        (length,) = struct.unpack(">I", done[:4])
        kinds.append(done[4:8])
        assert struct.pack(">I", zlib.crc32(done[4 : 8 + length])) == done[8 + length : 12 + length]
        done = done[12 + length :]
    assert kinds == [b"IHDR", b"IDAT", b"tEXt", b"IEND"]


@pytest.mark.parametrize("start", ["", "\ufeff"])
@pytest.mark.parametrize(
    "text",
    ["a: 1\nb: |\n  text", "a: 1\r\nb: [1]\r\n", "# written by me\na: 1\n", "--- {a: 1}", "%YAML 1.2\n---\na: 1\n", ""],
)
def test_a_first_line_changes_no_value(start, text):
    content = (start + text).encode()
    done = marked(content, first_line=True)
    assert mark_of(done) == UNTOUCHED
    assert done.startswith(start.encode() + b"# written by evenflow ")
    assert done.decode().removeprefix(start).split("\n", 1)[1] == text
    assert YAML(typ="safe", pure=True).load(done.decode("utf-8-sig")) == YAML(typ="safe", pure=True).load(text)
    assert mark_of(done + b"c: 3\n") == WrittenMark(measured_by="", is_changed=True)


@given(st.binary())
def test_whatever_a_file_holds(content):
    assert mark_of(content) is None
    for first_line in (False, True):
        done = marked(content, first_line=first_line)
        assert done == content or mark_of(done) == UNTOUCHED


def test_a_mark_that_is_none():
    assert mark_of(b"# written by hand\na: 1\n") is None
    assert mark_of(b'{\n  "a": 1,\n  "written_by": "evenflow 0.1.0"\n}\n') is None
