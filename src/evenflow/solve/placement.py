"""Which runs of layers a cell may hold, by the rules that the model has for stages and where cells may be empty.

    banned[c, j]   how many of the layers before j may not be in cell c
    alone[j]       how many of the layers before j must be alone
    filled[c]      whether cell c must hold a layer

Cell c may hold the layers [i, j) where ``banned[c, j] == banned[c, i]``, and ``alone[j] == alone[i]`` or j = i + 1, and
i < j where it is filled. Layers that stay together are one layer here (see `evenflow.model.blocks`).
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Network, StageRule, stage_cells
from evenflow.simulate import Integers


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class Placement:
    """Which runs of layers each cell may hold; cells are counted along the network."""

    banned: Integers
    """Layers before each border that each cell may not hold, shape [num_cells, num_layers + 1]."""
    alone: Integers
    """Layers before each border that must be alone in their cell, shape [num_layers + 1]."""
    filled: NDArray[np.bool_]
    """Whether each cell must hold a layer, shape [num_cells]."""

    def allows(self, cell: int, starts: Integers, ends: Integers) -> NDArray[np.bool_]:
        """Return whether `cell` may hold the layers [start, end), for each pair of the two."""
        here = self.banned[cell]
        alone = (self.alone[ends] == self.alone[starts]) | (ends - starts == 1)
        return np.asarray((here[ends] == here[starts]) & alone & ((starts < ends) | ~self.filled[cell]))

    def allows_all(self, bounds: Integers) -> bool:
        """Return whether the cells with the borders `bounds` [num_cells + 1] hold what they may."""
        return all(self.allows(cell, bounds[cell], bounds[cell + 1]) for cell in range(len(bounds) - 1))

    def nearest(self, goals: NDArray[np.float64], work: Integers, *, min_layers: int) -> Integers | None:
        """Return the borders [num_cells + 1] that are nearest to `goals`; None where there are none.

        `goals` is the `work` [num_layers + 1] that should be done before each cell but the first, [num_cells - 1].
        """
        num_cells, num_layers = len(self.banned), len(self.alone) - 1
        starts, ends = np.triu_indices(num_layers + 1, min_layers)
        reached = np.full(num_layers + 1, np.inf)
        reached[0] = 0.0
        origins = []
        for cell in range(num_cells):
            off = np.abs(work - goals[cell]) if cell < num_cells - 1 else np.zeros(num_layers + 1)
            table = np.full((num_layers + 1, num_layers + 1), np.inf)
            may = self.allows(cell, starts, ends)
            table[starts[may], ends[may]] = reached[starts[may]] + off[ends[may]]
            origins.append(table.argmin(axis=0))
            reached = table.min(axis=0)
        if not np.isfinite(reached[num_layers]):
            return None
        borders = [num_layers]
        for origin in reversed(origins):
            borders.append(int(origin[borders[-1]]))
        return np.array(borders[::-1], dtype=np.int64)


def placement_of(network: Network, table: Integers, *, min_layers: int, only_ends_empty: bool) -> Placement | None:
    """Return what cells may hold, given the stage of each ``[chunk, rank]``; None where they may hold anything.

    `only_ends_empty` says whether cells within the network hold a layer where `min_layers` is 0.

    Raises InputError where no cut keeps to the rules, which names them.
    """
    rules = sorted({rule for run in network.runs for rule in run.layer.stage_rules})
    has_filled = only_ends_empty and min_layers == 0 and table.size > 2
    if not rules and not has_filled:
        return None
    filled = np.full(table.size, has_filled)
    filled[[0, -1]] = False
    fewest = int(filled.sum())
    if network.num_layers < fewest:
        raise InputError(
            value=network.num_layers,
            rule=_(
                "must be at least {fewest}, because only the first and the last of {num_stages} stages may be empty",
                fewest=fewest,
                num_stages=table.size,
            ),
            place=_("body layers of {name}", name=network.name),
            remedy=_("use fewer ranks or chunks"),
        )
    placement = replace(_under(network, table, rules), filled=filled)
    if _is_possible(placement, min_layers):
        return placement
    # Name as few rules as rule out every cut.
    few = next(
        some
        for number in range(1, len(rules) + 1)
        for some in combinations(rules, number)
        if not _is_possible(replace(_under(network, table, some), filled=filled), min_layers)
    )
    of_rules = {rule: next(run.layer.name for run in network.runs if rule in run.layer.stage_rules) for rule in few}
    raise InputError(
        value=table.size,
        rule=_(
            "must be one for which a cut keeps to the rules of the layers ({rules})",
            rules="; ".join(_("{layer}: {rule}", layer=name, rule=rule.words) for rule, name in of_rules.items()),
        ),
        place=_("the number of stages of {name}", name=network.name),
        remedy=_("use fewer stages, or change the rules in the layer file"),
    )


def _under(network: Network, table: Integers, rules: Sequence[StageRule]) -> Placement:
    """Return what cells may hold where only these rules count."""
    kept = [layer.stage_rules.intersection(rules) for layer in network.layers]
    num_chunks, num_ranks = table.shape
    banned = {
        own: [
            any(
                not rule.allows(
                    chunk=c, rank=r, num_chunks=num_chunks, num_ranks=num_ranks, is_last=number == table.size
                )
                for rule in own
            )
            for number, (c, r) in enumerate(stage_cells(table), 1)
        ]
        for own in set(kept)
    }
    before = np.cumsum([banned[own] for own in kept], axis=0, dtype=np.int64)
    return Placement(
        banned=np.concatenate((np.zeros((1, table.size), dtype=np.int64), before)).T.copy(),
        alone=np.concatenate(([0], np.cumsum([StageRule.ALONE in own for own in kept], dtype=np.int64))),
        filled=np.zeros(table.size, dtype=np.bool_),
    )


def _is_possible(placement: Placement, min_layers: int) -> bool:
    num_cells, num_layers = len(placement.banned), len(placement.alone) - 1
    anywhere = np.zeros(num_cells - 1), np.zeros(num_layers + 1, dtype=np.int64)
    return placement.nearest(*anywhere, min_layers=min_layers) is not None
