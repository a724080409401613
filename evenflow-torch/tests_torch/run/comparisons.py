"""Runs that were never started: they go as simulated, or slower."""

from evenflow.simulate import Simulation, Timeline
from evenflow_torch.run.measure.comparison import Comparison


def comparison_of(simulation: Simulation, slower: int = 1) -> Comparison:
    """A run that goes as simulated, or takes `slower` times as long."""
    predicted = simulation.timeline
    measured = Timeline(
        graph=predicted.graph.of_actions,
        start_ns=slower * predicted.start_ns,
        end_ns=slower * predicted.end_ns,
        makespan_ns=slower * predicted.makespan_ns,
    )
    return Comparison(
        as_measured_ns=measured.makespan_ns,
        is_rehearsed=False,
        predicted=predicted,
        measured=measured,
        step_ns=(measured.makespan_ns,),
        costs=simulation.costs,
        communication=simulation.communication,
        durations=simulation.costs.durations,
        interval_ns=(predicted.makespan_ns, predicted.makespan_ns),
        measured_peak_bytes=tuple(2**20 * (rank + 1) for rank in range(predicted.schedule.num_ranks)),
    )
