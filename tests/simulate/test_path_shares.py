"""What ranks have of a longest path, and what less work on one of them saves."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings

from evenflow.model import EndBlock, Layer, LayerRun, Mode, Network, Plan
from evenflow.simulate import Simulation, path_shares, simulate
from tests.networks import MILLISECOND
from tests.strategies import simulations
from tests.thoroughness import examples


def network(count: int, work_ns: int = 30 * MILLISECOND) -> Network:
    """Equal layers that take `work_ns` on a microbatch, a third of it forward."""
    mode = Mode(activation_bytes=1, backward_ns=2 * work_ns // 3)
    layer = Layer(name="body", forward_ns=work_ns // 3, parameter_bytes=1, modes={"none": mode})
    return Network(name="equal", runs=(LayerRun(layer=layer, count=count),), head=EndBlock(), tail=EndBlock())


def test_all_work_of_one_rank_is_the_step():
    simulation = simulate(network(4), Plan(schedule="1f1b", num_microbatches=5, layers=((4,),)))
    (share,) = path_shares(simulation)
    assert share.path_ns == simulation.makespan_ns
    assert (share.off_ns, share.saved_ns) == (MILLISECOND, 5 * MILLISECOND)


def test_only_the_slowest_rank_saves_with_every_microbatch():
    """By hand: with many microbatches the step is their number times the slowest rank, beside what fills and drains."""
    simulation = simulate(network(5), Plan(schedule="1f1b", num_microbatches=64, layers=((1, 3, 1),)))
    before, slowest, behind = path_shares(simulation)
    assert slowest.path_ns > 0.9 * simulation.makespan_ns
    assert 63 * MILLISECOND <= slowest.saved_ns <= 64 * MILLISECOND
    for share in (before, behind):
        assert 0 <= share.saved_ns <= 2 * share.off_ns


@settings(max_examples=examples(30))
@given(simulations())
def test_shares_are_parts_of_the_path_and_of_what_is_taken_off(simulation: Simulation):
    timeline, schedule = simulation.timeline, simulation.timeline.schedule
    shares = path_shares(simulation)
    if schedule.has_pairs:
        assert shares == ()
        return
    path = timeline.critical_path()
    taken = (timeline.end_ns - timeline.start_ns)[path]
    for rank, share in enumerate(shares):
        assert share.path_ns == int(taken[schedule.ranks[path] == rank].sum())
        if simulation.communication is None or not simulation.communication.one_at_a_time:
            most = share.off_ns * schedule.num_microbatches
            assert 0 <= share.saved_ns <= most
            if share.path_ns == 0:  # that path is as long as it was
                assert share.saved_ns == 0


def test_what_is_taken_off_is_taken_off_exactly():
    """A step of layers that are shorter by as much is as long as the simulation says."""
    plan = Plan(schedule="1f1b", num_microbatches=6, layers=((2, 2),))
    simulation = simulate(network(4), plan)
    share = path_shares(simulation)[1]
    shorter = replace(network(4).runs[0].layer, forward_ns=10 * MILLISECOND - MILLISECOND // 6)
    mode = replace(shorter.modes["none"], backward_ns=20 * MILLISECOND - MILLISECOND // 3)
    runs = (
        LayerRun(layer=network(4).runs[0].layer, count=2),
        LayerRun(layer=replace(shorter, modes={"none": mode}), count=2),
    )
    again = simulate(replace(network(4), runs=runs), plan)
    assert abs(simulation.makespan_ns - again.makespan_ns - share.saved_ns) <= 2 * 6 * 2
    assert np.all(np.array([each.off_ns for each in path_shares(simulation)]) == MILLISECOND)
