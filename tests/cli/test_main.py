import os
import subprocess
import sys

import pytest

from evenflow.cli.exit_status import status_code
from evenflow.cli.main import VERBS, Verbs, main
from evenflow.solve import Status


def test_help_lists_every_verb(evenflow):
    result = evenflow("--help")
    assert result.exit_code == 0
    for verb, sentence in VERBS.items():
        assert verb in result.stdout
        assert sentence.split()[0] in result.stdout


@pytest.mark.parametrize("verb", VERBS)
def test_help_of_a_verb_has_an_example(evenflow, verb):
    result = evenflow(verb, "--help")
    assert result.exit_code == 0
    assert f"evenflow {verb} " in result.stdout


@pytest.mark.parametrize("arguments", [(), ("pln",), ("--wrong",)])
def test_a_wrong_command_line_is_one_message(evenflow, arguments):
    result = evenflow(*arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith("error: ")
    assert "--help" in result.stderr


def test_our_own_bugs_are_not_hidden(evenflow, folder, monkeypatch):
    from evenflow import solve

    def bug(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(solve, "solve", bug)
    result = evenflow("plan", "tiny.json", "--ranks", 2, "--microbatches", 2)
    assert isinstance(result.exception, ZeroDivisionError)


def test_the_group_is_what_the_console_script_calls():
    assert isinstance(main, Verbs)


@pytest.mark.parametrize(
    ("module", "arguments"),
    [
        ("main", ["--help"]),
        ("main", ["simulate", "tiny.json", "--microbatches", "2", "--layers", "2,2"]),
        ("sapp.command", ["-m", "tiny", "-lf", ".", "-exec", "0", "-dump"]),
    ],
)
def test_a_reader_that_goes_away_is_no_error(folder, module, arguments):
    reader, writer = os.pipe()
    os.close(reader)
    code = f"from evenflow.cli.{module} import main; main()"
    command = [sys.executable, "-c", code, *arguments]
    result = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True)
    os.close(writer)
    assert (result.returncode, result.stderr) == (141, "")


def test_exit_statuses():
    assert {status: status_code(status) for status in Status} == {
        Status.OPTIMAL: 0, Status.FEASIBLE: 0, Status.INFEASIBLE: 3, Status.TIMEOUT: 4,
    }  # fmt: skip
