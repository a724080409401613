"""Groups of a training on nodes and racks."""

import math
import random
from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.collectives import Collective, collective_ns
from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.logical_mesh import mesh_axis
from evenflow.cluster.reached import Reached
from evenflow.cluster.topology import DeviceGroup, GroupSpread, Topology, usual_links

DEVICE = Accelerator(
    flops_per_s=1e12, memory_bytes_per_s=1e12, link_bytes_per_s=100e9, network_bytes_per_s=10e9,
    reached=Reached(link_share=0.5, network_share=0.5, latency_ns=30_000),
)  # fmt: skip
NODES = Topology(accelerator=DEVICE, domain_devices=8)


@pytest.mark.parametrize(("size", "measured_us"), [(2, 40), (4, 60), (8, 100)])
def test_latency_of_measured_nodes(size: int, measured_us: int) -> None:
    axis = NODES.axis(DeviceGroup(size=size), Collective.ALL_REDUCE)
    assert collective_ns(axis, Collective.ALL_REDUCE, 1) == pytest.approx(measured_us * 1000, abs=1)


@pytest.mark.parametrize(
    ("group", "domains", "fewest"),
    [
        (DeviceGroup(size=8), 1, 8),
        (DeviceGroup(size=2, stride=4), 1, 2),
        (DeviceGroup(size=16), 2, 8),
        (DeviceGroup(size=4, stride=4), 2, 2),
        (DeviceGroup(size=4, stride=8), 4, 1),
        (DeviceGroup(size=6), 2, 2),  # 0 to 5 lie in a node, 6 to 11 in two
        (DeviceGroup(size=9), 2, 1),  # 0 to 7 and 8
        (DeviceGroup(size=1, stride=5), 1, 1),
    ],
)
def test_spread(group: DeviceGroup, domains: int, fewest: int) -> None:
    found = NODES.spread(group)
    assert (found.domains, found.fewest) == (domains, fewest)
    assert found == _spread_one_by_one(group, 8)


