"""Evaluates the candidate stages that a good plan can have, once for equal runs of layers."""

from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.cluster import Submesh
from evenflow_torch.auto.stages.dynamic_program import CandidateCosts
from evenflow_torch.auto.stages.mixed_recompute import MixedRecompute
from evenflow_torch.auto.stages.stage_provider import StageCost, StageProvider


@dataclass(frozen=True, eq=False, kw_only=True)
class Candidates:
    """The stages that were evaluated, as tables and as values."""

    costs: CandidateCosts
    options: dict[tuple[int, int, Submesh], tuple[StageCost, ...]]
    """Options in the order of the tables, for each first layer, end and submesh."""
    num_evaluated: int
    """Stages that the provider has been asked for."""
    num_possible: int
    """Runs of layers times submeshes."""


def evaluate(
    asker: "Asker",
    submeshes: Sequence[Submesh],
    *,
    num_microbatches: int,
    first_in_flight: int,
    memory_limit_bytes: int | None,
    incumbent_ns: int | None = None,
) -> Candidates:
    """Ask for the costs of stages, from short to long, and leave out what no plan within the limits can have.

    A run is left out with all longer ones when it does not fit with `first_in_flight` microbatches, the fewest that
    any stage holds, or when all microbatches one after the other take longer on it than a known plan's `incumbent_ns`.
    Without limits nothing is left out.
    """
    num_layers = len(asker.provider.kinds)
    options: dict[tuple[int, int, Submesh], tuple[StageCost, ...]] = {}
    too_long = False
    alive = [(first, first + 1, shape) for shape in submeshes for first in range(num_layers)]
    while alive:
        kept = set()
        for run, costs in zip(alive, asker.ask(alive), strict=True):
            fits = any(
                memory_limit_bytes is None
                or cost.static_bytes + first_in_flight * cost.activation_bytes <= memory_limit_bytes
                for cost in costs
            )
            late = incumbent_ns is not None and all(cost.cost_ns * num_microbatches > incumbent_ns for cost in costs)
            too_long |= late and fits
            if fits and not late:
                options[run] = costs
                kept.add(run)
        alive = [
            (first, end + 1, shape)
            for first, end, shape in alive
            if (first, end, shape) in kept and (first + 1, end + 1, shape) in kept
        ]
    return Candidates(
        costs=_tables(asker.provider, submeshes, options, incumbent_ns if too_long else None),
        options=options,
        num_evaluated=len(asker.known),
        num_possible=len(submeshes) * num_layers * (num_layers + 1) // 2,
    )


def pareto(costs: Iterable[StageCost]) -> tuple[StageCost, ...]:
    """Return the options that no other equals or beats in time and both kinds of memory, fastest first."""
    kept: list[StageCost] = []
    for cost in sorted(
        costs, key=lambda cost: (cost.cost_ns, cost.static_bytes, cost.activation_bytes, str(cost.sharding))
    ):
        if not any(
            other.static_bytes <= cost.static_bytes and other.activation_bytes <= cost.activation_bytes
            for other in kept
        ):
            kept.append(cost)
    return tuple(kept)


class Asker:
    """Asks a provider for stage costs, only once for equal runs of layers, and remembers its answers."""

    def __init__(self, provider: StageProvider, mixed: MixedRecompute | None = None) -> None:
        """Ask `provider`; `mixed`, if given, adds stages with two recompute kinds."""
        self.provider = provider
        self.mixed = mixed
        self.known: dict[Hashable, tuple[StageCost, ...]] = {}

    def ask(self, runs: Sequence[tuple[int, int, Submesh]]) -> list[tuple[StageCost, ...]]:
        """Return the options of each run (first layer, end, submesh) that no other option beats in everything."""
        kinds = tuple(self.provider.kinds)
        keys = [(kinds[first:end], shape) for first, end, shape in runs]
        for key, run in zip(keys, runs, strict=True):
            if key not in self.known:
                pure = self.provider.options(*run)
                more = self.mixed.options(*run, pure) if self.mixed else []
                self.known[key] = pareto([*pure, *more])
        return [self.known[key] for key in keys]


def _tables(
    provider: StageProvider,
    submeshes: Sequence[Submesh],
    options: dict[tuple[int, int, Submesh], tuple[StageCost, ...]],
    complete_below_ns: int | None,
) -> CandidateCosts:
    offered = {shape for _, _, shape in options}
    submeshes = [shape for shape in submeshes if shape in offered] or submeshes[:1]  # of 64 nodes most have none
    num_layers = len(provider.kinds)
    most = max((len(costs) for costs in options.values()), default=1) or 1
    table = np.full((3, most, len(submeshes), num_layers + 1, num_layers + 1), -1, dtype=np.int64)
    places = {shape: index for index, shape in enumerate(submeshes)}
    for (first, end, shape), costs in options.items():
        for option, cost in enumerate(costs):
            table[:, option, places[shape], first, end] = cost.cost_ns, cost.static_bytes, cost.activation_bytes
    entry = np.zeros((len(submeshes), num_layers + 1), dtype=np.int64)
    for shape, index in places.items():
        entry[index, 1:-1] = [provider.entry_ns(first, shape) for first in range(1, num_layers)]
    return CandidateCosts(
        submeshes=tuple(submeshes),
        cost_ns=table[0],
        static_bytes=table[1],
        activation_bytes=table[2],
        entry_ns=entry,
        complete_below_ns=complete_below_ns,
    )
