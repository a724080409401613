"""TOML text within limits, and its statements."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import FileError
from evenflow.profiles.toml_text import load_toml, statements

DEEP = {
    "lists": "x = " + "[" * 501 + "]" * 501,
    "tables on a line": "x = " + "{a = " * 501 + "1" + "}" * 501,
    "a key of many parts": "a" + ".a" * 501 + " = 1",
    "a header of many parts": "[a" + ".a" * 501 + "]",
    "tables in tables": "".join(f"[{'.'.join(['a'] * depth)}]\n" for depth in range(1, 502)),
    "parts in parts": "x = " + f"{{{'a.' * 9}a = " * 9 + "1" + "}" * 9,
    "an endless key": "a." * 100_000 + "a = 1",
}


@pytest.mark.parametrize("name", DEEP)
def test_what_is_too_deep_is_refused(name: str) -> None:
    with pytest.raises(FileError, match=r"run\.toml: its lists and tables nest more than 50 deep"):
        load_toml(DEEP[name], file="run.toml")


def test_what_is_too_long_is_refused() -> None:
    with pytest.raises(FileError, match="at most 1,048,576 are read"):
        load_toml("# " + "x" * 2**20, file="run.toml")


def test_what_people_write_is_read() -> None:
    text = 'path = "/a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v.w.x.y.z.a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u.v"\n'
    rates = "x = [" + ", ".join(["1.5"] * 200) + "]\n"
    deep = "y = " + "[" * 49 + "]" * 49 + "\n"
    assert set(load_toml(text + rates + deep, file="x")) == {"path", "x", "y"}


PIECES = st.sampled_from([*"a.=[]{},#\"'\\ 1\n", " = ", "\r\n", '"""', "'''", "b = 1\n", "[t]\n"])


@given(st.lists(PIECES).map("".join))
def test_statements_follow_each_other_without_a_gap(text: str) -> None:
    end = 0
    for statement in statements(text):
        assert statement.start == end < statement.end
        assert statement.start <= statement.behind <= statement.end
        assert statement.value is None or statement.start < statement.value <= statement.behind
        end = statement.end
    assert end == len(text)


@given(st.lists(PIECES).map("".join))
def test_every_statement_of_a_legal_text_is_legal_alone(text: str) -> None:
    try:
        tomllib.loads(text)
    except ValueError:
        return
    for statement in statements(text):
        alone = text[statement.start : statement.end]
        tomllib.loads(alone)
        if statement.value is not None:
            value = text[statement.value : statement.behind]
            assert tomllib.loads(f"x = {value}")