def _spread_one_by_one(group: DeviceGroup, domain: int) -> GroupSpread:
    """Count the members of every group of a training of enough devices."""
    counts: list[dict[int, int]] = []
    for begin in range(0, math.lcm(group.span, domain), group.span):
        for offset in range(group.stride):
            first = begin + offset
            members = [
                first + part * group.part_stride + index * group.stride
                for part in range(group.parts)
                for index in range(group.size // group.parts)
            ]
            places = [member // domain for member in members]
            counts.append({place: places.count(place) for place in places})
    return GroupSpread(domains=max(map(len, counts)), fewest=min(min(count.values()) for count in counts))


@given(size=st.integers(1, 24), stride=st.sampled_from([1, 2, 3, 4, 6, 8, 16]), domain=st.sampled_from([2, 4, 8, 16]))
def test_spread_is_that_of_the_worst_group(size: int, stride: int, domain: int) -> None:
    group = DeviceGroup(size=size, stride=stride)
    assert replace(NODES, domain_devices=domain).spread(group) == _spread_one_by_one(group, domain)


@given(
    context=st.sampled_from([1, 2, 4]), data=st.integers(2, 12), tensor=st.sampled_from([1, 2, 4]),
    pipeline=st.sampled_from([1, 2, 3, 8]), domain=st.sampled_from([4, 8, 64]),
)  # fmt: skip
def test_spread_of_copies_far_apart(context: int, data: int, tensor: int, pipeline: int, domain: int) -> None:
    further = tensor * context * pipeline
    group = DeviceGroup(size=context * data, stride=tensor, parts=data, part_stride=further)
    assert replace(NODES, domain_devices=domain).spread(group) == _spread_one_by_one(group, domain)


def test_copies_may_be_very_far_apart() -> None:
    far = DeviceGroup(size=1000, stride=1, parts=1000, part_stride=10**12)
    assert NODES.spread(far) == GroupSpread(domains=1000, fewest=1)


def test_every_member_of_a_node_has_a_card() -> None:
    def rate(group: DeviceGroup, collective: Collective = Collective.ALL_REDUCE) -> int:
        return NODES.axis(group, collective).bandwidth_bytes_per_s

    assert rate(DeviceGroup(size=8)) == 50e9
    assert rate(DeviceGroup(size=16)) == 40e9  # eight cards at 5 GB/s
    assert rate(DeviceGroup(size=4, stride=4)) == 10e9
    assert rate(DeviceGroup(size=4, stride=8)) == 5e9
    # Of 15 parts, 8 go over the card and 7, at the same time, over the links.
    assert rate(DeviceGroup(size=16), Collective.ALL_TO_ALL) == pytest.approx(15 / 8 * 5e9)


def test_tokens_that_are_sent_once_to_each_node() -> None:
    def rate(copies: int) -> float:
        return NODES.axis(
            DeviceGroup(size=32), Collective.ALL_TO_ALL, copies=copies, is_streamed=True
        ).bandwidth_bytes_per_s

    card = NODES.rates(is_streamed=True)[1]
    assert rate(1) == pytest.approx(31 / 24 * card)  # 24 of 31 parts go over the card
    # Of 8 copies, 6 would go to the three other nodes; each of these is missed by all with chance (3/4)**8.
    assert rate(8) / rate(1) == pytest.approx(6 / (3 * (1 - 0.75**8)))


@given(size=st.sampled_from([2, 4, 8]), copies=st.integers(1, 4))
def test_tokens_that_are_sent_once_to_each_device_of_a_node(size: int, copies: int) -> None:
    """Against every way that the copies of a token can be spread."""
    axis = NODES.axis(DeviceGroup(size=size), Collective.ALL_TO_ALL, copies=copies)
    ways = list(product(range(size), repeat=copies))
    devices = sum(len(set(way)) for way in ways) / len(ways)
    assert axis.bandwidth_bytes_per_s == pytest.approx(50e9 * copies / devices)


@given(share=st.floats(0.05, 1))
def test_a_stream_of_transfers_reaches_no_less_and_not_all(share: float) -> None:
    device = replace(DEVICE, reached=DEVICE.reached.changed({"network_share": share}))
    topology = replace(NODES, accelerator=device)
    usual, streamed = (topology.rates(is_streamed=each)[1] for each in (False, True))
    assert usual <= streamed <= max(usual, 9.6e9)


def test_streams_reach_what_was_measured_on_the_cards_of_hopper_nodes() -> None:
    hopper = Topology(accelerator=accelerator_named("h100"), domain_devices=8)
    assert hopper.rates(is_streamed=True)[1] == pytest.approx(43.5e9, rel=0.01)


def test_a_rack_of_72_is_given_in_parts_of_64() -> None:
    rack = Topology(accelerator=DEVICE, domain_devices=72)
    assert rack.spread(DeviceGroup(size=8, stride=8)).domains == 1
    assert rack.spread(DeviceGroup(size=128)) == GroupSpread(domains=2, fewest=64)


def test_messages_between_neighbours() -> None:
    inside = NODES.message_ns(5000, sender=0, receiver=4, count=4)
    assert inside == 30_000 + 100
    assert NODES.message_ns(5000, sender=4, receiver=8, count=4) == 30_000 + 1000
    assert NODES.message_ns(5000, sender=0, receiver=6, count=6) == 30_000 + 1000  # 2 to 5 send to another node


@given(size=st.integers(2, 64), stride=st.integers(1, 16), collective=st.sampled_from(Collective))
def test_more_bandwidth_is_never_slower(size: int, stride: int, collective: Collective) -> None:
    def time_ns(device: Accelerator) -> int:
        topology = Topology(accelerator=device, domain_devices=8)
        return collective_ns(topology.axis(DeviceGroup(size=size, stride=stride), collective), collective, 10**8)

    usual = time_ns(DEVICE)
    assert time_ns(replace(DEVICE, network_bytes_per_s=20e9)) <= usual
    assert time_ns(replace(DEVICE, link_bytes_per_s=200e9)) <= usual
    assert time_ns(replace(DEVICE, switch_reduces=True)) <= usual


_MESSAGES = (Collective.SEND, Collective.RING)
"""Each message of these crosses a domain, which takes no further latency on a link that is the network itself."""


@given(st.integers(1, 5), st.sampled_from(Collective).filter(lambda one: one not in _MESSAGES))
def test_the_usual_links_of_a_cluster_are_those_of_a_topology(bits: int, collective: Collective) -> None:
    size = 2**bits
    inside = Topology(accelerator=DEVICE, domain_devices=size).axis(DeviceGroup(size=size), collective)
    across = Topology(accelerator=DEVICE, domain_devices=8).axis(DeviceGroup(size=size, stride=8), collective)
    link, network = usual_links(DEVICE)
    assert mesh_axis(size, link) == replace(inside, domain_latency_ns=link.latency_ns)
    assert collective_ns(mesh_axis(size, network, domains=size), collective, 10**9) == pytest.approx(
        collective_ns(across, collective, 10**9), rel=1e-6
    )


def test_a_message_over_a_usual_link_takes_what_its_bytes_and_its_beginning_take() -> None:
    link, _ = usual_links(DEVICE)
    assert link.transfer_ns(50_000) == 30_000 + 1_000 == NODES.message_ns(50_000, sender=0, receiver=1, count=1)
    assert link.transfer_ns(0) == 0


GROUPS = st.sampled_from([(1, 1), (2, 1), (4, 2), (8, 4), (8, 8)])


@given(size=st.sampled_from([16, 32, 64]), copies=st.integers(1, 16), groups=GROUPS)
def test_copies_in_fewer_groups_are_never_sent_to_more_domains(size: int, copies: int, groups: tuple[int, int]) -> None:
    def rate(of: tuple[int, int]) -> float:
        group = DeviceGroup(size=size)
        return NODES.axis(group, Collective.ALL_TO_ALL, copies=copies, groups=of).bandwidth_bytes_per_s

    count, _chosen = groups
    assert rate(groups) >= rate((count, count)) * (1 - 1e-9)
    assert rate((count, count)) == pytest.approx(rate((1, 1)), rel=0.01)


@pytest.mark.parametrize("groups", [(4, 2), (8, 4), (2, 1), (16, 4)])
def test_domains_of_copies_are_those_of_drawn_experts(groups: tuple[int, int]) -> None:
    """Tokens are drawn one by one: their groups, then the devices of their experts."""
    size, copies, domain = 32, 8, 8
    count, chosen = groups
    drawn = random.Random(1)
    reached = 0
    for _token in range(4000):
        own = drawn.sample(range(count), chosen)
        places = [drawn.choice(own) * size // count + drawn.randrange(size // count) for _copy in range(copies)]
        reached += len({place // domain for place in places} - {0})
    rate = NODES.axis(DeviceGroup(size=size), Collective.ALL_TO_ALL, copies=copies, groups=groups).bandwidth_bytes_per_s
    sent = (size - 1) / rate * NODES.rates()[1] * copies / size
    assert sent == pytest.approx(reached / 4000, rel=0.03)
