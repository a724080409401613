"""Transfer plans, checked by carrying them out on sets of elements."""

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.cluster.cluster import Cluster, Link
from evenflow.cluster.layout import REPLICATED, Box, TensorLayout
from evenflow.cluster.resharding import ReshardingPlan, plan_resharding
from evenflow.errors import InputError
from tests.cluster.clusters import mesh
from tests.thoroughness import examples

SHAPES = ((8,), (6, 4), (5, 3), (2, 3, 4), (1, 7), ())
MESHES = ((1,), (2,), (4,), (1, 2), (2, 2), (3,), (2, 1, 2))


@st.composite
def layouts(draw: st.DrawFn, shape: tuple[int, ...], devices: range) -> TensorLayout:
    sizes = draw(st.sampled_from([sizes for sizes in MESHES if _product(sizes) <= len(devices)]))
    wheres = st.sampled_from([REPLICATED, *range(len(shape))])
    chosen = draw(st.permutations(devices))[: _product(sizes)]
    placement = tuple(draw(wheres) for _ in sizes)
    return TensorLayout(shape=shape, item_bytes=2, mesh=sizes, placement=placement, devices=tuple(chosen))


def _product(sizes: tuple[int, ...]) -> int:
    result = 1
    for size in sizes:
        result *= size
    return result


def elements(box: Box) -> set[tuple[int, ...]]:
    return set(product(*(range(begin, end) for begin, end in box)))


def check_delivers(plan: ReshardingPlan) -> None:
    """Every receiver gets each of its elements once, from a device that has it."""
    has = {device: elements(box) for device, box in plan.sender.boxes.items()}
    wants = {device: elements(box) for device, box in plan.receiver.boxes.items()}
    got: dict[int, list[tuple[int, ...]]] = {device: [] for device in wants}
    for message in plan.transfers:
        assert elements(message.box) <= has[message.sender]
        got[message.receiver] += elements(message.box)
    first = {device: set(received) for device, received in got.items()}
    for message in plan.gathers:
        assert elements(message.box) <= first[message.sender]
        assert plan.cluster.node_of(message.sender) == plan.cluster.node_of(message.receiver)
        got[message.receiver] += elements(message.box)
    for device, wanted in wants.items():
        assert len(got[device]) == len(wanted)
        assert set(got[device]) == wanted


@given(data=st.data())
@settings(max_examples=examples(300), deadline=None)
def test_delivers_everything_once(data: st.DataObject) -> None:
    shape = data.draw(st.sampled_from(SHAPES))
    cluster = mesh(4, 2, inter=Link(bytes_per_s=data.draw(st.sampled_from([1, 50, 200])), latency_ns=3))
    overlapping = data.draw(st.booleans())
    sender = data.draw(layouts(shape, range(4) if not overlapping else range(8)))
    receiver = data.draw(layouts(shape, range(4, 8) if not overlapping else range(8)))
    plan = plan_resharding(sender, receiver, cluster)
    check_delivers(plan)
    if not overlapping and plan.gathers:
        # What a node needs enters it once.
        needed = {(cluster.node_of(device), box) for device, box in receiver.boxes.items()}
        assert plan.slow_bytes == sum(receiver.bytes_of(box) for _, box in needed)


def row_split_to_copies(cluster: Cluster) -> ReshardingPlan:
    """Two devices with half of 8 KB each, to four devices of another node that all need everything."""
    sender = TensorLayout(shape=(64, 64), item_bytes=2, mesh=(2,), placement=(0,), devices=(0, 1))
    receiver = TensorLayout(shape=(64, 64), item_bytes=2, mesh=(4,), placement=(REPLICATED,), devices=(4, 5, 6, 7))
    return plan_resharding(sender, receiver, cluster)


def test_gathers_on_fast_links() -> None:
    plan = row_split_to_copies(mesh(2, 4, inter=Link(bytes_per_s=10**9), intra=Link(bytes_per_s=10**10)))
    assert len(plan.gathers) == 12
    assert plan.slow_bytes == 8192
    # Each sender sends 4 KB over the slow link; then each receiver gets the other three parts of 2 KB.
    assert plan.cost_ns == 4096 + 3 * 205


def test_sends_directly_where_links_are_equal() -> None:
    """Gathering would send as much with one more latency."""
    link = Link(bytes_per_s=10**9, latency_ns=10_000)
    cluster = mesh(2, 2, inter=link, intra=link)
    sender = TensorLayout(shape=(64,), item_bytes=2, mesh=(2,), placement=(REPLICATED,), devices=(0, 1))
    receiver = TensorLayout(shape=(64,), item_bytes=2, mesh=(2,), placement=(REPLICATED,), devices=(2, 3))
    plan = plan_resharding(sender, receiver, cluster)
    assert not plan.gathers
    assert {message.sender for message in plan.transfers} == {0, 1}  # each sends its copy to one receiver
    assert plan.cost_ns == 10_000 + 128


def test_equal_layouts_send_part_by_part() -> None:
    sender = TensorLayout(shape=(8, 8), item_bytes=4, mesh=(2, 2), placement=(0, 1), devices=(0, 1, 2, 3))
    receiver = TensorLayout(shape=(8, 8), item_bytes=4, mesh=(2, 2), placement=(0, 1), devices=(4, 5, 6, 7))
    plan = plan_resharding(sender, receiver, mesh(2, 4))
    assert [(message.sender, message.receiver) for message in plan.transfers] == [(0, 4), (1, 5), (2, 6), (3, 7)]
    assert plan.slow_bytes == 8 * 8 * 4


def test_what_a_device_has_is_not_sent() -> None:
    layout = TensorLayout(shape=(8,), item_bytes=4, mesh=(2,), placement=(0,), devices=(0, 1))
    plan = plan_resharding(layout, layout, mesh(1, 2))
    assert plan.cost_ns == plan.slow_bytes == 0


def test_other_tensors_and_devices_are_refused() -> None:
    sender = TensorLayout(shape=(4,), item_bytes=1, mesh=(2,), placement=(0,), devices=(0, 1))
    other = TensorLayout(shape=(5,), item_bytes=1, mesh=(2,), placement=(0,), devices=(2, 3))
    with pytest.raises(InputError, match="must be layouts of one tensor"):
        plan_resharding(sender, other, mesh(1, 4))
    with pytest.raises(InputError, match="must be below 2"):
        plan_resharding(other, other, mesh(1, 2))
