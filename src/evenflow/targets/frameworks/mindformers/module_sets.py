"""Sets of modules as patterns of operators under ``select_recompute``, each with counts of its own.

MindFormers computes the operators and cells again whose names in a layer a pattern matches, in so many first layers of
every cell. So the layers of a cell are under sets each of which is in the one before. A module is one here whose
operators have names of their own: those of a dense MLP and of shared experts but for the last product, and the norms.
Experts are one operator, which computes its activation again in any case. [MindFormers 1.9: LayerSetting, `MLP`,
`FFNGroupedGEMM`, `TransformerLayer` of parallel_core/training_graph]
"""

from collections.abc import Collection, Mapping, Sequence
from itertools import combinations

from evenflow.model import FULL, Cells, Plan, cells
from evenflow.predict.training import SET_MODULES, set_kind, sets_among

_INSIDE_MLP = "(linear_fc1|activation_func|mul)"
PATTERNS: Mapping[str, str] = {
    "layernorm": r"(input|pre_mlp)_layernorm",
    "mlp": rf"mlp\.{_INSIDE_MLP}",
    "shared_experts": rf"mlp\.shared_experts\.{_INSIDE_MLP}",
}
"""The pattern of every module; ``\\.`` stands between the names of a path."""
_SETS = tuple(modules for size in range(len(PATTERNS), 0, -1) for modules in combinations(PATTERNS, size))
SETS = tuple(map(set_kind, _SETS))
"""Sets of modules, as recompute kinds."""
APART = tuple(
    (set_kind(first), set_kind(second)) for first, second in combinations(_SETS, 2) if not set(second) <= set(first)
)
"""Sets neither of which is in the other, which no cell has both of."""


def has_sets(plan: Plan) -> bool:
    """Return whether layers of the plan are under sets of modules."""
    return any(kind in SETS for kind in plan.used_kinds)


def patterns_of(plan: Plan) -> dict[str, list[list[int]]]:
    """Return the first layers of every cell ``[chunk][rank]`` under each pattern, those under `full` among them."""
    sets = sets_among(kind for kind in plan.used_kinds if kind in SETS)
    modules = [module for module in PATTERNS if any(module in modules for modules in sets)]

    def first_layers(module: str) -> list[list[int]]:
        kinds = [FULL, *(set_kind(modules) for modules in sets if module in modules)]
        return [
            [sum(plan.count(kind, chunk, rank) for kind in kinds) for rank in range(plan.num_ranks)]
            for chunk in range(plan.num_chunks)
        ]

    return {PATTERNS[module]: first_layers(module) for module in modules}


def are_of_modules(patterns: Collection[object]) -> bool:
    """Return whether all patterns of a file, at least one, are those of modules."""
    return bool(patterns) and set(patterns) <= set(PATTERNS.values())


def sets_of(counts: Mapping[str, Cells], full: Cells) -> dict[str, Cells]:
    """Return how many layers of every cell are under each set, by the first layers under each pattern.

    Layers under `full` are under no set.
    """
    tables: dict[str, list[list[int]]] = {}
    for chunk, row in enumerate(full):
        for rank, begin in enumerate(row):
            ends = {module: counts[pattern][chunk][rank] for module, pattern in PATTERNS.items() if pattern in counts}
            for kind, count in _in_turn(ends, begin):
                table = tables.setdefault(kind, [[0] * len(row) for row in full])
                table[chunk][rank] = count
    return {kind: cells(table) for kind, table in tables.items()}


def _in_turn(ends: Mapping[str, int], begin: int) -> Sequence[tuple[str, int]]:
    """Return the sets of the layers of a cell from `begin` on, and how many layers each has, in order."""
    counted = []
    for end in sorted(set(ends.values())):
        if end > begin:
            modules = [module for module in SET_MODULES if ends.get(module, 0) >= end]
            counted.append((set_kind(modules), end - begin))
            begin = end
    return counted
