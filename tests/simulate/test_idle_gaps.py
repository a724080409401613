import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.baselines.equal_stages import equal_stages
from evenflow.model import Communication, HostLink, Layer, LayerRun, Mode, Network, Plan, with_offload
from evenflow.simulate import Simulation, gaps_ns, simulate
from evenflow.simulate.idle_gaps import _shares
from tests.strategies import FamilySizes, moving_simulations, simulations, sizes

CAUSES = ("fill_drain_ns", "imbalance_ns", "recompute_ns", "communication_ns", "host_copies_ns")


def of_rank(simulation: Simulation, rank: int) -> list[int]:
    schedule = simulation.timeline.schedule
    return [*range(*schedule.rank_starts[rank : rank + 2]), schedule.num_actions + rank]


@given(simulations() | moving_simulations())
def test_parts_of_a_gap_are_not_negative_and_add_up_to_it(simulation: Simulation):
    gaps = simulation.idle_gaps
    parts = np.stack([getattr(gaps, cause) for cause in CAUSES])
    assert (parts >= 0).all()
    assert np.array_equal(parts.sum(axis=0), gaps.total_ns)
    assert np.array_equal(gaps.total_ns, gaps_ns(simulation.timeline))


@given(simulations())
def test_gaps_are_what_is_left_of_a_rank(simulation: Simulation):
    gaps, timeline = gaps_ns(simulation.timeline), simulation.timeline
    for rank in range(timeline.schedule.num_ranks):
        now = 0
        *actions, last = of_rank(simulation, rank)
        for index in actions:
            assert timeline.start_ns[index] - now == gaps[index]
            now = timeline.end_ns[index]
        assert now + gaps[last] == timeline.makespan_ns


@given(simulations() | moving_simulations())
def test_sums_of_a_rank_are_its_idle_time_where_nothing_is_negative(simulation: Simulation):
    for rank, idle in enumerate(simulation.idle):
        known = [getattr(idle, cause) for cause in CAUSES]
        own = of_rank(simulation, rank)
        sums = [int(getattr(simulation.idle_gaps, cause)[own].sum()) for cause in CAUSES]
        assert sum(sums) == idle.total_ns
        if min(known) >= 0:
            assert sums == known
        else:  # what a cause saves is taken from the causes before it, and from no later one
            assert all(sum(sums[: last + 1]) <= sum(known[: last + 1]) for last in range(len(CAUSES)))


@given(simulations() | moving_simulations())
def test_what_is_switched_off_is_no_cause(simulation: Simulation):
    gaps = simulation.idle_gaps
    if simulation.timeline.message_ns is None:
        assert not gaps.communication_ns.any()
    if not simulation.timeline.has_copies:
        assert not gaps.host_copies_ns.any()
    if not simulation.costs.recompute_ns.any():
        assert not gaps.recompute_ns.any()


@given(sizes(), st.integers(1, 50), st.integers(2, 50))
def test_equal_stages_only_fill_and_drain(size: FamilySizes, forward_ns: int, backward_ns: int):
    gaps = equal_stages(size.schedule(), forward_ns=forward_ns, backward_ns=backward_ns).idle_gaps
    assert np.array_equal(gaps.fill_drain_ns, gaps.total_ns)


@given(st.lists(st.integers(0, 2**60 // 64), min_size=1, max_size=64), st.data())
def test_shares_add_up_and_are_never_larger_than_their_values(values: list[int], data: st.DataObject):
    amount = data.draw(st.integers(0, sum(values)))
    shares = _shares(np.array(values, dtype=np.int64), amount)
    assert shares.sum() == amount
    assert ((shares >= 0) & (shares <= values)).all()


def test_gaps_worked_out_by_hand():
    """Messages of 7 beside none::

    rank 0  F0 0-2   F1 2-4    B0 22-26    B1 28-32     B0 8-12     B1 14-18
    rank 1  F0 9-11  B0 11-15  F1 15-17    B1 17-21     F0 2-4  B0 4-8  F1 8-10  B1 10-14
    """
    modes = {"none": Mode(activation_bytes=1, backward_ns=4)}
    layer = Layer(name="body", forward_ns=2, parameter_bytes=0, modes=modes)
    network = Network(name="two", runs=(LayerRun(layer=layer, count=2),))
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((1, 1),))
    gaps = simulate(network, plan, communication=Communication(latency_ns=7)).idle_gaps
    assert gaps.fill_drain_ns.tolist() == [0, 0, 4, 2, 2, 0, 0, 0, 0, 4]
    assert gaps.communication_ns.tolist() == [0, 0, 14, 0, 7, 0, 0, 0, 0, 7]
    assert not gaps.imbalance_ns.any()
    assert not gaps.recompute_ns.any()


def test_gaps_of_copies_worked_out_by_hand():
    """Copies of 7::

    rank 0     F0 0-2  F1 2-4  F2 9-11  F3 16-18  B0 23-27  B1 30-34  B2 37-41  B3 44-48
    to host    0 2-9   1 9-16  2 16-23  3 23-30
    from host                           0 16-23   1 23-30   2 30-37   3 37-44
    """
    layer = Layer(name="body", forward_ns=2, parameter_bytes=0, modes={"none": Mode(activation_bytes=7, backward_ns=4)})
    network = with_offload(
        Network(name="one", runs=(LayerRun(layer=layer, count=1),)), HostLink(bytes_per_s=1_000_000_000)
    )
    plan = Plan(schedule="f-then-b", num_microbatches=4, layers=((1,),), recompute={"offload": ((1,),)})
    simulation = simulate(network, plan, communication=Communication(latency_ns=7))
    gaps = simulation.idle_gaps
    assert gaps.host_copies_ns.tolist() == gaps.total_ns.tolist() == [0, 0, 5, 5, 5, 3, 3, 3, 0]
    (idle,) = simulation.idle
    assert (idle.total_ns, idle.host_copies_ns, idle.communication_ns) == (24, 24, 0)
    bubbles = simulation.bubbles
    assert (bubbles.real, bubbles.host_copies, bubbles.communication) == (1.0, 1.0, 0.0)
