"""The stages of a plan in the order of the network, each with its layers and their recompute kinds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from evenflow.model import NONE, Plan, ordered_kinds, stage_table


@dataclass(frozen=True, slots=True, kw_only=True)
class StageLayers:
    """A stage, and the layers of the network that it holds."""

    rank: int
    chunk: int
    first_layer: int
    """Index in the network of its first layer."""
    kinds: tuple[str, ...]
    """The recompute kind of each of its layers."""

    @property
    def layers(self) -> range:
        """The indices of its layers in the network."""
        return range(self.first_layer, self.first_layer + len(self.kinds))


def stages_of(plan: Plan, stage_ranks: Sequence[int]) -> tuple[StageLayers, ...]:
    """Return the stages of `plan`, whose schedule places them on `stage_ranks`, in the order of the network.

    >>> plan = Plan(schedule="zbv", num_microbatches=2, layers=((1, 2), (4, 3)), recompute={"full": ((1, 0), (0, 2))})
    >>> [(stage.rank, stage.layers, stage.kinds.count("full")) for stage in stages_of(plan, (0, 1, 1, 0))]
    [(0, range(0, 1), 1), (1, range(1, 3), 0), (1, range(3, 6), 2), (0, range(6, 10), 0)]
    """
    table = stage_table(stage_ranks, num_ranks=plan.num_ranks)
    cells = {
        int(table[chunk, rank]): (chunk, rank) for chunk in range(plan.num_chunks) for rank in range(plan.num_ranks)
    }
    order = ordered_kinds({*plan.recompute, NONE})
    stages: list[StageLayers] = []
    first = 0
    for stage in range(len(stage_ranks)):
        chunk, rank = cells[stage]
        kinds = tuple(kind for kind in order for _ in range(plan.count(kind, chunk, rank)))
        stages.append(StageLayers(rank=rank, chunk=chunk, first_layer=first, kinds=kinds))
        first += len(kinds)
    return tuple(stages)


def layers_by_kind(stages: Sequence[StageLayers]) -> Mapping[str, tuple[int, ...]]:
    """Return the layers of the network under each recompute kind; kinds that no layer has and `none` are left out."""
    kinds = [kind for stage in stages for kind in stage.kinds]
    return {
        name: tuple(layer for layer, kind in enumerate(kinds) if kind == name)
        for name in ordered_kinds(set(kinds))
        if name != NONE
    }
