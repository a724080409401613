from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.aa import Direction
from evenflow.errors import InputError
from evenflow_torch.results.run_fields import aa_fields
from evenflow_torch.run.values.aa_report import AAReport, Evidence, Fault, FaultKind, Mismatch, RankAudit
from evenflow_torch.text.aa_text import audit_text, mismatch_text, parse_fault, verdict


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


def test_faults_of_other_kinds_are_read() -> None:
    assert parse_fault("rank=1,step=2,kind=stuck") == Fault(rank=1, step=1, kind=FaultKind.STUCK)
    message = parse_fault("rank=1,step=2,kind=message,microbatch=3,op=backward")
    assert (message.kind, message.microbatch, message.direction) == (FaultKind.MESSAGE, 3, Direction.BACKWARD)
    for text in (
        "rank=1,step=2,kind=disk",
        "rank=1,step=2,kind=update,microbatch=0",
        "rank=1,step=2,kind=stuck,op=forward",
    ):
        with pytest.raises(InputError, match="kind=product"):
            parse_fault(text)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"evidence": Evidence.UPDATE, "num_different": 1}, "rank 1, step 3: the update of w came out differently"),
        (
            {
                "evidence": Evidence.MESSAGE,
                "stage": 2,
                "microbatch": 0,
                "direction": Direction.FORWARD,
                "other_rank": 0,
            },
            "rank 1, stage 2, microbatch 0, step 3, forward: the message from rank 0 arrived differently",
        ),
        (
            {"evidence": Evidence.NEIGHBOUR, "microbatch": 4, "other_rank": 2},
            "rank 1, microbatch 4, step 3: w came out differently on rank 2; the rank that differs from both",
        ),
    ],
)
def test_a_mismatch_says_what_was_compared(fields: dict[str, Any], text: str) -> None:
    assert mismatch_text(Mismatch(rank=1, step=2, tensor="w", **fields)).startswith(text)


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

    assert "what all devices compute alike but wrong" in text, "what it cannot see"
    clean = AAReport(ranks=ranks[:1], num_checked_steps=2, checked_step_ns=1, plain_step_ns=1)
    assert "no difference" in audit_text(clean)
    assert verdict(clean) == ""


def test_neighbours_are_said_to_be_there_or_not() -> None:
    def text(**changes: int) -> str:
        return audit_text(
            AAReport(ranks=[audit(), audit(**changes)], num_checked_steps=2, checked_step_ns=1, plain_step_ns=1)
        )

    assert "neighbours: 3 layers done again by the next rank, all within 32" in text(
        num_neighbour_checks=3, neighbour_steps=32
    )
    assert "neighbours: none, so that nothing sees a fault that is stuck" in text()


def test_of_many_mismatches_the_first_are_shown() -> None:
    ranks = [audit(mismatches=[mismatch(step) for step in range(9)])]
    text = verdict(AAReport(ranks=ranks, num_checked_steps=9, checked_step_ns=1, plain_step_ns=1))
    assert text.splitlines()[-1].strip() == "and 4 more tensors"
