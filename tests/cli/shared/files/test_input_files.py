import io

import pytest

from evenflow.cli.shared.files.input_files import read_text
from evenflow.errors import FileError


def give_stdin(monkeypatch: pytest.MonkeyPatch, content: bytes) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content)))


def test_a_dash_is_standard_input(monkeypatch):
    give_stdin(monkeypatch, "\ufeffzwei ✓".encode())
    assert read_text("-") == ("zwei ✓", "standard input")


def test_standard_input_that_is_no_text(monkeypatch):
    give_stdin(monkeypatch, b"\xff\xfe")
    with pytest.raises(FileError, match=r"^cannot read standard input: not UTF-8 text"):
        read_text("-")


def test_a_file_is_named_as_it_was_given(tmp_path):
    file = tmp_path / "layers.json"
    file.write_text("{}")
    assert read_text(str(file)) == ("{}", str(file))
    with pytest.raises(FileError, match=r"^cannot read nofile\.json: no such file$"):
        read_text("nofile.json")
