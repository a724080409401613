"""MindSpore's ``Scope Layer`` process of an Ascend trace: rows that the profiler made from the names of operators.

An operator ``Default/network-…/layers-CellList/46-LLamaDecodeLayer/attention-…/MatMul-op7`` makes a row for each of its
scopes, on the thread of the scope's depth; neighbours of one name are one row. So thread 0 has the whole of a pass:

    thread 0   | Default                                    | Gradients                        | Default …
    thread 7   | LlamaEmb… | 0-LLamaDecode… | 1-LLamaDecode… |    | 1-LLamaDecode… | 0-LLama… |

``Default`` is a forward, ``Gradients`` a backward, ``recompute_Default`` a forward that is repeated for a backward. A
row is the time of a scope on the device, from its first operator to its last.
"""

import re
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from evenflow.profiles.traces.formats.event_times import ROUNDING_NS, follows
from evenflow.profiles.traces.names import NameMatcher
from evenflow.profiles.traces.trace import BACKWARD, FORWARD, Occurrence

SCOPE_PROCESS = "Scope Layer"
PASSES = {"Default": FORWARD, "Gradients": BACKWARD, "recompute_Default": "recompute"}
"""The rows of thread 0."""


NUMBERED = re.compile(r"([0-9]{1,6})-\w+")
"""A scope of one layer of several."""


@dataclass(frozen=True, slots=True)
class ScopeRow:
    """One row of a trace, as a range on the device."""

    name: str
    start_ns: int
    end_ns: int


def occurrences_of(passes: Sequence[ScopeRow], layers: Iterable[ScopeRow], matcher: NameMatcher) -> list[Occurrence]:
    """Return forwards and backwards of layers: rows within a pass that no other layer's row surrounds.

    So the norms inside a decoder layer are part of it, and the norm after the last one is the tail's.
    """
    passes = sorted(passes, key=lambda row: row.start_ns)
    starts = [row.start_ns for row in passes]
    occurrences = []
    free_from = None
    for row in sorted(layers, key=lambda row: (row.start_ns, -row.end_ns)):
        if free_from is not None and not follows(row.start_ns, row.end_ns, free_from):
            continue
        free_from = row.end_ns
        match = matcher(row.name)
        index = bisect_right(starts, row.start_ns) - 1
        if match is None or index < 0 or row.end_ns > passes[index].end_ns + ROUNDING_NS:
            continue
        phase = PASSES[passes[index].name]
        if phase in (FORWARD, BACKWARD):
            time_ns = row.end_ns - row.start_ns
            occurrences.append(
                Occurrence(match=match, scope=row.name, phase=phase, start_ns=row.start_ns, time_ns=time_ns)
            )
    return occurrences


def whole_passes(passes: Iterable[ScopeRow], layers: Iterable[ScopeRow]) -> list[ScopeRow]:
    """Return each forward and each backward of one microbatch, named ``Default`` or ``Gradients``, in order.

    A row of several, which no other one is between, is cut where the numbers of its layers begin anew. A recomputation
    is part of the backward behind it.
    """
    numbered = sorted(
        ((row.start_ns, int(match[1])) for row in layers if (match := NUMBERED.fullmatch(row.name))),
        key=lambda pair: pair[0],
    )
    starts = [start_ns for start_ns, _number in numbered]
    whole: list[ScopeRow] = []
    recomputed_ns: int | None = None
    for row in sorted(passes, key=lambda row: row.start_ns):
        phase = PASSES[row.name]
        if phase not in (FORWARD, BACKWARD):
            recomputed_ns = row.start_ns if recomputed_ns is None else recomputed_ns
            continue
        inside = numbered[bisect_right(starts, row.start_ns - 1) : bisect_right(starts, row.end_ns - 1)]
        sign = 1 if phase == FORWARD else -1
        cuts = [here[0] for before, here in pairwise(inside) if sign * (here[1] - before[1]) < 0]
        begin = recomputed_ns if phase == BACKWARD and recomputed_ns is not None else row.start_ns
        recomputed_ns = None
        edges = [begin, *cuts, row.end_ns]
        whole += [ScopeRow(row.name, first, last) for first, last in pairwise(edges)]
    return whole
