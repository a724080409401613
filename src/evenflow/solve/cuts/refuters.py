"""Mixtures of paths that refuted parts of cut graphs: much of what they say holds for other parts and targets too.

A mixture of paths through the dependency graph bounds all plans of a problem, wherever it was found. One that refutes
the plans through a state of a cut graph mostly refutes those through its neighbours, in the next graph too.
"""

from dataclasses import dataclass
from threading import Lock

import numpy as np

from evenflow.solve.cuts.cut_part import CutPart
from evenflow.solve.master.matrix import Floats

_MOST = 150
"""Mixtures that are kept."""
_FORGOTTEN = 0.1
"""Share of what a mixture was worth that is forgotten whenever all are used."""
_LOOKS = 5_000_000
"""Arcs that are looked at whenever all are used, about."""
_FEWEST = 5
"""Mixtures that are used whatever the number of arcs."""
_WORTH_REPEATING = 0.95
"""Fraction of the arcs left above which mixtures are not used again."""
_EXACT_BITS = 50
"""Bits of a sum that is exact in floating point, with some to spare."""
_FINEST_BITS = 20
"""Bits behind the point that are kept of a mixture's counts at most."""


@dataclass(slots=True, eq=False)
class _Refuter:
    mixture: Floats
    """As in `Played.paths`, shape [num_slots + 1]."""
    worth: float = 1.0


class Refuters:
    """The mixtures, with what each has been worth; several threads may use and add them."""

    def __init__(self) -> None:
        """Begin with none."""
        self._known: list[_Refuter] = []
        self._lock = Lock()

    def add(self, mixture: Floats) -> None:
        """Keep a mixture that has just refuted something."""
        with self._lock:
            self._known = [*self._known, _Refuter(mixture)]

    @property
    def latest(self) -> list[Floats]:
        """The two mixtures that came last."""
        return [known.mixture for known in self._known[-2:]]

    def narrow(self, part: CutPart) -> bool:
        """Drop what the mixtures refute of a part, until little goes; returns whether any is left."""
        for known in self._known:
            known.worth *= 1 - _FORGOTTEN
        while True:
            number = len(part.graph)
            for known in self._by_worth()[: max(_FEWEST, _LOOKS // max(1, number))]:
                before = len(part.graph)
                is_left = part.narrow(known.mixture)
                known.worth += 1 - len(part.graph) / before
                if not is_left:
                    return False
            if len(part.graph) > _WORTH_REPEATING * number:
                self._forget()
                return True

    def rounded(self, most: int, *, target_ns: int) -> Floats:
        """Return `most` that are worth most, rounded down so that sums up to the target are exact.

        What bounds plans from below still does when it is rounded down.
        """
        chosen = [known.mixture for known in self._by_worth()[:most]]
        scale = 2.0 ** max(0, min(_FINEST_BITS, _EXACT_BITS - target_ns.bit_length()))
        return np.floor(np.array(chosen) * scale) / scale

    def _by_worth(self) -> list[_Refuter]:
        return sorted(self._known, key=lambda known: -known.worth)

    def _forget(self) -> None:
        """Drop those that are worth least where there are too many; the others keep their order."""
        with self._lock:
            kept = {id(known) for known in self._by_worth()[:_MOST]}
            self._known = [known for known in self._known if id(known) in kept]
