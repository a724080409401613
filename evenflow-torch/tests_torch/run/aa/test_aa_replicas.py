"""The A/A check of replicas, and of models cut by their operators, on real processes: what is found is where it was."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from evenflow.aa import Direction
from evenflow.model import Plan
from evenflow.schedule import schedule_of
from evenflow_torch.run.values.aa_report import Evidence, FaultKind
from tests_torch.run.aa.aa_models import FAULTY_RANK, aa_case, checks_of, fault_case, same_case, traced_case
from tests_torch.run.aa.test_aa_check import check
from tests_torch.run.aa.test_fault_kinds import EVIDENCE
from tests_torch.run.cases import Answer, untroubled
from tests_torch.run.replicas.test_replicas import COPIED, NUM_PROCESSES, SHARDED

pytestmark = pytest.mark.processes

PLAN = Plan(schedule="1f1b", num_microbatches=3, layers=((2, 1),), recompute={"full": ((1, 0),)})
SPLIT = replace(PLAN, schedule="zb-h1")
FOUR_CHUNKS = Plan(schedule="interleaved", num_microbatches=4, layers=((1, 1), (1, 1), (1, 0), (0, 1)))
"""More stages on a rank than stay whole at once."""
ROTATION = len(checks_of(schedule_of(PLAN), 0).rotation)

PRODUCTS: dict[str, Callable[[int], Answer]] = {
    "copied": partial(aa_case, PLAN, sizes=COPIED),
    "copied, split": partial(aa_case, SPLIT, sizes=COPIED, tied=True),
    "shared": partial(aa_case, PLAN, sizes=SHARDED),
    "shared, split": partial(aa_case, SPLIT, sizes=SHARDED, tied=True),
    "shared, four chunks": partial(aa_case, FOUR_CHUNKS, sizes=SHARDED),
    "traced": partial(traced_case, replace(SPLIT, layers=((1, 1, 1, 1),), recompute={})),
    "traced, shared": partial(traced_case, PLAN, sizes=SHARDED),
    "hybrid": partial(
        aa_case, replace(PLAN, layers=((3,),), recompute={}), sizes={"dp_replicate": 2, "dp_shard": 2, "pp": 1}
    ),
}
SAME: dict[str, Callable[[int], Answer]] = {
    "same, copied": partial(same_case, SPLIT, sizes=COPIED),
    "same, shared": partial(same_case, SPLIT, sizes=SHARDED, tied=True),
    "same, four chunks": partial(same_case, FOUR_CHUNKS, sizes=SHARDED),
}
KINDS: dict[str, Callable[[int], Answer]] = {
    "backward": partial(
        fault_case, PLAN, kind=FaultKind.PRODUCT, direction=Direction.BACKWARD, num_steps=1 + ROTATION, sizes=SHARDED
    ),
    "gradient": partial(
        fault_case, PLAN, kind=FaultKind.MESSAGE, direction=Direction.BACKWARD, num_steps=2,
        sizes={"pp": 2, "dp": 2},
    ),
    "update": partial(fault_case, PLAN, kind=FaultKind.UPDATE, num_steps=2, sizes=SHARDED),
    "stuck": partial(fault_case, PLAN, kind=FaultKind.STUCK, num_steps=19, sizes=SHARDED),
}  # fmt: skip


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    return untroubled({**PRODUCTS, **SAME, **KINDS}, NUM_PROCESSES)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_flipped_bit_is_found_where_it_was_and_nothing_else_is(answers: dict[str, list[Answer]], name: str) -> None:
    on_last = "shared", "shared, split", "shared, four chunks", "traced", "traced, shared"  # the faulty process
    check(answers, name, *([] if name in on_last else ["model.embed_tokens.weight"]))


@pytest.mark.parametrize("name", SAME)
def test_gradients_are_those_of_steps_without_checks_to_the_bit(answers: dict[str, list[Answer]], name: str) -> None:
    assert [(answer.error, answer.found) for answer in answers[name]] == [(0, [])] * NUM_PROCESSES


@pytest.mark.parametrize("name", KINDS)
def test_a_fault_is_seen_by_what_was_compared(answers: dict[str, list[Answer]], name: str) -> None:
    audits = [answer.found for answer in answers[name]]
    mismatches = [one for audit in audits for one in audit.mismatches]
    assert EVIDENCE[name] in {one.evidence for one in mismatches}
    assert [len(audit.injected) > 0 for audit in audits] == [rank == FAULTY_RANK for rank in range(NUM_PROCESSES)]
    if name == "stuck":
        pairs = {frozenset((one.rank, one.other_rank)) for one in mismatches if one.evidence is Evidence.NEIGHBOUR}
        assert frozenset.intersection(*pairs) == {FAULTY_RANK}, "it differs from its replica and from the next rank"
        assert len(pairs) == 2
    else:
        assert {one.rank for one in mismatches} == {FAULTY_RANK}
    if name == "gradient":
        assert {one.other_rank for one in mismatches} <= {None, 3}, "the process that sent it, of the same pipeline"
