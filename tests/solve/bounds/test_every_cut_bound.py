"""The bound over every cut on a loop or a V against the best of all plans and orders."""

from dataclasses import replace
from itertools import product
from math import ceil

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import FULL, NONE, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.solve.bounds import AnyPlan, any_order_bound_ns, every_cut_bound_ns
from evenflow.solve.bounds.two_chunk_kernel import rank_time
from evenflow.solve.bounds.two_chunk_tables import two_chunk_tables
from tests.networks import equal_network
from tests.solve.bounds.test_any_order_bound import BLOCKS, LAYERS, cells_of, cuts_of
from tests.solve.order.oracle import shortest
from tests.thoroughness import examples

LOOP, V = (0, 1, 0, 1), (0, 1, 1, 0)
PLENTY = 10**9


def shortest_of_all(plans: AnyPlan) -> int | None:
    """The shortest step over both placements, every cut, all recomputation and every order; None where none fits."""
    layers = plans.network.num_layers
    best: int | None = None
    for placement, cut in product((LOOP, V), cuts_of(layers, 4)):
        for kinds in product((NONE, FULL), repeat=layers):
            small = cells_of(plans, placement, cut, kinds)
            step = None if min(small.room) < 0 else shortest(small)
            if step is not None and (best is None or step < best):
                best = step
    return best


@st.composite
def small_plans(draw: st.DrawFn) -> AnyPlan:
    may_split = draw(st.booleans())
    layers = [draw(LAYERS) for _ in range(4)]
    if draw(st.sampled_from([True, True, True, False])):  # nothing to choose: the bound is close, and orders are few
        layers = [replace(layer, modes=dict.fromkeys(layer.modes, layer.modes[NONE])) for layer in layers]
    return AnyPlan(
        network=Network(
            name="small",
            runs=tuple(LayerRun(layer=layer, count=1) for layer in layers),
            head=draw(BLOCKS),
            tail=draw(BLOCKS),
        ),
        num_ranks=2,
        num_chunks=2,
        num_units=2 if may_split else draw(st.integers(2, 3)),
        min_layers=1,
        memory_limit_bytes=draw(st.integers(8, 45)),
        message_ns=0,
        may_split=may_split,
    )


def least_of_cut(plans: AnyPlan, placement: tuple[int, ...], cut: tuple[int, ...]) -> int | None:
    """The shortest step of a cut on a placement over all recomputation and every order; None where none fits."""
    best: int | None = None
    choices = [(NONE,) if layer.modes[NONE] == layer.modes[FULL] else (NONE, FULL) for layer in plans.network.layers]
    for kinds in product(*choices):
        small = cells_of(plans, placement, cut, kinds)
        step = None if min(small.room) < 0 else shortest(small)
        if step is not None and (best is None or step < best):
            best = step
    return best


def busiest_rank(plans: AnyPlan, placement: tuple[int, ...], cut: tuple[int, ...]) -> float:
    """What the bound says of that cut: the time of its busiest rank alone."""
    tables = two_chunk_tables(plans)
    starts = [sum(cut[:stage]) for stage in range(5)]
    times = []
    for rank in range(2):
        low, high = (stage for stage in range(4) if placement[stage] == rank)
        spot = (starts[low], starts[low + 1], starts[high], starts[high + 1])
        times.append(rank_time(tables, spot, low == 0, high == 3, float(PLENTY)))
    return max(times)


@settings(max_examples=examples(45), deadline=None)
@given(small_plans(), st.sampled_from([LOOP, V]))
def test_no_order_of_a_cut_is_shorter_than_its_busiest_rank(plans: AnyPlan, placement: tuple[int, ...]):
    best = least_of_cut(plans, placement, (1, 1, 1, 1))
    if best is not None:
        assert busiest_rank(plans, placement, (1, 1, 1, 1)) <= best + 1e-6


