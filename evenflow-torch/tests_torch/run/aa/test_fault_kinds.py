"""Faults of every kind that the A/A check covers, on real processes: each is seen within the stated number of steps."""

from collections.abc import Callable
from functools import partial

import pytest

from evenflow.aa import Direction
from evenflow.model import Plan
from evenflow.schedule import schedule_of
from evenflow_torch.run.values.aa_report import Evidence, FaultKind
from tests_torch.run.aa.aa_models import FAULTY_RANK, checks_of, fault_case
from tests_torch.run.cases import NUM_RANKS, Answer, untroubled

pytestmark = pytest.mark.processes

PLAN = Plan(schedule="1f1b", num_microbatches=3, layers=((1, 1, 1),))
ROTATION = len(checks_of(schedule_of(PLAN), FAULTY_RANK).rotation)
CASES: dict[str, Callable[[int], Answer]] = {
    "forward": partial(fault_case, PLAN, kind=FaultKind.PRODUCT, direction=Direction.FORWARD, num_steps=1 + ROTATION),
    "backward": partial(fault_case, PLAN, kind=FaultKind.PRODUCT, direction=Direction.BACKWARD, num_steps=1 + ROTATION),
    "activation": partial(fault_case, PLAN, kind=FaultKind.MESSAGE, direction=Direction.FORWARD, num_steps=2),
    "gradient": partial(fault_case, PLAN, kind=FaultKind.MESSAGE, direction=Direction.BACKWARD, num_steps=2),
    "update": partial(fault_case, PLAN, kind=FaultKind.UPDATE, num_steps=2),
    "stuck": partial(fault_case, PLAN, kind=FaultKind.STUCK, num_steps=17),
}
EVIDENCE = {
    "forward": Evidence.REPEAT,
    "backward": Evidence.REPEAT,
    "activation": Evidence.MESSAGE,
    "gradient": Evidence.MESSAGE,
    "update": Evidence.UPDATE,
    "stuck": Evidence.NEIGHBOUR,
}


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    return untroubled(CASES)


@pytest.mark.parametrize("name", CASES)
def test_a_fault_is_seen_within_the_stated_steps_by_what_was_compared(
    answers: dict[str, list[Answer]], name: str
) -> None:
    audits = [answer.found for answer in answers[name]]
    mismatches = [one for audit in audits for one in audit.mismatches]
    seen_by = {one.evidence for one in mismatches}
    assert EVIDENCE[name] in seen_by
    assert seen_by <= {EVIDENCE[name], Evidence.NEIGHBOUR}, "a suspicion asks the neighbours"
    assert len(audits[FAULTY_RANK].injected) >= 1
    assert [audit.injected for rank, audit in enumerate(audits) if rank != FAULTY_RANK] == [[]] * (NUM_RANKS - 1)
    if name == "stuck":
        pairs = {frozenset((one.rank, one.other_rank)) for one in mismatches}
        (faulty,) = frozenset.intersection(*pairs)
        assert (faulty, len(pairs)) == (FAULTY_RANK, 2), "it differs from both neighbours, which agree"
    else:
        assert {one.rank for one in mismatches} == {FAULTY_RANK}


def test_all_messages_and_updates_are_compared(answers: dict[str, list[Answer]]) -> None:
    audits = [answer.found for answer in answers["update"]]
    assert [audit.num_messages for audit in audits] == [2 * 3, 2 * 2 * 3, 2 * 3], "of 2 steps, in and out"
    for answer in answers["stuck"]:
        audit = answer.found
        assert audit.update_steps <= 16
        assert audit.num_updates >= 17
        assert audit.num_neighbour_checks >= 1
