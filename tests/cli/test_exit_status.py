import os
import subprocess
import sys

import click
import pytest

from evenflow.cli.exit_status import exit_status, status_code
from evenflow.errors import InputError, Interrupted, MismatchError, RunError
from evenflow.solve import Status


@pytest.mark.parametrize(
    ("error", "status", "message"),
    [
        (RunError("rank 1 failed"), 1, "error: rank 1 failed\n"),
        (InputError(value=3, rule="must be 2", place="--x"), 2, "error: --x must be 2, got 3\n"),
        (click.UsageError("Missing option."), 2, "error: Missing option\n"),
        (MismatchError("2 numbers differ"), 5, "error: 2 numbers differ\n"),
        (Interrupted("stopped early"), 130, "stopped early\n"),
        (KeyboardInterrupt(), 130, "interrupted: there is no result yet\n"),
    ],
)
def test_every_error_has_one_message_and_a_status(capsys, error, status, message):
    def fail() -> None:
        raise error

    assert exit_status(fail) == status
    assert capsys.readouterr().err == message


@pytest.mark.parametrize(("result", "status"), [(3, 3), (None, 0), ("text", 0)])
def test_a_number_is_the_status_and_anything_else_is_success(result, status):
    assert exit_status(lambda: result) == status


def test_our_own_bugs_are_not_hidden(evenflow, folder, monkeypatch):
    from evenflow import solve

    def bug(*_, **__):
        raise ZeroDivisionError

    monkeypatch.setattr(solve, "solve", bug)
    result = evenflow("plan", "tiny.json", "--ranks", 2, "--microbatches", 2)
    assert isinstance(result.exception, ZeroDivisionError)


@pytest.mark.processes
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
