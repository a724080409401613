"""Another plan for a running pipeline, some of whose ranks turned out to be slower, or are gone.

measured steps   how long each rank really works, beside what its plan says
speeds           of the ranks, the fastest of which has the times of the plan
moves            the layers whose rank another plan changes, with the bytes that go with them
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

import numpy as np

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan, RankTraits, Request, Sizes, stage_cells
from evenflow.schedule import default_family
from evenflow.simulate import Simulation, Timeline, simulate
from evenflow.solve.outcome import Outcome, ProgressCallback
from evenflow.solve.plan import solve

ALIKE = 0.01
"""Difference of speed up to which ranks count as equal: measured times scatter by as much."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Move:
    """Neighbouring layers that go from one rank to another."""

    layers: range
    """Places of the layers in the network."""
    source: int
    target: int
    state_bytes: int
    """Bytes of their weights, gradients and optimizer state."""


@dataclass(frozen=True, kw_only=True)
class Replanned:
    """A running plan, and the best one on the ranks as they are."""

    before: Simulation
    """The running plan on these ranks."""
    outcome: Outcome
    """The best plan on them."""
    moves: tuple[Move, ...]
    """What changes its rank; nothing where the running plan is as short."""

    @property
    def saved_ns(self) -> int:
        """Time that a step gets shorter."""
        return 0 if not self.moves else self.before.makespan_ns - (self.outcome.makespan_ns or 0)

    def moving_ns(self, bytes_per_s: int) -> int:
        """Return how long moving takes, where every rank sends and receives at this rate at the same time."""
        most = 0
        for rank in range(self.before.plan.num_ranks):
            for own in ("source", "target"):
                most = max(most, sum(move.state_bytes for move in self.moves if getattr(move, own) == rank))
        return -(-most * 1_000_000_000 // bytes_per_s)


def measured_speeds(simulation: Simulation, measured: Timeline) -> tuple[float, ...]:
    """Return the speed of each rank beside the fastest, by how long it really works and how long its plan says.

    Ranks whose plan has no work (see `ranks_without_work`) count as the fastest: nothing is known of them.

    Raises:
        InputError: a measured step of other ranks or microbatches, or that leaves out what the plan runs.
    """
    planned = simulation.timeline
    if measured.schedule.sizes != planned.schedule.sizes:
        raise InputError(
            value=measured.schedule.sizes,
            rule=_("must be a step of the plan's sizes, {sizes}", sizes=planned.schedule.sizes),
            place=_("the measured step"),
        )
    planned_ns = _busy_ns(planned)
    works = planned_ns > 0
    if not works.any():
        return (1.0,) * len(works)
    ratios = np.maximum(_busy_ns(measured), 1.0)[works] / planned_ns[works]
    speeds = np.ones(len(works))
    speeds[works] = ratios.min() / ratios
    return tuple(1.0 if speed > 1 - ALIKE else round(float(speed), 4) for speed in speeds)


def _busy_ns(timeline: Timeline) -> "np.ndarray[tuple[int], np.dtype[np.float64]]":
    """Return how long each rank works, shape [num_ranks]."""
    ranks = np.array(timeline.schedule.stage_ranks)[timeline.schedule.stages]
    took = timeline.end_ns - timeline.start_ns
    return np.bincount(ranks, weights=took, minlength=timeline.schedule.num_ranks).astype(np.float64)


def ranks_without_work(simulation: Simulation) -> tuple[int, ...]:
    """Return the ranks that have nothing to compute in a plan, such as those between whose messages no layer lies."""
    return tuple(int(rank) for rank in np.flatnonzero(_busy_ns(simulation.timeline) == 0))


def replan(
    running: Simulation,
    ranks: Sequence[RankTraits],
    *,
    memory_limit_bytes: int | None,
    allow_empty: bool = True,
    time_limit_s: float = 60.0,
    progress: ProgressCallback | None = None,
) -> Replanned:
    """Return the best plan on these ranks under the running plan's schedule, and what it moves.

    `allow_empty` says whether its cells may hold no layer.

    Raises:
        InputError: a running plan in an order of its own, for which there is no family to plan.
    """
    plan = running.plan
    _check_family(plan)
    network = replace(running.network, ranks=tuple(ranks))
    before = simulate(network, plan, communication=running.communication)
    request = replace(_request(before, plan.sizes, memory_limit_bytes), allow_empty=allow_empty)
    outcome = solve(request, schedule=plan.schedule, time_limit_s=time_limit_s, progress=progress, known=(plan,))
    shorter = outcome.simulation is not None and outcome.simulation.makespan_ns < before.makespan_ns
    fitted = before.fits(memory_limit_bytes)
    moves = moves_between(before, outcome.simulation) if outcome.simulation and (shorter or not fitted) else ()
    return Replanned(before=before, outcome=outcome, moves=moves)


def replan_for(
    running: Simulation, num_ranks: int, *, memory_limit_bytes: int | None, time_limit_s: float = 60.0
) -> Outcome:
    """Return the best plan of the same steps on another number of ranks, which are all alike.

    Schedule, chunks and microbatches stay; one rank alone has one chunk.

    Raises:
        InputError: a running plan in an order of its own, or on ranks that differ.
    """
    plan = running.plan
    _check_family(plan)
    if len({*running.network.ranks}) > 1:
        raise InputError(
            rule=_("must have ranks that are all alike: which of them are left is not known"),
            place=_("the running plan"),
        )
    network = replace(running.network, ranks=running.network.ranks[:1] * num_ranks)
    sizes, schedule = replace(plan.sizes, num_ranks=num_ranks), plan.schedule
    if num_ranks == 1:
        sizes, schedule = replace(sizes, num_chunks=1), default_family(num_chunks=1)
    request = replace(_request(running, sizes, memory_limit_bytes), network=network, group_size=None)
    return solve(request, schedule=schedule, time_limit_s=time_limit_s)


def _check_family(plan: Plan) -> None:
    if plan.order:
        rule = _("must have the order of a family, whose cells can be planned again")
        raise InputError(value=plan.schedule, rule=rule, place=_("the running plan"))


def _request(running: Simulation, sizes: Sizes, memory_limit_bytes: int | None) -> Request:
    plan = running.plan
    return Request(
        network=running.network,
        sizes=sizes,
        memory_limit_bytes=memory_limit_bytes,
        group_size=plan.group_size,
        communication=running.communication,
    )


def moves_between(before: Simulation, after: Simulation) -> tuple[Move, ...]:
    """Return the runs of layers that are on other ranks in `after`, in the order of the network."""
    layers = before.network.layers
    ranks = list(zip(_ranks_of_layers(before), _ranks_of_layers(after), strict=True))
    moves = []
    for (source, target), own in groupby(range(len(layers)), key=ranks.__getitem__):
        places = list(own)
        if source != target:
            state = sum(layers[place].parameter_bytes for place in places)
            run = range(places[0], places[-1] + 1)
            moves.append(Move(layers=run, source=source, target=target, state_bytes=state))
    return tuple(moves)


def _ranks_of_layers(simulation: Simulation) -> list[int]:
    places, layers = stage_cells(simulation.timeline.schedule.stage_table), simulation.plan.layers
    return [rank for chunk, rank in places for _layer in range(layers[chunk][rank])]
