from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.collectives import Collective, collective_ns
from evenflow.cluster.mesh import Mesh, MeshAxis
from evenflow.cluster.operator_cost import OperatorCost
from evenflow.cluster.placement import PARTIAL, REPLICATE, WholeTensor
from evenflow.cluster.reached import SLOWED
from evenflow_torch.auto.sharding.operator_strategies import OperatorStrategy
from evenflow_torch.auto.sharding.operator_time import (
    addition_ns,
    allowed_strategies,
    busy_ns,
    compute_ns,
    inner_exchanges,
    inner_times,
    work_split,
)
from evenflow_torch.models.trace.operator_graph import InnerExchange, Operator, Role
from tests.cluster.accelerators import plain_accelerator

AXES = tuple(MeshAxis(size=size, bandwidth_bytes_per_s=1) for size in (2, 4))
ON_DEVICES = Mesh(axes=AXES, accelerator=plain_accelerator(flops_per_s=1e9, memory_bytes_per_s=1e9))
LEFT, RIGHT, RESULT = (WholeTensor(shape=shape, item_bytes=1) for shape in ((8, 16), (16, 8), (8, 8)))
BYTES = (128, 128, 64)
PRODUCT = Operator(
    name="mm", role=Role.COMPUTE, outputs=(RESULT,), cost=OperatorCost(flops=8000, tensor_bytes=BYTES, depth=16)
)
LIGHT = replace(PRODUCT, name="add", cost=OperatorCost(tensor_bytes=BYTES))
WHOLE = OperatorStrategy(inputs=((REPLICATE,) * 2,) * 2, outputs=((REPLICATE,) * 2,))
ROWS = OperatorStrategy(inputs=((REPLICATE, 0), (REPLICATE, REPLICATE)), outputs=((REPLICATE, 0),))
SUMS = OperatorStrategy(inputs=((0, 1), (REPLICATE, 0)), outputs=((0, PARTIAL),))


@pytest.mark.parametrize(("strategy", "parts"), [(WHOLE, 1), (ROWS, 4), (SUMS, 8)])
def test_work_is_split_where_any_tensor_is(strategy: OperatorStrategy, parts: int) -> None:
    assert work_split(strategy, ON_DEVICES) == parts
    assert compute_ns(PRODUCT, (LEFT, RIGHT), strategy, ON_DEVICES) == 8000 // parts


def test_light_operators_take_the_time_of_their_traffic() -> None:
    assert compute_ns(LIGHT, (LEFT, RIGHT), ROWS, ON_DEVICES) == 32 + 128 + 16
    assert addition_ns(LEFT, (0, PARTIAL), ON_DEVICES) == 3 * 64


def test_a_lookup_reads_of_its_table_what_a_device_writes() -> None:
    lookup = replace(PRODUCT, name="embedding", cost=OperatorCost(tensor_bytes=(0, 8, 2 * 64)))
    rows = WholeTensor(shape=(8,), item_bytes=1)
    whole = OperatorStrategy(inputs=((REPLICATE,) * 2,) * 2, outputs=((REPLICATE,) * 2,))
    split = OperatorStrategy(inputs=((REPLICATE,) * 2, (REPLICATE, 0)), outputs=((REPLICATE, 0),))
    found = [compute_ns(lookup, (RIGHT, rows), one, ON_DEVICES) for one in (whole, split)]
    assert found == [8 + 2 * 64, 2 + 2 * 16]


def test_parts_of_a_sum_are_slow_and_no_part_is_faster_than_its_launch() -> None:
    assert ON_DEVICES.accelerator is not None
    reached = replace(ON_DEVICES.accelerator.reached, ramp_depth=16.0)
    ramped = replace(ON_DEVICES, accelerator=replace(ON_DEVICES.accelerator, reached=reached))
    times = [compute_ns(PRODUCT, (LEFT, RIGHT), one, ramped) for one in (WHOLE, ROWS, SUMS)]
    assert times == [8000 * 2, 2000 * 2, 1000 * 5]  # sums of 16, 16 and 4: 4 + 16 is 5 times 4
    reached = replace(ON_DEVICES.accelerator.reached, operator_ns=1500.0)
    slow_host = replace(ON_DEVICES, accelerator=replace(ON_DEVICES.accelerator, reached=reached))
    assert [compute_ns(PRODUCT, (LEFT, RIGHT), one, slow_host) for one in (WHOLE, ROWS, SUMS)] == [8000, 2000, 1500]
    assert compute_ns(LIGHT, (LEFT, RIGHT), ROWS, slow_host) == addition_ns(LEFT, (0, 1), slow_host) == 1500


