"""Exchanges stand inside the actions that make them, one after the other, and add up."""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from evenflow.export.chrome_trace import EXCHANGE, TracedStep, chrome_trace
from evenflow.model import Halves, Network, PassHalves, Plan
from evenflow.schedule import Op
from evenflow.simulate import Simulation, simulate
from tests.export.trace_reader import read_trace
from tests.solve.test_pairs import layer_of, network_of, paired_simulations


@given(paired_simulations(), st.booleans())
def test_slices_of_exchanges_are_what_ranks_exchange(drawn: tuple[Network, Simulation], releases: bool) -> None:
    network, simulation = drawn
    if releases:
        simulation = simulate(network, replace(simulation.plan, releases_attention=True))
    schedule, timeline = simulation.timeline.schedule, simulation.timeline
    trace = read_trace(chrome_trace([TracedStep.of(simulation)]))
    slices = [each for each in trace.slices if each.category == EXCHANGE]
    if simulation.exposed_ns is None:
        assert not slices
        return
    whole_ns = simulation.exposed_ns + (0 if simulation.hidden_ns is None else simulation.hidden_ns)
    for rank in range(schedule.num_ranks):
        own = sorted((each.start_ns, each.end_ns) for each in slices if each.process == rank + 1)
        assert sum(end - start for start, end in own) == whole_ns[rank]
        if schedule.splits_backward:  # weight gradients may be longer than what is computed, in networks that are drawn
            continue
        assert all(first[1] <= second[0] for first, second in pairwise(own))
        indices = range(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
        paired = set(schedule.paired.tolist()) if schedule.has_pairs else set()
        blocks = [
            (timeline.start_ns[index], timeline.end_ns[index + (index in paired)])
            for index in indices
            if index - 1 not in paired and schedule.ops[index] != Op.W
        ]
        assert all(any(begin <= start and end <= until for begin, until in blocks) for start, end in own)


def test_exchanges_of_a_plan_by_hand() -> None:
    """Forwards of 10 with an exchange from 3 to 5 and from 9 on; backwards of 20 with one at the begin and at 12."""
    halves = Halves(
        forward=PassHalves(dispatch_ns=2, mlp_ns=4, combine_ns=1),
        backward=PassHalves(dispatch_ns=3, mlp_ns=8, combine_ns=4),
    )
    layer = layer_of(halves, forward_ns=10, backward_ns=20)
    simulation = simulate(network_of((layer, 2)), Plan(schedule="1f1b", num_microbatches=1, layers=((2,),)))
    times = simulation.exchange_times
    assert times is not None
    assert [(span.start_ns, span.end_ns, span.name, span.layer) for span in times.of_forward(0)] == [
        (3, 5, "dispatch", 0),
        (9, 10, "combine", 0),
        (13, 15, "dispatch", 1),
        (19, 20, "combine", 1),
    ]
    assert [(span.start_ns, span.end_ns, span.name, span.layer) for span in times.of_backward(0)] == [
        (0, 4, "combine", 1),
        (12, 15, "dispatch", 1),
        (20, 24, "combine", 0),
        (32, 35, "dispatch", 0),
    ]
