"""An order of work on equal stages: its times and activations where there is no model yet."""

from fractions import Fraction

from evenflow.model import NONE, Layer, LayerRun, Mode, Network, Plan
from evenflow.schedule import Schedule
from evenflow.simulate import Simulation, simulate

ACTIVATION_BYTES = 2**30
"""Bytes that one microbatch keeps on a whole rank."""


def equal_stages(schedule: Schedule, *, forward_ns: int, backward_ns: int, weight_ns: int | None = None) -> Simulation:
    """Simulate a schedule on stages that all take the same time for each microbatch (part).

    `weight_ns` is the weight gradient's share of the backward, by default half. A microbatch keeps `ACTIVATION_BYTES`
    on a rank, shared equally by its chunks and parts; nothing else takes memory.
    Raises ScheduleError when the order is incomplete or can never finish.
    """
    splits = schedule.sequence_splits
    part_bytes = _part_bytes(schedule)
    layer = Layer(
        name="stage",
        forward_ns=forward_ns * splits,
        parameter_bytes=0,
        modes={NONE: Mode(activation_bytes=part_bytes * splits, backward_ns=backward_ns * splits)},
        stated_weight_ns=None if weight_ns is None else weight_ns * splits,
    )
    network = Network(name=schedule.name, runs=(LayerRun(layer=layer, count=schedule.num_stages),))
    plan = Plan(
        schedule=schedule.name,
        num_microbatches=schedule.num_microbatches,
        layers=((1,) * schedule.num_ranks,) * schedule.num_chunks,
        sequence_splits=splits,
        group_size=schedule.group_size,
    )
    return simulate(network, plan, schedule=schedule)


def peak_live(simulation: Simulation) -> list[Fraction]:
    """Return the most live activations of every rank of `equal_stages`, in whole-rank activations of a microbatch."""
    schedule = simulation.timeline.schedule
    rank_bytes = _part_bytes(schedule) * schedule.num_chunks * schedule.sequence_splits
    return [Fraction(peak, rank_bytes) for peak in simulation.peak_memory_bytes]


def idle_shares(simulation: Simulation) -> list[Fraction]:
    """Return the share of the step in which each rank has nothing to do."""
    makespan_ns = simulation.makespan_ns
    return [Fraction(makespan_ns - int(busy_ns), makespan_ns) for busy_ns in simulation.timeline.busy_ns]


def _part_bytes(schedule: Schedule) -> int:
    return ACTIVATION_BYTES // (schedule.num_chunks * schedule.sequence_splits)
