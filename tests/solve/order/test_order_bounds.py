"""Lower bounds over any order against the best of all orders."""

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import FULL, NONE, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.solve.order.order_bounds import order_lower_bound
from evenflow.solve.order.plan_bounds import AnyPlan, any_order_lower_bound
from tests.solve.order.cases import as_work, equal_work, small_work
from tests.solve.order.oracle import Small, shortest


@settings(max_examples=60, deadline=None)
@given(small_work())
def test_no_order_is_shorter_than_the_bound(small: Small):
    best = shortest(small)
    assert best is not None
    assert order_lower_bound(as_work(small)).lower_bound_ns <= best


@settings(max_examples=30, deadline=None)
@given(small_work(), st.integers(1, 3))
def test_more_room_never_raises_the_bound(small: Small, more: int):
    larger = replace(small, room=tuple(each + more for each in small.room))
    assert order_lower_bound(as_work(larger)).lower_bound_ns <= order_lower_bound(as_work(small)).lower_bound_ns


@settings(max_examples=30, deadline=None)
@given(small_work(), st.integers(2, 1000))
def test_bounds_scale_with_the_times(small: Small, factor: int):
    scaled = replace(
        small,
        forward=tuple(factor * each for each in small.forward),
        backward=tuple(factor * each for each in small.backward),
        weight=tuple(factor * each for each in small.weight),
        message=factor * small.message,
    )
    bound, larger = order_lower_bound(as_work(small)), order_lower_bound(as_work(scaled))
    assert larger.path_ns == factor * bound.path_ns
    assert larger.rank_ns == factor * bound.rank_ns


# Forward 1 and backward 2 (input and weight gradient 1 each) on every stage. Without split backwards p - 1 forwards and
# as many backwards stand before and after the work of the last rank: 3 (m + p - 1), which 1F1B reaches; with them the
# last rank can begin after p - 1 and never idle: 3 m + p - 1, which zb-h1 reaches. With room for one microbatch nothing
# overlaps. 30: the constraint program of the zero-bubble comparison, with 1F1B's memory held to the weight gradient.
@pytest.mark.parametrize(
    ("sizes", "may_split", "room", "optimum"),
    [
        ((4, 8), False, (4, 3, 2, 1), 33),
        ((8, 16), False, tuple(range(8, 0, -1)), 69),
        ((4, 8), True, (99,) * 4, 27),
        ((8, 16), True, (99,) * 8, 55),
        ((4, 8), True, (4, 3, 2, 1), 30),
        ((4, 8), False, (1,) * 4, 3 * 4 * 8),
    ],
)
def test_bounds_meet_known_optima(sizes: tuple[int, int], may_split: bool, room: tuple[int, ...], optimum: int):
    work = equal_work(num_ranks=sizes[0], num_microbatches=sizes[1], may_split=may_split, room=room)
    assert order_lower_bound(work).lower_bound_ns == optimum


LAYERS = st.builds(
    lambda forward, weight, gradient, more, full, most, parameters: Layer(
        name="layer",
        forward_ns=forward,
        parameter_bytes=parameters,
        modes={
            NONE: Mode(activation_bytes=full + most, backward_ns=weight + gradient),
            FULL: Mode(activation_bytes=full, backward_ns=weight + gradient + more),
        },
        stated_weight_ns=weight,
    ),
    st.integers(1, 6), st.integers(0, 5), st.integers(1, 6), st.integers(0, 5),
    st.integers(1, 2), st.integers(0, 4), st.integers(0, 3),
)  # fmt: skip
BLOCKS = st.builds(
    EndBlock,
    forward_ns=st.integers(0, 3),
    backward_ns=st.integers(0, 5),
    parameter_bytes=st.integers(0, 3),
    activation_bytes=st.integers(0, 2),
)


@settings(max_examples=25, deadline=None)
@given(st.data())
def test_no_plan_in_any_order_is_shorter_than_the_bound(data: st.DataObject):
    num_chunks = data.draw(st.sampled_from([1, 1, 2]))
    num_layers = data.draw(st.integers(2 * num_chunks, 2 * num_chunks + 1))
    network = Network(
        name="small",
        runs=tuple(LayerRun(layer=data.draw(LAYERS), count=1) for _ in range(num_layers)),
        head=data.draw(BLOCKS),
        tail=data.draw(BLOCKS),
    )
    plans = AnyPlan(
        network=network,
        num_ranks=2,
        num_chunks=num_chunks,
        num_units=2 if num_chunks == 2 else data.draw(st.integers(2, 3)),
        min_layers=1,
        memory_limit_bytes=data.draw(st.integers(5, 40)),
        message_ns=data.draw(st.sampled_from([0, 2])),
        may_split=data.draw(st.booleans()),
    )
    placement = data.draw(st.sampled_from([(0, 1, 0, 1), (0, 1, 1, 0)]))[: 2 * num_chunks]
    bound = any_order_lower_bound(plans)
    for cut in _cuts(num_layers, 2 * num_chunks):
        for kinds in product((NONE, FULL), repeat=num_layers):
            small = _cells(plans, placement, cut, kinds)
            best = None if min(small.room) < 0 else shortest(small)
            assert best is None or bound <= best, (cut, kinds)


def _cuts(num_layers: int, num_stages: int) -> list[tuple[int, ...]]:
    every = product(range(1, num_layers + 1), repeat=num_stages)
    return [sizes for sizes in every if sum(sizes) == num_layers]


def _cells(plans: AnyPlan, placement: tuple[int, ...], sizes: tuple[int, ...], kinds: tuple[str, ...]) -> Small:
    """One cut and choice of kinds."""
    network, stages = plans.network, len(sizes)
    columns: list[tuple[int, ...]] = []
    first = 0
    for stage, size in enumerate(sizes):
        ends = [network.head] * (stage == 0) + [network.tail] * (stage == stages - 1)
        parts = list(zip(network.layers[first : first + size], kinds[first : first + size], strict=True))
        modes = [layer.modes[kind] for layer, kind in parts]
        held = [layer for layer, _ in parts] + ends
        columns.append((
            sum(part.forward_ns for part in held),
            sum(part.backward_ns for part in [*modes, *ends]),
            sum(part.weight_ns for part in held),
            sum(part.activation_bytes for part in [*modes, *ends]),
            sum(part.until_weight_bytes for part in held),
            sum(part.parameter_bytes for part in held),
        ))  # fmt: skip
        first += size
    forward, backward, weight, activation, waiting, parameters = (tuple(row) for row in np.array(columns).T.tolist())
    limit = plans.memory_limit_bytes
    assert limit is not None
    return Small(
        stage_ranks=placement,
        num_microbatches=plans.num_units,
        forward=forward,
        backward=backward,
        weight=weight,
        activation=activation,
        waiting=waiting,
        room=tuple(
            limit - sum(size for size, own in zip(parameters, placement, strict=True) if own == rank)
            for rank in range(2)
        ),
        may_split=plans.may_split,
        message=plans.message_ns,
    )
