"""Lower bounds over any cut and any order against the best of all."""

from dataclasses import replace
from itertools import product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import FULL, NONE, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.solve.bounds import AnyPlan, any_order_bound_ns
from tests.networks import equal_network
from tests.solve.order.oracle import Small, shortest
from tests.strategies import networks
from tests.thoroughness import examples

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


def test_ends_are_counted_once_where_a_cell_may_be_empty():
    """The tail is on the last rank, which has no layer here: it is no work of the rank with the only layer."""
    layer = Layer(name="layer", forward_ns=5, parameter_bytes=0, modes={NONE: Mode(activation_bytes=0, backward_ns=5)})
    end = EndBlock(forward_ns=5, backward_ns=5)
    plans = AnyPlan(
        network=Network(name="one", runs=(LayerRun(layer=layer, count=1),), head=end, tail=end),
        num_ranks=2, num_chunks=1, num_units=2, min_layers=0, memory_limit_bytes=None, message_ns=0, may_split=False,
    )  # fmt: skip
    assert 30 <= any_order_bound_ns(plans) <= 50, "F F B B on both ranks takes 50"


@settings(max_examples=examples(25), deadline=None)
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
    bound = any_order_bound_ns(plans)
    for cut in cuts_of(num_layers, 2 * num_chunks):
        for kinds in product((NONE, FULL), repeat=num_layers):
            small = cells_of(plans, placement, cut, kinds)
            best = None if min(small.room) < 0 else shortest(small)
            assert best is None or bound <= best, (cut, kinds)


def cuts_of(num_layers: int, num_stages: int) -> list[tuple[int, ...]]:
    every = product(range(1, num_layers + 1), repeat=num_stages)
    return [sizes for sizes in every if sum(sizes) == num_layers]


def cells_of(plans: AnyPlan, placement: tuple[int, ...], sizes: tuple[int, ...], kinds: tuple[str, ...]) -> Small:
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


@settings(max_examples=examples(15), deadline=None)
@given(networks(max_layers=10), st.integers(1, 3), st.integers(1, 2), st.integers(1, 5), st.booleans())
def test_a_limit_never_lowers_the_bound_and_plenty_does_not_raise_it(
    network: Network, ranks: int, chunks: int, units: int, split: bool
):
    plans = AnyPlan(
        network=network,
        num_ranks=ranks,
        num_chunks=chunks,
        num_units=units,
        min_layers=0,
        memory_limit_bytes=None,
        message_ns=0,
        may_split=split,
    )
    limited, plentiful = (replace(plans, memory_limit_bytes=limit) for limit in (2_000, 10**9))
    bound = any_order_bound_ns(plans)
    assert any_order_bound_ns(limited) >= bound
    assert any_order_bound_ns(plentiful) == bound
    assert any_order_bound_ns(replace(plans, may_split=True)) <= bound


def test_one_rank_does_all_the_work():
    network = equal_network(4, forward_ns=10, backward_ns=20)
    plans = AnyPlan(
        network=network,
        num_ranks=1,
        num_chunks=1,
        num_units=6,
        min_layers=1,
        memory_limit_bytes=None,
        message_ns=0,
        may_split=False,
    )
    assert 6 * 4 * 30 - 1 <= any_order_bound_ns(plans) <= 6 * 4 * 30
