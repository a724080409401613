"""Bounds from what ranks can hold and do, against every plan of small problems."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import FULL, NONE, SELECT, CellRule, Request, Sizes
from evenflow.schedule import FAMILIES, Op, Schedule, different_group_sizes, make_schedule
from evenflow.simulate import live_vectors
from evenflow.solve.bounds import capacity_bound_ns, capacity_table
from evenflow.solve.bounds.order_facts import order_facts
from tests.networks import equal_network
from tests.solve.cases import cases
from tests.solve.exhaustive import Case, every_plan
from tests.strategies import FamilySizes
from tests.thoroughness import examples

RULES = [
    None,
    CellRule(kinds=(FULL, NONE)),
    CellRule(kinds=(SELECT, NONE)),
    CellRule(alike=True),
    CellRule(full=(1, 2)),
]


def _bound_ns(request: Request, family: str) -> float:
    return capacity_bound_ns(
        capacity_table(request, family),
        family,
        request.sizes,
        min_layers=request.min_layers,
        message_ns=request.message_ns,
    )


@settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))
@given(cases(any_order=False), st.sampled_from(RULES))
def test_no_plan_is_shorter_than_the_bound(case: Case, rule: CellRule | None):
    assume(case.sizes.sequence_splits == 1)
    assume(rule is None or (rule.full is None) or FULL in case.network.kinds)
    case = replace(case, rule=rule)
    plans = every_plan(case)
    for limit in (None, max(0, plans.least_bytes - 1), *plans.limits()):
        best = plans.best_ns(limit)
        if best is not None:
            assert _bound_ns(case.request(limit), case.sizes.family) <= best, limit


@pytest.mark.parametrize("family", FAMILIES)
def test_ranks_hold_no_less_in_longer_steps_and_with_other_groups(family: str):
    known = FAMILIES[family]
    for chunks in [known.num_chunks] if known.num_chunks else range(known.fewest_chunks, 4):
        for ranks in (1, 2, 3, 5):
            for units in (1, ranks, 3 * ranks + 1, 4 * ranks, 5 * ranks + 2):
                sizes = Sizes(num_ranks=ranks, num_chunks=chunks, num_microbatches=units)
                _check_facts(family, sizes)


def _check_facts(family: str, sizes: Sizes) -> None:
    facts = order_facts(family, sizes)
    for group in different_group_sizes(family, sizes) if FAMILIES[family].has_groups else (None,):
        try:
            order = make_schedule(
                family, num_ranks=sizes.num_ranks, num_chunks=sizes.num_chunks, num_microbatches=sizes.num_microbatches,
                group_size=group,
            )  # fmt: skip
        except InputError:
            continue  # its ranks would wait in a circle
        for rank in range(sizes.num_ranks):
            held = live_vectors(order, rank)
            known = facts.live[rank].reshape(-1, 2 * sizes.num_chunks)[:, : held.shape[1]]
            weights = np.random.default_rng(rank).exponential(size=(held.shape[1], 30)) ** 2
            # Whatever cells weigh, the fullest moment holds at least as much.
            assert ((known @ weights).max(axis=0) <= (held @ weights).max(axis=0) * (1 + 1e-9)).all()
            if sizes.num_chunks == 1:
                assert _turns(order, rank) == tuple(facts.turns[rank])


def _turns(order: Schedule, rank: int) -> tuple[int, ...]:
    ops = [action.op for action in order.order(rank)]
    gradients = [place for place, op in enumerate(ops) if op in (Op.B, Op.I)]
    last = max(place for place, op in enumerate(ops) if op == Op.F)
    return (
        ops[: gradients[0]].count(Op.F), sum(place > last for place in gradients), ops[last:].count(Op.W),
        ops[gradients[-1] :].count(Op.W),
    )  # fmt: skip


def test_equal_layers_of_a_full_pipeline_are_bounded_exactly():
    network = equal_network(8, forward_ns=10, backward_ns=20)
    request = Case(
        network=network, sizes=FamilySizes(family="1f1b", num_ranks=4, num_chunks=1, num_microbatches=12)
    ).request(None)
    assert _bound_ns(request, "1f1b") == pytest.approx((12 + 3) * 2 * 30, rel=1e-5)


def test_each_place_of_a_pipeline_is_taken_once_where_cells_may_be_empty():
    """Ranks wait for a layer on each rank before them, whichever these are; layers that are whole leave no choice."""
    network = equal_network(12, forward_ns=10, backward_ns=20)
    sizes = FamilySizes(family="interleaved", num_ranks=6, num_chunks=2, num_microbatches=12)
    request = Case(network=network, sizes=sizes, allow_empty=True).request(None)
    even_ns = 12 * 2 * 30
    assert even_ns + 5 * 30 == pytest.approx(_bound_ns(request, "interleaved"), rel=1e-5)
    assert _bound_ns(replace(request, allow_empty=False), "interleaved") == pytest.approx(even_ns + 5 * 30, rel=1e-5)
