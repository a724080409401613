"""Bounds from paths through an order of work, against every plan of small problems."""

from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings

from evenflow.model import Request
from evenflow.schedule import FAMILIES, Schedule, make_schedule
from evenflow.simulate import build_graph
from evenflow.solve.bounds import capacity_bound_ns, capacity_table
from evenflow.solve.bounds.layer_table import layer_table
from evenflow.solve.bounds.path_bound import After, path_bound_ns
from tests.networks import equal_network
from tests.solve.cases import cases
from tests.solve.exhaustive import Case, every_plan
from tests.strategies import FamilySizes
from tests.thoroughness import examples


def messages(order: Schedule, message_ns: int) -> np.ndarray:
    """What each stage sends on, forward and backward."""
    ranks = np.array(order.stage_ranks)
    crosses = message_ns * (ranks[1:] != ranks[:-1])
    return np.array([[*crosses, 0], [0, *crosses]])


def bound_ns(request: Request, order: Schedule, **changes: Any) -> float:
    table = layer_table(request, splits_backward=order.splits_backward, most_types=2 if order.num_chunks > 1 else None)
    return path_bound_ns(
        table,
        build_graph(order),
        min_layers=request.min_layers,
        messages_ns=messages(order, request.message_ns),
        **changes,
    )


@settings(max_examples=examples(150), deadline=None, suppress_health_check=list(HealthCheck))
@given(cases())
def test_no_plan_is_shorter_than_the_bound(case: Case):
    assume(case.sizes.sequence_splits == 1)
    best = every_plan(case).best_ns(None)
    assert best is not None
    assert bound_ns(case.request(None), case.schedule) <= best


@pytest.mark.parametrize("family", [name for name, family in FAMILIES.items() if not family.has_pairs])
@pytest.mark.parametrize("message_ns", [0, 7])
def test_with_one_cut_alone_the_bound_is_its_step(family: str, message_ns: int):
    chunks = FAMILIES[family].num_chunks or max(FAMILIES[family].fewest_chunks, 1)
    sizes = FamilySizes(family=family, num_ranks=3, num_chunks=chunks, num_microbatches=6)
    network = equal_network(3 * chunks, forward_ns=10, backward_ns=20)
    case = Case(network=network, sizes=sizes, message_ns=message_ns)
    best = every_plan(case).best_ns(None)
    assert bound_ns(case.request(None), case.schedule) == pytest.approx(best, rel=1e-6)


@pytest.mark.parametrize(("family", "chunks"), [("interleaved", 2), ("1f1b-v", 2), ("zbv", 2)])
def test_of_few_microbatches_it_is_near_the_best_cut(family: str, chunks: int):
    """Where layers are so many that fractions of them matter little; work alone says little there."""
    sizes = FamilySizes(family=family, num_ranks=2, num_chunks=chunks, num_microbatches=2)
    network = equal_network(40, forward_ns=10, backward_ns=20)
    case = Case(network=network, sizes=sizes)
    best, request = every_plan(case).best_ns(None), case.request(None)
    assert best is not None
    found = bound_ns(request, case.schedule)
    assert 0.98 * best <= found <= best
    assert capacity_bound_ns(capacity_table(request, family), family, request.sizes) < 0.97 * found


def test_who_waits_for_its_messages_is_busy_as_long():
    order = make_schedule("1f1b", num_ranks=2, num_chunks=1, num_microbatches=3)
    request = Case(
        network=equal_network(2, forward_ns=10, backward_ns=20),
        sizes=FamilySizes(family="1f1b", num_ranks=2, num_chunks=1, num_microbatches=3),
        message_ns=4,
    ).request(None)
    # Rank 0 runs three forwards of 14 and rank 1 three backwards of 24; the last gradient takes rank 0 another 20.
    assert bound_ns(request, order, sends=True) == pytest.approx(14 + 3 * (10 + 24) + 20, rel=1e-6)


@pytest.mark.parametrize(("tail_ns", "step_ns"), [(0, 120 + 7), (15, 120 + 7), (100, 100 + 7 + 100)])
def test_what_follows_a_rank_is_that_of_its_own_stages(tail_ns: float, step_ns: float):
    """Rank 1 is done 20 before rank 0, whose last gradient needs its own."""
    order = make_schedule("1f1b", num_ranks=2, num_chunks=1, num_microbatches=3)
    request = Case(
        network=equal_network(2, forward_ns=10, backward_ns=20),
        sizes=FamilySizes(family="1f1b", num_ranks=2, num_chunks=1, num_microbatches=3),
    ).request(None)
    assert bound_ns(request, order, after=After(layer_ns=7, tail_ns=tail_ns)) == pytest.approx(step_ns, rel=1e-6)


def test_more_stages_than_layers_have_no_cut():
    case = Case(
        network=equal_network(4, forward_ns=10, backward_ns=20),
        sizes=FamilySizes(family="1f1b", num_ranks=4, num_chunks=1, num_microbatches=3),
    )
    order = make_schedule("interleaved", num_ranks=4, num_chunks=2, num_microbatches=4)
    assert bound_ns(case.request(None), order) == float("inf")


@pytest.mark.parametrize(("ranks", "chunks"), [(24, 1), (24, 2)])
def test_of_many_ranks_whose_loads_are_even_it_is_near_the_best_cut(ranks: int, chunks: int):
    """The longest paths through all ranks are alike: those that stay on one rank are known from the start."""
    family = "interleaved" if chunks > 1 else "1f1b"
    order = make_schedule(family, num_ranks=ranks, num_chunks=chunks, num_microbatches=3 * ranks)
    sizes = FamilySizes(family=family, num_ranks=ranks, num_chunks=chunks, num_microbatches=3 * ranks)
    network = equal_network(ranks * chunks, forward_ns=10, backward_ns=20)
    case = Case(network=network, sizes=sizes, allow_empty=True)
    step_ns = (3 * ranks * chunks + ranks - 1) * 30  # with a layer in each cell, which is best
    found = bound_ns(case.request(None), order)
    assert 0.92 * step_ns <= found <= step_ns
