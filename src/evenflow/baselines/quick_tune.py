"""The SAPP guide's rule of thumb for 2 and 4 ranks under full recomputation. [SAPP guide, 手工快速调优手册]

1. Deal the layers evenly (offset 0); on every rank recompute the fewest layers with which it fits.
2. With 4 ranks: as long as that brings the longest and the shortest stage time closer, move one layer from a rank to
   another, and choose the fewest recomputed layers of every rank anew.

With a layer's forward T, n layers of which r recompute, and a head of e or a tail of l times T, the guide's time of
a stage is ``3 T (n + e | l) + r T``, so a layer more weighs as much as three more that recompute. This is forward and
backward of the cost model where a backward takes 2 T and full recomputation T; it is taken from there, and memory too.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from evenflow.baselines.even_plan import even_plan
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, NONE, LayerRun, Network, Plan, Sizes, cells
from evenflow.schedule import make_schedule
from evenflow.simulate import (
    Integers,
    LayerSums,
    Simulation,
    StageCosts,
    costs_of_counts,
    layer_sums,
    live_vectors,
    simulate,
)

SCHEDULE = "1f1b"
_RANKS = (2, 4)
_BALANCED_FROM = 4
"""Fewest ranks for which the SAPP guide moves layers; with fewer it leaves them as they are."""


@dataclass(frozen=True, kw_only=True)
class TuningStep:
    """A plan on the way to the answer, and the change that led to it."""

    change: str
    """The change since the step before, as a phrase."""
    simulation: Simulation

    @property
    def stage_ns(self) -> tuple[int, ...]:
        """Time of the forward and backward of one microbatch on every rank."""
        return tuple(_stage_ns(self.simulation.costs).tolist())

    @property
    def spread_ns(self) -> int:
        """The longest stage time minus the shortest."""
        return max(self.stage_ns) - min(self.stage_ns)


def quick_tune(
    network: Network, *, num_ranks: int, num_microbatches: int, memory_limit_bytes: int | None
) -> tuple[TuningStep, ...]:
    """Return the steps of the rule, from the even cut without recomputation; the plan of the last step is its answer.

    When even full recomputation does not fit at offset 0, the rule has no answer: the last step is over the limit.

    Raises:
        InputError: the SAPP guide has no rule for this number of ranks, there are fewer layers than ranks, or the
            network has no full recomputation.
    """
    if num_ranks not in _RANKS:
        raise InputError(
            value=num_ranks,
            rule=_("must be 2 or 4, for which the SAPP guide gives the rule"),
            place="ranks",
            remedy=_("use evenflow plan, which finds the optimum for any number"),
        )
    if FULL not in network.kinds:
        raise InputError(
            value=network.kinds,
            rule=_("must have full, because the rule recomputes whole layers"),
            place=_("recompute kinds of {name}", name=network.name),
            remedy=_("give memory_recompute in the layer file, or use evenflow plan"),
        )
    sizes = Sizes(num_ranks=num_ranks, num_microbatches=num_microbatches)
    even = even_plan(network, sizes, schedule=SCHEDULE, allow_empty=False)
    schedule = make_schedule(SCHEDULE, num_ranks=num_ranks, num_chunks=1, num_microbatches=num_microbatches)
    rule = _Rule(
        network=network,
        sums=layer_sums(with_full_only(network)),
        live=np.array([live_vectors(schedule, rank).max() for rank in range(num_ranks)]),
        num_microbatches=num_microbatches,
        memory_limit_bytes=memory_limit_bytes if network.has_memory else None,
    )
    return tuple(rule.steps(np.array(even.layers[0])))


def with_full_only(network: Network) -> Network:
    """Return `network` without the recompute kinds other than `full`."""
    runs = tuple(
        LayerRun(
            layer=replace(run.layer, modes={kind: run.layer.modes[kind] for kind in (FULL, NONE)}), count=run.count
        )
        for run in network.runs
    )
    return replace(network, runs=runs)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Rule:
    """The rule of thumb for one network, its schedule and its memory limit."""

    network: Network
    sums: LayerSums
    """Sums for the kinds full and none, in this order."""
    live: Integers
    """Most microbatches in flight on every rank, shape [num_ranks]."""
    num_microbatches: int
    memory_limit_bytes: int | None

    def steps(self, layers: Integers) -> Iterator[TuningStep]:
        """Yield the steps of both parts of the rule, starting from `layers` of every rank."""
        recomputed = np.zeros_like(layers)
        yield self._step(_("layers dealt evenly, none recomputed"), layers, recomputed)
        needed = self._fewest_recomputed(layers)
        for rank in np.flatnonzero(needed):
            recomputed[rank] = needed[rank]
            yield self._step(_("recompute {needed} on rank {rank}", needed=needed[rank], rank=rank), layers, recomputed)
        if len(layers) < _BALANCED_FROM or not self._fits(layers, recomputed):
            return
        while (move := self._best_move(layers, recomputed)) is not None:
            source, target, layers, recomputed = move
            yield self._step(
                _("move a layer from rank {source} to rank {target}", source=source, target=target), layers, recomputed
            )

    def _best_move(self, layers: Integers, recomputed: Integers) -> tuple[int, int, Integers, Integers] | None:
        """Return the move that leaves the smallest spread, with its layers and recompute counts; None if none helps."""
        best, spread = None, self._spread_ns(layers, recomputed)
        for source in np.flatnonzero(layers > 1):
            for target in range(len(layers)):
                moved = layers.copy()
                moved[source] -= 1
                moved[target] += 1
                counts = self._fewest_recomputed(moved)
                if self._spread_ns(moved, counts) < spread and self._fits(moved, counts):
                    best, spread = (int(source), target, moved, counts), self._spread_ns(moved, counts)
        return best

    def _fewest_recomputed(self, layers: Integers) -> Integers:
        """Return the fewest recomputed layers with which each rank fits; all of them where no number is enough."""
        recomputed = np.zeros_like(layers)
        while (more := self._over(layers, recomputed) & (recomputed < layers)).any():
            recomputed += more
        return recomputed

    def _fits(self, layers: Integers, recomputed: Integers) -> bool:
        return not self._over(layers, recomputed).any()

    def _over(self, layers: Integers, recomputed: Integers) -> np.ndarray[tuple[int, ...], np.dtype[np.bool_]]:
        """Return the ranks that exceed the memory limit."""
        if self.memory_limit_bytes is None:
            return np.zeros(len(layers), dtype=np.bool_)
        costs = self._costs(layers, recomputed)
        fixed = costs.static_bytes + costs.working_bytes
        return fixed + self.live * costs.activation_bytes > self.memory_limit_bytes

    def _spread_ns(self, layers: Integers, recomputed: Integers) -> int:
        return int(np.ptp(_stage_ns(self._costs(layers, recomputed))))

    def _costs(self, layers: Integers, recomputed: Integers) -> StageCosts:
        counts = np.stack([recomputed, layers - recomputed], axis=1)
        stage_table = np.arange(len(layers)).reshape(1, -1)
        return costs_of_counts(self.network, self.sums, counts, stage_table)

    def _step(self, change: str, layers: Integers, recomputed: Integers) -> TuningStep:
        plan = Plan(
            schedule=SCHEDULE,
            num_microbatches=self.num_microbatches,
            layers=cells([layers.tolist()]),
            recompute={FULL: cells([recomputed.tolist()])} if recomputed.any() else {},
        )
        return TuningStep(change=change, simulation=simulate(self.network, plan))


def _stage_ns(costs: StageCosts) -> Integers:
    return costs.forward_ns + costs.backward_ns
