"""The dynamic program of the inter-operator pass: which layers run together as a stage, and on which submesh.

For stages of t_1 ... t_s a microbatch and B microbatches, the step takes (see docs/auto.md)

    T = sum of t_i + (B - 1) max of t_i                                  [Alpa, arXiv:2201.12023, eq. 2]

With the largest cost bounded by a threshold the least sum is a dynamic program over stages, layers and devices
(`dynamic_program_kernel`), a falling step function of the threshold; `threshold_search` finds the best threshold.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow.cluster import Submesh
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.simulate.compiled import compiled
from evenflow_torch.auto.stages.dynamic_program_kernel import (
    device_bounds,
    fill_bound_table,
    fill_memory_table,
    fill_table,
    trace,
)
from evenflow_torch.auto.stages.in_flight import Integers, last_positions

Floats = NDArray[np.float64]

_EXACT = 2**53
"""Floating point holds every integer below this."""
_SAFE = 1 - 1e-12
"""Factor by which a bound that floating point does not hold exactly is lowered."""
_LARGEST_TABLE = 2**28
"""Entries of a table: 2 GB."""


@dataclass(frozen=True, eq=False, kw_only=True)
class CandidateCosts:
    """The costs of every run of layers as a stage on every submesh.

    Tables are indexed ``[option, submesh, first layer, end]`` and have shape [num_options, num_submeshes, L + 1,
    L + 1]. Options are ways to shard the same stage, cheapest first.
    """

    submeshes: tuple[Submesh, ...]
    """Submeshes from small to large."""
    cost_ns: Integers
    """Forward and backward of one microbatch; -1 where there is no such option."""
    static_bytes: Integers
    """Parameters, gradients and optimizer state on each device."""
    activation_bytes: Integers
    """Activations on each device, for each microbatch in flight."""
    entry_ns: Integers
    """Time that a stage which begins with a layer waits for its input and sends back, [num_submeshes, L + 1]; the
    first stage has none."""
    complete_below_ns: int | None = None
    """Stages that are left out, if any, make a step longer than this."""

    @property
    def num_layers(self) -> int:
        """Layers of the network, head and tail included in the first and last."""
        return int(self.cost_ns.shape[-1]) - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class ChosenStage:
    """Layers [first, end) as one stage."""

    first: int
    end: int
    submesh: Submesh
    option: int
    """Index into the tables of `CandidateCosts`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """Stages in order, and the time of a step by equation 2."""

    stages: tuple[ChosenStage, ...]
    step_ns: int
    slowest_ns: int
    """The largest cost of a stage."""
    lower_bound_ns: int
    """Nanoseconds that no plan with as many stages undercuts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlans:
    """The best plan, with the alternatives that the search met."""

    best: StagePlan | None
    """None if no plan fits in memory."""
    alternatives: tuple[StagePlan, ...]
    """The best plan that was met for every number of stages, the best of all included.

    Those within `threshold_search.NEAR_PERCENT` of the best are the best of their number of stages.
    """
    simulated_bound_ns: int | None
    """Nanoseconds that the simulated step of no plan undercuts; None without a plan, and where time was too short."""
    num_programs: int
    """Thresholds for which the dynamic program was solved."""


def has_plan(
    costs: CandidateCosts,
    *,
    num_devices: int,
    in_flight: Sequence[int],
    memory_limit_bytes: int,
    num_stages: int | None = None,
) -> bool:
    """Tell whether `best_stages` would find a plan."""
    program = StageProgram(costs, num_devices, in_flight, memory_limit_bytes, num_stages)
    return bool(program.solve(int(costs.cost_ns.max()), program.most_stages))


def least_memory_bytes(
    costs: CandidateCosts, *, num_devices: int, in_flight: Sequence[int], num_stages: int | None = None
) -> int | None:
    """The smallest memory of a device for which `best_stages` has a plan; None where layers or devices do not go up."""
    program = StageProgram(costs, num_devices, in_flight, 0, num_stages)
    offered = costs.cost_ns >= 0
    static = np.where(offered, costs.static_bytes, np.inf)
    activation = np.where(offered, costs.activation_bytes, np.inf)
    table = program.empty_table(program.most_stages)
    compiled(fill_memory_table)(static, activation, np.asarray(in_flight, dtype=np.int64), program.sizes, table)
    least = table[program.counts, 0, num_devices].min(initial=np.inf)
    return int(least) if np.isfinite(least) else None


class StageProgram:
    """The dynamic program under one threshold."""

    def __init__(
        self,
        costs: CandidateCosts,
        num_devices: int,
        in_flight: Sequence[int],
        memory_limit_bytes: int,
        num_stages: int | None = None,
    ) -> None:
        most_stages = min(costs.num_layers, num_devices)
        self.shape = (most_stages + 1, costs.num_layers + 1, num_devices + 1)
        largest = costs.num_layers * (int(costs.cost_ns.max()) + int(costs.entry_ns.max()))
        if np.prod(self.shape) > _LARGEST_TABLE or largest >= _EXACT:
            raise InputError(
                value=f"{costs.num_layers} layers, {num_devices} devices, {largest} ns",
                rule=_(
                    "must be at most {limit:,} stages x layers x devices and together below 2**53 ns",
                    limit=_LARGEST_TABLE,
                ),
                place=_("the sizes of the pipeline"),
                remedy=_("group layers"),
            )
        self.costs = costs
        self.counts = slice(None) if num_stages is None else slice(num_stages, num_stages + 1)
        """The numbers of stages that count."""
        self.sizes = np.array([shape.num_devices for shape in costs.submeshes], dtype=np.int64)
        self.cost = np.where(costs.cost_ns >= 0, costs.cost_ns, np.inf)
        self.entry = costs.entry_ns.astype(np.float64)
        self.last_position = _last_positions(costs, in_flight[: most_stages + 1], memory_limit_bytes)

    @property
    def most_stages(self) -> int:
        """The most stages a plan can have: one for each layer and device, or as many as are asked for."""
        return min(self.shape[0], self.counts.stop or self.shape[0]) - 1

    def empty_table(self, most_stages: int) -> Floats:
        """Return a table in which only the empty plan is possible: no stages for no layers on no devices."""
        table = np.full((most_stages + 1, *self.shape[1:]), np.inf)
        table[0, -1, 0] = 0
        return table

    def solve(self, threshold: int, most_stages: int) -> list[StagePlan]:
        """Return the plan with the least sum for each number of stages up to `most_stages` that has one.

        No stage costs more than `threshold`; a plan's `step_ns` is that of a single microbatch.
        """
        num_layers, num_devices = self.shape[1] - 1, self.shape[2] - 1
        least, before = np.zeros((2, num_layers + 1), dtype=np.int64)
        compiled(device_bounds)(self.cost, self.last_position, self.sizes, float(threshold), least, before)
        if before[-1] > num_devices:
            return []
        arguments = (self.cost, self.last_position, self.entry, self.sizes)
        table = self.empty_table(most_stages)
        compiled(fill_table)(*arguments, float(threshold), least, before, table)
        sums = table[:, 0, num_devices]
        finite = np.flatnonzero(np.isfinite(sums)).tolist()
        counts = range(self.shape[0])[self.counts]
        return [self._plan(arguments, threshold, table, count) for count in finite if count in counts]

    def simulated_bound_ns(self, num_microbatches: int, most_ns: int) -> int:
        """Return a time that the simulated step of no plan undercuts, whatever its order of work with whole backwards.

        `most_ns` is the step of some plan by equation 2.
        """
        largest = float(self.cost[np.isfinite(self.cost)].max(initial=0.0))
        least, before = np.zeros((2, self.shape[1]), dtype=np.int64)
        compiled(device_bounds)(self.cost, self.last_position, self.sizes, largest, least, before)
        table = self.empty_table(self.most_stages)
        arguments = (self.cost, self.last_position, self.entry, self.sizes)
        compiled(fill_bound_table)(*arguments, num_microbatches, float(most_ns), least, before, table)
        bound = min(float(table[self.counts, 0, -1].min(initial=np.inf)), float(most_ns))
        return min(most_ns, int(bound if bound < _EXACT else bound * _SAFE))

    def _plan(self, arguments: tuple[object, ...], threshold: int, table: Floats, num_stages: int) -> StagePlan:
        """Read the plan behind a number of stages off the table."""
        rows = np.zeros((num_stages, 3), dtype=np.int64)
        slowest = compiled(trace)(*arguments, float(threshold), table, num_stages, rows)
        ends = [*rows[1:, 0].tolist(), self.costs.num_layers]
        stages = tuple(
            ChosenStage(first=first, end=end, submesh=self.costs.submeshes[submesh], option=option)
            for (first, submesh, option), end in zip(rows.tolist(), ends, strict=True)
        )
        least = int(table[num_stages, 0, -1])
        return StagePlan(stages=stages, step_ns=least, slowest_ns=int(slowest), lower_bound_ns=least)


def _last_positions(costs: CandidateCosts, in_flight: Sequence[int], memory_limit_bytes: int) -> Integers:
    """The last position, counted from the end, at which each option fits in memory; 0 where it never does."""
    live = np.asarray(in_flight, dtype=np.int64)[1:]
    if (np.diff(live) < 0).any() or not len(live):
        raise ValueError("activations in flight must not fall with the distance from the end")
    positions = last_positions(costs.static_bytes, costs.activation_bytes, live, memory_limit_bytes)
    return np.where(costs.cost_ns >= 0, positions, 0).astype(np.int64)
