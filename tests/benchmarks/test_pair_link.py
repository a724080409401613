"""Copies of two neighbours over one link: the event simulation beside the planner's where both must agree."""

from dataclasses import replace

import pytest
from benchmarks.pair_link import ALONE, pair_makespan_ns
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import NONE, OFFLOAD, HostLink, Layer, LayerRun, Mode, Network, Plan
from evenflow.simulate import Simulation, simulate
from tests.thoroughness import examples

BYTES = 10**6


def network(link: HostLink) -> Network:
    layer = Layer(
        name="stage",
        forward_ns=1000,
        parameter_bytes=0,
        modes={
            NONE: Mode(activation_bytes=BYTES, backward_ns=2000),
            OFFLOAD: Mode(activation_bytes=0, offloaded_bytes=BYTES, backward_ns=2000),
        },
    )
    return Network(name="equal stages", runs=(LayerRun(layer=layer, count=8),), host_link=link)


def simulated(moved: tuple[int, int, int, int], *, copy_ns: int, ahead: int = 2, behind: int = 2) -> Simulation:
    """Interleaved 1F1B on four ranks, of which some move what both of their stages keep."""
    link = HostLink(bytes_per_s=BYTES * 10**9 // copy_ns, one_engine=True, ahead=ahead, behind=behind)
    plan = Plan(
        num_microbatches=8,
        schedule="interleaved",
        layers=((1,) * 4,) * 2,
        recompute={OFFLOAD: (moved, moved)},
    )
    return simulate(network(link), plan)


@settings(max_examples=examples(20), deadline=None)
@given(st.integers(0, 3), st.sampled_from((10, 200, 1000, 2500, 4000)), st.integers(0, 4), st.integers(1, 4))
def test_a_device_that_copies_alone_is_as_fast_as_on_a_faster_link_of_its_own(rank, alone_ns, ahead, behind):
    moved = tuple(int(number == rank) for number in range(4))
    fast = simulated(moved, copy_ns=alone_ns, ahead=ahead, behind=behind)
    assert pair_makespan_ns(fast, alone_ns / ALONE) == pytest.approx(fast.makespan_ns)


def test_copies_that_take_no_time_cost_none():
    slow = simulated((1, 1, 1, 1), copy_ns=4000)
    free = replace(slow.plan, recompute={})
    assert pair_makespan_ns(slow, 0) == simulate(slow.network, free).makespan_ns < slow.makespan_ns


def test_two_that_copy_wait_for_each_other():
    copy_ns = 2500
    one, both = (simulated(moved, copy_ns=copy_ns) for moved in ((1, 0, 0, 0), (1, 1, 0, 0)))
    apart = simulated((1, 0, 1, 0), copy_ns=copy_ns)
    assert pair_makespan_ns(both, copy_ns) > pair_makespan_ns(apart, copy_ns) >= pair_makespan_ns(one, copy_ns)


def test_devices_without_a_neighbour_are_refused():
    link = HostLink(bytes_per_s=10**9)
    plan = Plan(num_microbatches=4, schedule="1f1b", layers=((3, 3, 2),), recompute={})
    with pytest.raises(ValueError, match="ranks must be even"):
        pair_makespan_ns(simulate(network(link), plan), 1.0)