def test_views_cost_nothing() -> None:
    view = replace(LIGHT, role=Role.VIEW)
    pieces = replace(LIGHT, cost=OperatorCost(tensor_bytes=(0, 0, 0), launches=0))
    assert [compute_ns(one, (LEFT, RIGHT), ROWS, ON_DEVICES) for one in (view, pieces)] == [0, 0]


def test_where_computation_is_free_heavy_operators_are_split_most() -> None:
    free, strategies = Mesh(axes=AXES), (WHOLE, ROWS, SUMS)
    assert compute_ns(PRODUCT, (LEFT, RIGHT), WHOLE, free) == addition_ns(LEFT, (0, 1), free) == 0
    assert allowed_strategies(PRODUCT, strategies, free) == (SUMS,)
    assert allowed_strategies(PRODUCT, strategies, ON_DEVICES) == strategies


def test_an_operators_own_collectives_have_the_size_of_their_tensor_as_other_axes_split_it() -> None:
    exchange = InnerExchange(collective=Collective.ALL_GATHER, tensor=0, share=0.5)
    one = replace(SUMS, exchanges=((1, exchange),))
    # Half of [8, 16] split on axis 0 alone: 32 bytes, of which 3 of 4 parts are sent at a byte a second.
    assert inner_exchanges(PRODUCT, (LEFT, RIGHT), one, ON_DEVICES) == ((1, exchange, 24 * 10**9),)
    assert inner_times(PRODUCT, (LEFT, RIGHT), SUMS, ON_DEVICES) == ()


def added(strategy: OperatorStrategy, mesh: Mesh) -> int:
    return sum(one.exposed_ns for one in inner_times(PRODUCT, (LEFT, RIGHT), strategy, mesh))


@given(
    bandwidth=st.integers(10**5, 10**10),
    count=st.integers(1, 3),
    size=st.sampled_from([1, 2, 4]),
    share=st.floats(0, 4),
)
def test_messages_run_under_the_computation_of_all_parts_but_the_last(
    bandwidth: int, count: int, size: int, share: float
) -> None:
    """Never shorter than either, never longer than one after the other; where messages are longer, they are all."""
    axes = AXES[0], MeshAxis(size=size, bandwidth_bytes_per_s=bandwidth, latency_ns=5)
    mesh = replace(ON_DEVICES, axes=axes)
    one = InnerExchange(collective=Collective.RING, tensor=0, share=share, hides=True)
    strategy = replace(SUMS, exchanges=((1, one),) * count)
    compute = compute_ns(PRODUCT, (LEFT, RIGHT), SUMS, mesh)
    times = inner_times(PRODUCT, (LEFT, RIGHT), strategy, mesh)
    alone = sum(time_ns for _, _, time_ns in inner_exchanges(PRODUCT, (LEFT, RIGHT), strategy, mesh))
    exposed, hidden = sum(each.exposed_ns for each in times), sum(each.hidden_ns for each in times)
    last = compute / size
    assert alone / 20 <= exposed <= alone, "computation is slower beside messages"
    assert compute + exposed >= min(alone + last, max(alone, compute)) - count
    if alone >= SLOWED * (compute - last):
        assert compute + exposed == pytest.approx(alone + last, abs=count)
    assert 0 <= hidden <= alone
    assert busy_ns(times) <= compute - last + count
    waiting = replace(strategy, exchanges=((1, replace(one, hides=False)),) * count)
    assert added(waiting, mesh) == alone
    faster = replace(mesh, axes=(AXES[0], replace(axes[1], bandwidth_bytes_per_s=2 * bandwidth)))
    assert added(strategy, faster) <= exposed
    if size == 1:
        assert exposed == 0


def test_a_ring_is_the_messages_of_its_steps() -> None:
    for axis in (AXES[1], replace(AXES[1], latency_ns=7, start_ns=3, domains=2, domain_latency_ns=90)):
        send, ring = (collective_ns(axis, one, 64) for one in (Collective.SEND, Collective.RING))
        assert send == axis.start_ns + max(axis.latency_ns, axis.domain_latency_ns) + 16 * 10**9
        assert ring == 3 * send
