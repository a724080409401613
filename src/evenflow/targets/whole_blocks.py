"""Plans of half blocks for frameworks that cut between whole blocks alone, and back."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise

from evenflow.model import NONE, LayerBlocks, Plan, cells, ordered_kinds
from evenflow.schedule import schedule_of
from evenflow.targets.stages import StageLayers, stages_of


def in_whole_blocks(plan: Plan, blocks: LayerBlocks) -> Plan | None:
    """Return a plan of layers as one of `blocks`; None where a cut or its recomputation parts one of them."""
    ends = blocks.ends.tolist()

    def kinds_of(stage: StageLayers) -> Sequence[str] | None:
        first, stop = stage.layers.start, stage.layers.stop
        if first not in ends or stop not in ends:
            return None
        inside = [pair for pair in pairwise(ends) if first <= pair[0] and pair[1] <= stop]
        parts = [stage.kinds[begin - first : end - first] for begin, end in inside]
        return [part[0] for part in parts] if all(len(set(part)) == 1 for part in parts) else None

    return _with_kinds(plan, kinds_of, continuing_layers=0)


def with_nearest_cut(plan: Plan, blocks: LayerBlocks) -> Plan:
    """Return a plan of `blocks` cut as near to a plan of layers as it goes, without recomputation and order."""
    ends = blocks.ends.tolist()
    counts: dict[tuple[int, int], int] = {}
    for stage in stages_of(plan, schedule_of(plan).stage_ranks):
        first, stop = (
            min(range(len(ends)), key=lambda place: abs(ends[place] - border))
            for border in (stage.layers.start, stage.layers.stop)
        )
        counts[stage.chunk, stage.rank] = stop - first
    rows = [[counts[chunk, rank] for rank in range(plan.num_ranks)] for chunk in range(plan.num_chunks)]
    return replace(plan, layers=cells(rows), recompute={}, moved_share=None, order=(), continuing_layers=0)


def in_layers(plan: Plan, blocks: LayerBlocks) -> Plan:
    """Return a plan of `blocks` as one of layers."""
    sizes = [end - begin for begin, end in pairwise(blocks.ends.tolist())]

    def kinds_of(stage: StageLayers) -> Sequence[str]:
        of_blocks = zip(stage.kinds, sizes[stage.layers.start : stage.layers.stop], strict=True)
        return [kind for kind, size in of_blocks for _layer in range(size)]

    changed = _with_kinds(plan, kinds_of, continuing_layers=sum(sizes) - len(sizes))
    assert changed is not None
    return changed


def _with_kinds(
    plan: Plan, kinds_of: Callable[[StageLayers], Sequence[str] | None], *, continuing_layers: int
) -> Plan | None:
    """Return the plan whose stages have layers under the kinds that `kinds_of` gives; None where it gives none."""
    counts: dict[tuple[int, int], Counter[str]] = {}
    for stage in stages_of(plan, schedule_of(plan).stage_ranks):
        kinds = kinds_of(stage)
        if kinds is None:
            return None
        counts[stage.chunk, stage.rank] = Counter(kinds)
    rows = [[counts[chunk, rank] for rank in range(plan.num_ranks)] for chunk in range(plan.num_chunks)]
    used = [kind for kind in ordered_kinds({kind for cell in counts.values() for kind in cell}) if kind != NONE]
    return replace(
        plan,
        layers=cells([[cell.total() for cell in row] for row in rows]),
        recompute={kind: cells([[cell[kind] for cell in row] for row in rows]) for kind in used},
        continuing_layers=continuing_layers,
    )
