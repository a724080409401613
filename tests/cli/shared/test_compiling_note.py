"""A command whose time was over before its loops were compiled says so; a call of the library does not."""

import pytest

from evenflow.cli.shared import compiling_note
from evenflow.simulate import compiling


@pytest.mark.parametrize(
    ("is_command", "is_compiled", "is_last_word"),
    [(True, False, False), (False, False, False), (True, True, False), (True, False, True)],
)
def test_who_says_it(is_command, is_compiled, is_last_word, monkeypatch, capsys):
    monkeypatch.setattr(compiling_note, "command_began_s", lambda: 1.0 if is_command else None)
    if is_compiled:
        monkeypatch.setattr(compiling_note, "is_compiling", lambda: False)
        compiling_note.note_compiling(is_last_word=is_last_word)
    else:
        with compiling():
            compiling_note.note_compiling(is_last_word=is_last_word)
    said = "note: the time was over before the loops of evenflow were compiled"
    assert (said in capsys.readouterr().err) == (is_command and not is_compiled and not is_last_word)
