"""The report of an A/A check puts the ranks together."""

import pytest

from evenflow.aa import Direction
from evenflow_torch.run.aa.checked_run import report
from evenflow_torch.run.values.aa_report import Mismatch, RankAudit


def audit(*steps: int) -> RankAudit:
    found = [
        Mismatch(
            rank=0, stage=0, microbatch=0, step=step, direction=Direction.FORWARD, tensor="output", num_different=1
        )
        for step in steps
    ]
    return RankAudit(
        num_checks=1, share_per_step=0.5, share_of_run=0.5, check_ns=1, never_checked=[], fits_no_bubble=[],
        mismatches=found, injected=[],
    )  # fmt: skip


def test_a_step_takes_from_the_first_begin_to_the_last_end() -> None:
    # Steps without and with checks in turn: 10, 12, 20, 30 ns over both ranks.
    first = [(False, 0, 8), (True, 100, 112), (False, 205, 220), (True, 300, 310)]
    second = [(False, 2, 10), (True, 101, 111), (False, 200, 210), (True, 320, 330)]
    found = report([(audit(7, 3), first), (audit(5), second)])
    assert (found.plain_step_ns, found.checked_step_ns, found.num_checked_steps) == (15, 21, 2)
    assert found.cost == pytest.approx(21 / 15 - 1)
    assert [mismatch.step for mismatch in found.mismatches] == [3, 5, 7]
