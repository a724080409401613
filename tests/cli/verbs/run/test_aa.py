"""`evenflow run --aa-check`, as users call it: what it finds and says, its exit status, and what it refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cli.main import main
from evenflow.cli.text.aa_text import audit_text, parse_fault, verdict
from evenflow.errors import InputError
from evenflow.export.results.aa_fields import aa_fields
from evenflow.run.job import launch
from evenflow.run.values.aa_report import AAReport, Direction, Fault, Mismatch, RankAudit
from tests.cli.verbs.run.test_command import PLAN, written


def test_an_injected_fault_is_found_and_named(tmp_path: Path) -> None:
    plan, result_file = written(tmp_path / "plan.json"), tmp_path / "result.json"
    command = [sys.executable, "-m", "evenflow", "run", str(plan), "--model", "llama-tiny", "--steps", "5"]
    command += ["--seq", "8", "--hidden", "16", "--heads", "2", "--vocab", "32", "--device", "cpu"]
    command += ["--aa-everywhere", "--inject-fault", "rank=1,step=3", "--json", str(result_file)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
    assert done.returncode == 5, done.stderr
    assert len(done.stdout.splitlines()) > 5, "it trained to the end"

    found = json.loads(result_file.read_text(encoding="utf-8"))["aa_check"]
    (mismatch,) = found["mismatches"]
    assert (mismatch["rank"], mismatch["step"], mismatch["numbers"]) == (1, 3, 1)
    where = f"rank 1, stage {mismatch['stage']}, microbatch {mismatch['microbatch']}, step 3, {mismatch['direction']}"
    assert done.stderr.count(where) == 2, "when it was found, and in the end"
    assert f"1 bit flipped in {where.removeprefix('rank 1, ')}, which was checked" in done.stdout
    assert found["checked_steps"] == 2, "that of the fault and, of the others, every second: 4 of 3, 4 and 5"
    assert [rank["checks"] > 0 for rank in found["ranks"]] == [True, True]
    assert found["cost"] == pytest.approx(found["checked_step_ms"] / found["plain_step_ms"] - 1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--inject-fault", "rank=0,step=3"], "add --aa-check"),
        (["--aa-check", "--steps", "3"], "train for more steps"),
        (["--aa-check", "--steps", "4", "--inject-fault", "rank=0,step=3"], "train for more steps"),
        (["--aa-check", "--inject-fault", "rank=2,step=3"], "must have a rank from 0 to 1, got 2"),
        (["--aa-check", "--inject-fault", "rank=0,step=0"], "must have a step from 1 to 20"),
        (["--aa-check", "--inject-fault", "rank=0,step=21"], "must have a step from 1 to 20"),
        (["--aa-check", "--inject-fault", "rank=0,step=3,microbatch=3"], "must have a microbatch from 0 to 2"),
        (["--aa-check", *["--inject-fault", "rank=0,step=3"] * 2], "at most once for a rank and step"),
        (["--aa-check", "--inject-fault", "2"], "must have the form"),
    ],
)
def test_what_cannot_be_checked_is_refused_before_any_process_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: list[str], message: str
) -> None:
    def start(*_arguments: Any) -> None:
        raise AssertionError("a process was started")

    monkeypatch.setattr(launch, "_start", start)
    plan = written(tmp_path / "plan.json")
    assert PLAN["microbatches"] == 3
    done = CliRunner().invoke(main, ["run", str(plan), "--model", "llama-tiny", *options])
    assert done.exit_code == 2, done.output
    assert message in done.stderr
    assert "Traceback" not in done.output


@given(
    st.integers(0, 99),
    st.integers(1, 99),
    st.none() | st.integers(0, 99),
    st.sampled_from([None, *Direction]),
)
def test_a_fault_is_read_as_it_is_written(rank: int, step: int, microbatch: Any, direction: Any) -> None:
    text = f"rank={rank},step={step}"
    text += "" if microbatch is None else f",microbatch={microbatch}"
    text += "" if direction is None else f", op={direction}"
    assert parse_fault(text) == Fault(rank=rank, step=step - 1, microbatch=microbatch, direction=direction)


@pytest.mark.parametrize(
    "text",
    ["", "rank=1", "step=1", "rank=1,step=x", "rank=1,step=-1", "rank=1,step=1,step=2", "rank=1,step=1,stage=1",
     "rank=1,step=1,op=both", "rank=,step=1"],
)  # fmt: skip
def test_a_fault_that_is_written_differently_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="must have the form rank=R,step=S"):
        parse_fault(text)


def audit(**changes: Any) -> RankAudit:
    fields: dict[str, Any] = {
        "num_checks": 4, "share_per_step": 0.25, "share_of_run": 0.5, "check_ns": 2_000_000, "never_checked": [],
        "fits_no_bubble": [], "mismatches": [], "injected": [],
    }  # fmt: skip
    return RankAudit(**{**fields, **changes})


def mismatch(step: int) -> Mismatch:
    where = {"rank": 1, "stage": 3, "microbatch": 2, "direction": Direction.BACKWARD}
    return Mismatch(**where, step=step, tensor="a.weight", num_different=7)


def test_a_report_says_what_was_found_what_it_cost_and_what_was_not_checked() -> None:
    ranks = [audit(fits_no_bubble=[(0, Direction.BACKWARD)]), audit(mismatches=[mismatch(5), mismatch(2)])]
    report = AAReport(ranks=ranks, num_checked_steps=2, checked_step_ns=101_000_000, plain_step_ns=100_000_000)
    text = audit_text(report)
    assert "8 checks in 2 steps, 2 DIFFERENCES" in text
    assert "101.000 ms, without 100.000 ms (+1.00 %)" in text
    assert "rank 0: fits no bubble: backward of stage 0" in text
    lines = verdict(report).splitlines()
    assert len(lines) == 3
    assert "rank 1, stage 3, microbatch 2, step 3, backward: a.weight" in lines[1], "earliest first, from 1"
    assert "7 numbers" in lines[1]
    fields = aa_fields(report)
    assert fields["cost"] == pytest.approx(0.01)
    assert [one["step"] for one in fields["mismatches"]] == [3, 6]

    clean = AAReport(ranks=ranks[:1], num_checked_steps=2, checked_step_ns=1, plain_step_ns=1)
    assert "no difference" in audit_text(clean)
    assert verdict(clean) == ""


def test_of_many_mismatches_the_first_are_shown() -> None:
    ranks = [audit(mismatches=[mismatch(step) for step in range(9)])]
    text = verdict(AAReport(ranks=ranks, num_checked_steps=9, checked_step_ns=1, plain_step_ns=1))
    assert text.splitlines()[-1].strip() == "and 4 more tensors"
