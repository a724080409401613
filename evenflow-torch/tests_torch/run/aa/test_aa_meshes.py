"""The A/A check where stages lie on several devices, on real processes: what is found is where it was."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial

import pytest

from evenflow.aa import Direction
from evenflow.cluster.mesh_plan import RowExchange
from evenflow.model import Plan
from evenflow_torch.run.values.aa_report import Evidence, FaultKind
from tests_torch.run.aa.aa_meshes import fault_case, flipped_case, flipped_experts_case, same_case
from tests_torch.run.aa.aa_models import FAULTY_RANK
from tests_torch.run.aa.test_aa_check import check
from tests_torch.run.aa.test_fault_kinds import EVIDENCE
from tests_torch.run.cases import Answer, untroubled
from tests_torch.run.mesh.expert_models import EXPERT
from tests_torch.run.mesh.mesh_models import CONTEXT, DATA, SEQUENCE, SHARDED, TENSOR, On

pytestmark = pytest.mark.processes

NUM_DEVICES = 4
ONE_STAGE = Plan(schedule="1f1b", num_microbatches=2, layers=((3,),), recompute={"full": ((1,),)})
PAIR = Plan(schedule="1f1b", num_microbatches=3, layers=((1, 2),), recompute={"full": ((1, 1),)})
SPLIT = Plan(schedule="zb-h1", num_microbatches=3, layers=((2, 1),), recompute={"full": ((1, 0),), "select": ((1, 1),)})
CHUNKS = Plan(schedule="interleaved", num_microbatches=4, layers=((1, 1), (2, 0)))
OF_THREE = Plan(schedule="1f1b", num_microbatches=3, layers=((1, 1, 1),))


def halves(first: str, second: str) -> tuple[On, ...]:
    return On(devices=(0, 1), mesh=(2,), axes=(first,)), On(devices=(2, 3), mesh=(2,), axes=(second,))


PAIR_OF_DEVICES = (On(devices=(0, 1), mesh=(2,), axes=(TENSOR,)),)
SHARING = (On(devices=(0, 1), mesh=(2,), axes=(SHARDED,)),)
UNEVEN = (
    On(devices=(2,), mesh=(1,), axes=(DATA,)),
    On(devices=(0, 1), mesh=(2,), axes=(TENSOR,)),
    On(devices=(3,), mesh=(1,), axes=(DATA,)),
)

PRODUCTS: dict[str, Callable[[int], Answer]] = {
    "data x tensor": partial(flipped_case, ONE_STAGE, (On(devices=(0, 1, 2, 3), mesh=(2, 2), axes=(DATA, TENSOR)),)),
    "data, then tensor": partial(flipped_case, PAIR, halves(DATA, TENSOR)),
    "tensor, then sequence, split": partial(flipped_case, SPLIT, halves(TENSOR, SEQUENCE)),
    "shared data, chunks": partial(flipped_case, CHUNKS, halves(SHARDED, SHARDED)),
    "shared data, split": partial(flipped_case, SPLIT, halves(SHARDED, DATA), tied=True),
    "shared, summed as they come": partial(flipped_case, PAIR, halves(SHARDED, DATA), sums_parts=True),
    "context, a ring": partial(flipped_case, PAIR, halves(CONTEXT, CONTEXT), rows=RowExchange.RING, dropout=False),
    "one, two and one device": partial(flipped_case, OF_THREE, UNEVEN),
    "experts, then data": partial(
        flipped_experts_case,
        PAIR,
        (On(devices=(0, 1), mesh=(2,), axes=(EXPERT,)), halves(DATA, DATA)[1]),
        kind="mixtral",
    ),
    "two replicas of two devices": partial(flipped_case, ONE_STAGE, PAIR_OF_DEVICES, replicas=2),
    "two replicas that share": partial(flipped_case, replace(ONE_STAGE, schedule="f-then-b"), SHARING, replicas=2),
}
SAME: dict[str, Callable[[int], Answer]] = {
    "same, data and tensor": partial(same_case, PAIR, halves(DATA, TENSOR), tied=True),
    "same, shared": partial(same_case, PAIR, halves(SHARDED, SHARDED), sums_parts=True),
    "same, split": partial(same_case, SPLIT, halves(SEQUENCE, SHARDED)),
    "same, replicas": partial(same_case, ONE_STAGE, SHARING, replicas=2),
}
KINDS: dict[str, Callable[[int], Answer]] = {
    "activation": partial(
        fault_case, OF_THREE, UNEVEN, kind=FaultKind.MESSAGE, direction=Direction.FORWARD, num_steps=2
    ),
    "gradient": partial(
        fault_case, PAIR, halves(TENSOR, DATA), kind=FaultKind.MESSAGE, direction=Direction.BACKWARD, num_steps=2
    ),
    "update": partial(fault_case, PAIR, halves(SHARDED, TENSOR), kind=FaultKind.UPDATE, num_steps=2),
}
STUCK: dict[str, Callable[[int], Answer]] = {
    "replicas": partial(
        fault_case, ONE_STAGE, PAIR_OF_DEVICES, kind=FaultKind.STUCK, num_steps=18, replicas=2, dropout=False
    ),
    "replicas that share": partial(fault_case, ONE_STAGE, SHARING, kind=FaultKind.STUCK, num_steps=18, replicas=2),
    "ranks": partial(
        fault_case, replace(PAIR, layers=((2, 2),)), halves(TENSOR, TENSOR), kind=FaultKind.STUCK, num_steps=18
    ),
}


@pytest.fixture(scope="module")
def answers() -> dict[str, list[Answer]]:
    return untroubled({**PRODUCTS, **SAME, **KINDS, **STUCK}, NUM_DEVICES)


@pytest.mark.parametrize("name", PRODUCTS)
def test_a_flipped_bit_is_found_on_its_device_and_nothing_else_is(answers: dict[str, list[Answer]], name: str) -> None:
    behind_others = "one, two and one device", "shared data, chunks"
    check(answers, name, *([] if name in behind_others else ["model.embed_tokens.weight"]))


@pytest.mark.parametrize("name", SAME)
def test_training_with_checks_is_that_without_to_the_bit(answers: dict[str, list[Answer]], name: str) -> None:
    for answer in answers[name]:
        assert (answer.error, answer.found.mismatches) == (0, [])
        assert answer.found.num_checks > 0
        assert answer.found.num_updates > 0


@pytest.mark.parametrize("name", KINDS)
def test_a_fault_is_seen_by_what_was_compared(answers: dict[str, list[Answer]], name: str) -> None:
    audits = [answer.found for answer in answers[name]]
    mismatches = [one for audit in audits for one in audit.mismatches]
    assert {one.evidence for one in mismatches} == {EVIDENCE[name]}
    assert {one.rank for one in mismatches} == {FAULTY_RANK}
    assert [len(audit.injected) > 0 for audit in audits] == [rank == FAULTY_RANK for rank in range(NUM_DEVICES)]
    if EVIDENCE[name] is Evidence.MESSAGE:
        senders = {"activation": {2}, "gradient": {2, 3}}
        assert {one.other_rank for one in mismatches} <= senders[name], "the device that sent it"
        assert all(audit.num_messages > 0 for audit in audits)


@pytest.mark.parametrize("name", STUCK)
def test_what_is_stuck_is_seen_by_devices_that_have_layers_that_lie_alike(
    answers: dict[str, list[Answer]], name: str
) -> None:
    audits = [answer.found for answer in answers[name]]
    mismatches = [one for audit in audits for one in audit.mismatches]
    assert {one.evidence for one in mismatches} == {Evidence.NEIGHBOUR}
    seen = {frozenset((one.rank, one.other_rank)) for one in mismatches}
    assert any(FAULTY_RANK in pair for pair in seen), seen
    assert sum(audit.num_neighbour_checks for audit in audits) > 0


def test_layers_are_done_again_without_a_difference_where_nothing_is_faulty(answers: dict[str, list[Answer]]) -> None:
    assert all(answer.found.num_neighbour_checks > 0 for answer in answers["same, replicas"])
