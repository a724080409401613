"""Sets of modules as patterns of operators under ``select_recompute``, each with counts of its own.

MindFormers computes the operators again whose names in a layer a pattern matches, in so many first layers of every
cell. So the layers of a cell are under sets each of which is in the one before. A module is one here whose operators
have names of their own: the norms, and those of a dense MLP and of shared experts but for the last product. Experts are
one operator, which computes its activation again in any case. [MindFormers 1.9: LayerSetting, `MLP`, `FFNGroupedGEMM`,
`TransformerLayer` of parallel_core/training_graph]

Patterns name operators and never a cell, whose output would be kept: ``Cell.recompute`` keeps it. What stands between
an operator and the next product, a split or a reshape, is among them, since it would keep the same memory. Reshapes of
`linear_fc1`, and a fused SwiGLU, are computed again in any case, and naming them is an error in MindFormers.

Beside swap, patterns have the numbers of layers instead. There operators can also move what they return, of which two
patterns cover what the products around attention's core keep: queries, keys and values, and its output.
"""

from collections.abc import Mapping, Sequence
from itertools import combinations

from evenflow.model import FULL, OFFLOAD, Cells, Plan, cells, moved_kind
from evenflow.predict.training import SET_MODULES, set_kind, sets_among

_NORM = "(norm|layer_norm|cast|square|mean2?|sub|add2?|r?sqrt|real_div|mul2?)"
_INSIDE_MLP = (
    "(mul|split|transpose|add)",
    r"linear_fc1\.(matmul|cast|add)",
    r"activation_func\.(silu|gelu|split|mul)",
    r"linear_fc2\.reshape",
)
PATTERNS: Mapping[str, tuple[str, ...]] = {
    "layernorm": (rf"(input|pre_mlp)_layernorm\.{_NORM}",),
    "mlp": tuple(rf"mlp\.{name}" for name in _INSIDE_MLP),
    "shared_experts": tuple(rf"mlp\.shared_experts\.{name}" for name in _INSIDE_MLP),
}
"""The patterns of every module; ``\\.`` stands between the names of a path."""
_SETS = tuple(modules for size in range(len(PATTERNS), 0, -1) for modules in combinations(PATTERNS, size))
SETS = tuple(map(set_kind, _SETS))
"""Sets of modules, as recompute kinds."""
APART = tuple(
    (set_kind(first), set_kind(second)) for first, second in combinations(_SETS, 2) if not set(second) <= set(first)
)
"""Sets neither of which is in the other, which no cell has both of."""

MOVED = ("offload_core_attn", "offload_attn_proj")
"""Modules whose inputs can move to the host, both or neither."""
MOVED_PATTERNS = (r"self_attention\.(core_attention|reshape)", r"self_attention\.linear_proj\.reshape")
"""The patterns under ``op_swap`` for them. What moves is what an operator returns and the backward needs, element by
element of a tuple: queries, keys and values (behind their transposes, or behind their reshapes where sequences are
packed), attention's output with its sums, and the output once more as the projection reads it. [MindSpore:
OffloadActivationOptimizer]
"""
MOVING_SETS = tuple(set_kind((*modules, *MOVED)) for modules in ((), *_SETS))
"""Sets of modules with `MOVED`."""
KINDS = (FULL, OFFLOAD, *SETS, *MOVING_SETS, *map(moved_kind, SETS))
"""Recompute kinds of layers by names of newer models."""


def has_sets(plan: Plan) -> bool:
    """Return whether layers of the plan are under sets of modules."""
    return any(kind in KINDS and kind not in (FULL, OFFLOAD) for kind in plan.used_kinds)


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

    return {pattern: first_layers(module) for module in modules for pattern in PATTERNS[module]}


def are_of_modules(patterns: Mapping[object, object]) -> bool:
    """Return whether all patterns of a file, at least one, are those of modules, each whole and for the same layers."""
    whole = [of for of in PATTERNS.values() if all(pattern in patterns for pattern in of)]
    alike = all(patterns[pattern] == patterns[of[0]] for of in whole for pattern in of)
    return bool(patterns) and alike and set(patterns) == {pattern for of in whole for pattern in of}


def sets_of(counts: Mapping[str, Cells], full: Cells) -> dict[str, Cells]:
    """Return how many layers of every cell are under each set, by the first layers under each pattern.

    Layers under `full` are under no set.
    """
    tables: dict[str, list[list[int]]] = {}
    for chunk, row in enumerate(full):
        for rank, begin in enumerate(row):
            ends = {module: counts[of[0]][chunk][rank] for module, of in PATTERNS.items() if of[0] in counts}
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
