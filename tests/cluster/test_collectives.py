"""Collectives, worked out by hand, and what holds of all of them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster.cluster import Link
from evenflow.cluster.collectives import Collective, collective_ns
from evenflow.cluster.logical_mesh import mesh_axis
from evenflow.cluster.mesh import MeshAxis
from evenflow.errors import InputError

AXIS = MeshAxis(size=4, bandwidth_bytes_per_s=10**9, latency_ns=7, start_ns=50)


@pytest.mark.parametrize(
    ("name", "ns"),
    [
        (Collective.ALL_GATHER, 50 + 4 * 7 + 3000),  # 3/4 of 4000 bytes at a byte a nanosecond, in three messages
        (Collective.REDUCE_SCATTER, 50 + 4 * 7 + 3000),
        (Collective.ALL_REDUCE, 50 + 7 * 7 + 6000),
        (Collective.ALL_TO_ALL, 50 + 2 * 7 + 750),  # to all at once
    ],
)
def test_rings_of_four(name: Collective, ns: int) -> None:
    assert collective_ns(AXIS, name, 4000) == ns


def test_rounded_up() -> None:
    assert collective_ns(AXIS, Collective.ALL_GATHER, 3) == 50 + 4 * 7 + 3  # 2.25 bytes


def test_nothing_takes_no_time() -> None:
    assert collective_ns(AXIS, Collective.ALL_REDUCE, 0) == 0
    assert collective_ns(mesh_axis(1, Link(bytes_per_s=1, latency_ns=5)), Collective.ALL_REDUCE, 100) == 0


def test_few_bytes_of_many_domains_go_over_a_tree() -> None:
    across = MeshAxis(size=64, bandwidth_bytes_per_s=10**9, latency_ns=7, domains=16, domain_latency_ns=20)
    # Of four members each: three messages inside and log2 16 = 4 between domains, up and down; both ways all bytes.
    assert collective_ns(across, Collective.ALL_REDUCE, 100) == 7 + 2 * (3 * 7 + 4 * 20) + 200
    # In a ring 15 of the 63 messages are between domains; with many bytes it is faster.
    ring = 2 * (48 * 7 + 15 * 20)
    assert collective_ns(across, Collective.ALL_REDUCE, 64_000) == 7 + ring + 2 * 63_000
    assert collective_ns(across, Collective.ALL_GATHER, 64_000) == 7 + ring // 2 + 63_000


def test_a_switch_halves_an_all_reduce() -> None:
    switched = MeshAxis(size=8, bandwidth_bytes_per_s=10**9, latency_ns=7, switch_reduces=True)
    assert collective_ns(switched, Collective.ALL_REDUCE, 8000) == 3 * 7 + 8000
    assert collective_ns(switched, Collective.ALL_GATHER, 8000) == 8 * 7 + 7000
    across = MeshAxis(size=8, bandwidth_bytes_per_s=10**9, domains=2, switch_reduces=True)
    assert collective_ns(across, Collective.ALL_REDUCE, 8000) == 14_000


@given(
    size=st.integers(2, 512),
    domains=st.integers(1, 512),
    collective=st.sampled_from(Collective),
    size_bytes=st.integers(1, 10**12),
    bandwidth=st.integers(1, 10**12),
    latency=st.integers(0, 10**6),
    switched=st.booleans(),
)
def test_laws(
    size: int, domains: int, collective: Collective, size_bytes: int, bandwidth: int, latency: int, switched: bool
) -> None:
    def axis(bandwidth: int, latency: int, switched: bool) -> MeshAxis:
        return MeshAxis(
            size=size, bandwidth_bytes_per_s=bandwidth, latency_ns=latency, domains=min(domains, size),
            domain_latency_ns=2 * latency, switch_reduces=switched,
        )  # fmt: skip

    time_ns = collective_ns(axis(bandwidth, latency, switched), collective, size_bytes)
    assert time_ns >= collective_ns(axis(2 * bandwidth, latency, switched), collective, size_bytes) > 0
    assert time_ns <= collective_ns(axis(bandwidth, latency + 1, switched), collective, size_bytes)
    assert time_ns <= collective_ns(axis(bandwidth, latency, switched), collective, size_bytes + 1)
    assert time_ns <= collective_ns(axis(bandwidth, latency, False), collective, size_bytes)
    both = [
        collective_ns(axis(bandwidth, latency, False), each, size_bytes)
        for each in (Collective.REDUCE_SCATTER, Collective.ALL_GATHER)
    ]
    if collective is Collective.ALL_REDUCE:  # never slower than its two halves
        assert time_ns <= sum(both)


@pytest.mark.parametrize("field", ["latency_ns", "start_ns", "domain_latency_ns"])
def test_negative_times_are_refused(field: str) -> None:
    with pytest.raises(InputError, match=f"{field} must be zero or more"):
        MeshAxis(size=2, bandwidth_bytes_per_s=1, **{field: -1})


@pytest.mark.parametrize("domains", [0, 3])
def test_every_domain_has_a_device(domains: int) -> None:
    with pytest.raises(InputError, match="domains must be from 1 to the 2 devices"):
        MeshAxis(size=2, bandwidth_bytes_per_s=1, domains=domains)
