"""An order of work on equal stages: its times and activations where there is no model yet."""

from dataclasses import dataclass
from fractions import Fraction

from evenflow.model import NONE, Layer, LayerRun, Mode, Network, Plan
from evenflow.schedule import FAMILIES, IdleFormula, Schedule, idle_by_formula, make_schedule
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


def idle_of_equal_stages(simulation: Simulation) -> IdleFormula:
    """Return the idle time of every rank of `equal_stages` by formula; the order must be that of its family."""
    costs, plan = simulation.costs, simulation.plan
    return idle_by_formula(
        plan.schedule,
        plan.sizes,
        forward_ns=int(costs.forward_ns[0]),
        backward_ns=int(costs.backward_ns[0]),
        weight_ns=int(costs.weight_ns[0]),
        group_size=plan.group_size,
    )


@dataclass(frozen=True, kw_only=True)
class FamilyExample:
    """A family on 8 equal ranks with 32 microbatches, whose forwards and both gradients take equally long."""

    simulation: Simulation
    formula: IdleFormula

    @property
    def idle_share(self) -> float:
        """Idle share of the step, simulated."""
        return float(idle_shares(self.simulation)[0])

    @property
    def idle_share_by_formula(self) -> float | None:
        """Idle share of the step by formula; None without one."""
        if self.formula.idle_ns is None:
            return None
        return self.formula.idle_ns / (self.formula.idle_ns + int(self.simulation.timeline.busy_ns[0]))


def example_of(family: str) -> FamilyExample:
    """Return the example of a family, with as few chunks as it has."""
    known = FAMILIES[family]
    order = make_schedule(family, num_ranks=8, num_chunks=known.num_chunks or known.fewest_chunks, num_microbatches=32)
    simulation = equal_stages(order, forward_ns=10**6, backward_ns=2 * 10**6)
    return FamilyExample(simulation=simulation, formula=idle_of_equal_stages(simulation))


def idle_shares(simulation: Simulation) -> list[Fraction]:
    """Return the share of the step in which each rank has nothing to do."""
    makespan_ns = simulation.makespan_ns
    return [Fraction(makespan_ns - int(busy_ns), makespan_ns) for busy_ns in simulation.timeline.busy_ns]


def _part_bytes(schedule: Schedule) -> int:
    return ACTIVATION_BYTES // (schedule.num_chunks * schedule.sequence_splits)