@settings(max_examples=examples(6), deadline=None)
@given(small_plans())
def test_the_search_finds_the_cut_with_the_least_busiest_rank(plans: AnyPlan):
    """Of six layers, over all cuts on a loop and a V; the bound is the least, if the quick one is not more."""
    layers = (*plans.network.layers, *plans.network.layers[:2])
    runs = tuple(LayerRun(layer=layer, count=1) for layer in layers)
    plans = replace(plans, network=replace(plans.network, runs=runs), memory_limit_bytes=60)
    least = min(busiest_rank(plans, placement, cut) for placement in (LOOP, V) for cut in cuts_of(6, 4))
    bound = every_cut_bound_ns(plans, up_to_ns=PLENTY)
    assert bound == max(any_order_bound_ns(plans), ceil(least * (1 - 1e-9)))
    assert every_cut_bound_ns(plans, up_to_ns=bound) == bound
    assert every_cut_bound_ns(plans, up_to_ns=bound + 100) == bound


# Forward 1, backward 2 of every layer, two ranks with two layers each, nothing limited: on a loop the second rank waits
# for a forward and has a backward behind it. On a V as well: 3 + 2 * 3 m units of its own work.
@pytest.mark.parametrize("microbatches", [2, 3])
def test_the_bound_meets_the_optimum(microbatches: int):
    plans = AnyPlan(
        network=equal_network(4, forward_ns=1, backward_ns=2),
        num_ranks=2, num_chunks=2, num_units=microbatches, min_layers=1, memory_limit_bytes=None, message_ns=0,
        may_split=False,
    )  # fmt: skip
    optimum = 6 * microbatches + 3
    assert every_cut_bound_ns(plans, up_to_ns=PLENTY) == optimum


AT_THE_OPTIMUM = [
    (V, 2, (1, 2, 1), 2, False, 21),
    (LOOP, 2, (1, 2, 1), 3, False, 18),
    (V, 2, (1, 2, 1), 3, False, 18),
    (V, 2, (1, 2, 1), 4, False, 16),
    (LOOP, 2, (2, 2, 1), 3, False, 24),
    (V, 2, (2, 2, 1), 3, False, 24),
    (LOOP, 2, (1, 3, 1), 3, False, 24),
    (V, 2, (1, 3, 1), 3, False, 24),
    (V, 2, (1, 3, 1), 4, False, 22),
    (LOOP, 2, (2, 3, 2), 3, False, 30),
    (V, 2, (2, 3, 2), 3, False, 30),
    (V, 2, (2, 3, 2), 4, False, 26),
    (V, 3, (1, 2, 1), 4, False, 22),
    (LOOP, 3, (2, 2, 1), 3, False, 32),
    (V, 3, (1, 3, 1), 4, False, 30),
    (V, 3, (1, 3, 1), 5, False, 29),
    (V, 3, (2, 3, 2), 4, False, 36),
    (LOOP, 2, (1, 2, 1), 3, True, 14),
    (LOOP, 2, (1, 3, 1), 4, True, 18),
    (V, 2, (1, 3, 1), 4, True, 18),
    (LOOP, 2, (2, 3, 2), 3, True, 23),
]
"""Equal layers of which one activation is one byte: placement, microbatches, times of forward, backward and weight
gradient, limit, whether backwards may be split, and the step of the best order, longer than with plenty of memory."""


@pytest.mark.parametrize(("placement", "microbatches", "times", "limit", "may_split", "optimum"), AT_THE_OPTIMUM)
def test_the_busiest_rank_is_at_the_optimum_where_memory_binds(
    placement: tuple[int, ...],
    microbatches: int,
    times: tuple[int, int, int],
    limit: int,
    may_split: bool,
    optimum: int,
):
    """A nanosecond more would be too much, of any of the arguments that memory makes."""
    forward, backward, weight = times
    mode = Mode(activation_bytes=1, backward_ns=backward)
    layer = Layer(
        name="equal", forward_ns=forward, parameter_bytes=0, modes={NONE: mode, FULL: mode}, stated_weight_ns=weight
    )
    plans = AnyPlan(
        network=Network(
            name="equal", runs=(LayerRun(layer=layer, count=4),), head=EndBlock(), tail=EndBlock()
        ),
        num_ranks=2, num_chunks=2, num_units=microbatches, min_layers=1, memory_limit_bytes=limit, message_ns=0,
        may_split=may_split,
    )  # fmt: skip
    assert least_of_cut(plans, placement, (1, 1, 1, 1)) == optimum
    assert busiest_rank(plans, placement, (1, 1, 1, 1)) == pytest.approx(optimum, abs=1e-6)
    assert busiest_rank(replace(plans, memory_limit_bytes=None), placement, (1, 1, 1, 1)) < optimum
