"""Standard streams that cannot be written or read: one sentence, exit status 2, for every verb."""

import io
import json
import subprocess
import sys
from pathlib import Path

import click
import pytest

from evenflow.cli.shared.progress import shown_progress, shown_step
from evenflow.cli.standard_streams import checked_streams
from evenflow.model import Plan
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.profiles.plan_fields import plan_file_fields
from evenflow.simulate import simulate
from tests.cli.conftest import TINY
from tests.paths import ROOT

pytestmark = pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")

TIMELINES = str(ROOT / "examples" / "timelines" / "llama2_175b")
SIZES = ("--ranks", "2", "--microbatches", "2")
VERBS = {
    "plan": ("plan", "tiny.json", *SIZES, "--time-limit", "1"),
    "simulate": ("simulate", "tiny.json", "--layers", "2,2", "--microbatches", "2"),
    "compare": ("compare", "tiny.json", *SIZES, "--time-limit", "1"),
    "replan": ("replan", "plan.json", "--rank-speed", "1:0.5", "--time-limit", "1"),
    "schedules": ("schedules",),
    "schedule": ("schedule", "show", "1f1b", *SIZES),
    "guide": ("guide", "--ranks", "4", "--layers", "80", "--recompute", "none"),
    "collect-peaks": ("collect-peaks", "logs.txt", "--ranks-per-stage", "8"),
    "fit-memory": ("fit-memory", str(ROOT / "cfgs" / "init_pp4.yaml")),
    "read-trace": ("read-trace", TIMELINES, "--layers", "96", "--microbatches", "8"),
    "quick-tune": ("quick-tune", "tiny.json", *SIZES, "--time-limit", "1"),
    "help": ("--help",),
}  # fmt: skip
SAPP = (
    str(ROOT / "run_pipeline_balance.py"),
    "-m",
    "tiny",
    "-lf",
    ".",
    "-s",
    "2",
    "-mb",
    "2",
    "-t",
    "1",
    "-naive",
    "1",
)
COMMANDS = {
    **{verb: ("-m", "evenflow", *arguments) for verb, arguments in VERBS.items()},
    "sapp": SAPP,
    "sapp help": (SAPP[0], "--help"),
}
FULL = "error: cannot write standard output: no space left on device\n"
CLOSED = "error: cannot write standard output: it is closed\n"


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "tiny.json").write_text(json.dumps(TINY))
    line = "[Rank {}] (after 1 iterations) memory (MB) | allocated: 1.0 | max allocated: 2.0 | reserved: 3.0"
    ranks = (f"{line.format(rank)} | max reserved: {peak}\n" for rank, peak in ((0, 30.2), (8, 19.9), (16, 10)))
    (tmp_path / "logs.txt").write_text("".join(ranks))
    network = parse_layer_file(json.dumps(TINY), place="tiny.json")
    simulation = simulate(network, Plan(schedule="1f1b", num_microbatches=2, layers=((2, 2),)))
    (tmp_path / "plan.json").write_text(json.dumps(plan_file_fields(simulation, None)))
    return tmp_path


def shell(place: Path, command: tuple[str, ...], redirection: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", f'exec "$@" {redirection}', "sh", sys.executable, *command],
        cwd=place, capture_output=True, text=True, timeout=300,
    )  # fmt: skip


@pytest.mark.processes
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_full_device_is_one_message(place, command):
    result = shell(place, command, "> /dev/full")
    assert result.returncode == 2
    assert result.stderr.endswith(FULL)
    assert "Traceback" not in result.stderr


@pytest.mark.processes
@pytest.mark.parametrize("command", COMMANDS.values(), ids=COMMANDS)
def test_a_closed_output_is_refused_before_the_work(place, command):
    result = shell(place, command, ">&-")
    assert (result.returncode, result.stderr) == (2, CLOSED)


@pytest.mark.processes
@pytest.mark.parametrize("verb", ["run", "auto", "profile"])
def test_so_is_it_before_pytorch_is_loaded(place, verb):
    result = shell(place, ("-m", "evenflow", verb, "--model", "none.json"), ">&-")
    assert (result.returncode, result.stderr) == (2, CLOSED)


@pytest.mark.processes
@pytest.mark.parametrize("redirection", ["2> /dev/full", "2>&-", "< /dev/null 2>&-"])
def test_messages_that_nobody_can_have_are_left_out(place, redirection):
    result = shell(place, COMMANDS["simulate"], redirection)
    assert (result.returncode, result.stderr) == (0, "")
    assert "one step takes" in result.stdout
    wrong = shell(place, (*COMMANDS["simulate"], "--ranks", "3"), redirection)
    assert (wrong.returncode, wrong.stdout, wrong.stderr) == (2, "", "")


@pytest.mark.processes
@pytest.mark.parametrize("option", ["--json", "--svg"])
def test_a_result_file_on_a_full_device(place, option):
    result = shell(place, (*COMMANDS["simulate"], option, "/dev/full"), "")
    assert result.returncode == 2
    reason = f"cannot write /dev/full: no space left on device; choose another path for {option}"
    assert result.stderr == f"error: {reason}\n"


@pytest.mark.processes
def test_a_result_for_a_reader_that_has_gone(place):
    result = shell(place, (*COMMANDS["simulate"], "--json", "/dev/stdout"), "| true")
    assert (result.returncode, result.stderr) == (0, "")


@pytest.mark.processes
@pytest.mark.parametrize("command", [("plan", "-", *SIZES), ("collect-peaks", "-"), ("fit-memory", "-")])
def test_a_closed_input(place, command):
    result = shell(place, ("-m", "evenflow", *command), "<&-")
    assert (result.returncode, result.stderr) == (2, "error: cannot read standard input: it is closed\n")


@pytest.mark.processes
@pytest.mark.parametrize("command", [COMMANDS["simulate"], COMMANDS["help"], COMMANDS["sapp help"]])
def test_a_reader_that_goes_away_ends_it_in_silence(place, command):
    result = shell(place, command, "| true")
    assert result.returncode == 0  # that of the last command of the pipe
    assert result.stderr == ""


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("shown", [lambda: shown_progress(time_limit_s=8), lambda: shown_step("one [step]")])
def test_what_is_said_beside_a_progress_bar_acts_on_no_terminal(monkeypatch, shown):
    terminal = _Terminal()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setattr(sys, "stderr", terminal)
    with checked_streams():
        with shown():
            click.echo("beside \x1b[31mred\x07 \u202eback", err=True)
        click.echo("behind \x1b[31mred", err=True)
    said = terminal.getvalue()
    assert r"beside \x1b[31mred\x07 \u202eback" in said
    assert r"behind \x1b[31mred" in said
