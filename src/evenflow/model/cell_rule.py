"""Which recompute kinds the layers of one cell may be under, given how many layers it has."""

from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.model.recompute import COMM, FULL, NONE, SELECT


@dataclass(frozen=True, slots=True, kw_only=True)
class CellRule:
    """A rule that every cell of a plan keeps; without any value set, all contents are allowed."""

    kinds: tuple[str, ...] = ()
    """Kinds that layers may be under, `none` among them where it is allowed; empty: all."""
    apart: tuple[tuple[str, str], ...] = ()
    """Pairs of kinds that may not share a cell."""
    alike: bool = False
    """Whether all layers of a cell are under one kind."""
    full: tuple[int, int | None] | None = None
    """The least and the most layers under `full` (None: any number), as far as the cell has so many; the others are
    under `none`.
    """

    def families(self, kinds: Sequence[str]) -> tuple[tuple[int, ...], ...]:
        """Return sets of indices of `kinds`: a cell may mix the kinds of one set, and any of them.

        How many layers may be under `full` comes beside.

        >>> CellRule(apart=(("select", "comm"),)).families(("full", "select", "comm", "none"))
        ((0, 2, 3), (0, 1, 3))
        >>> CellRule(apart=(("a", "b"), ("b", "c"))).families(("a", "b", "c", "none"))
        ((1, 3), (0, 2, 3))
        """
        allowed = [index for index, kind in enumerate(kinds) if self._allows(kind)]
        if self.alike:
            return tuple((index,) for index in allowed)
        found = [tuple(allowed)]
        for pair in self.apart:
            if set(pair) <= set(kinds):
                banned = [kinds.index(kind) for kind in pair]
                found = list(dict.fromkeys(part for family in found for part in _without_pair(family, banned)))
        largest = [family for family in found if not any(set(family) < set(other) for other in found)]
        return tuple(largest)

    def _allows(self, kind: str) -> bool:
        if self.full is not None:
            return kind in (FULL, NONE)
        return not self.kinds or kind in self.kinds

    def full_range(self, num_layers: int) -> tuple[int, int]:
        """Return the least and the most layers under `full` of a cell with `num_layers`.

        >>> CellRule(full=(2, 2)).full_range(5), CellRule(full=(2, 2)).full_range(1)
        ((2, 2), (1, 1))
        """
        least, most = self.full or (0, None)
        return min(least, num_layers), num_layers if most is None else min(most, num_layers)


def _without_pair(family: tuple[int, ...], pair: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """Return the family without either kind of a pair, or as it is where it has not both."""
    if not set(pair) <= set(family):
        return (family,)
    return tuple(tuple(index for index in family if index != left_out) for left_out in pair)


SELECT_OR_COMM = CellRule(apart=((SELECT, COMM),))
"""The rule of MindFormers, whose recompute lists are nested: a cell has no layers under `select` alone beside others
under `comm` alone. [SAPP guide, Step 5]
"""
ANY_CONTENT = CellRule()


def mixing(mix_any: bool) -> CellRule:
    """Return the rule of the public option `mix_any`: any contents, or those that MindFormers can express."""
    return ANY_CONTENT if mix_any else SELECT_OR_COMM
