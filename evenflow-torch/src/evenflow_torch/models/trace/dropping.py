"""Works out what a layer keeps, and which operators run again, when some of its modules recompute.

A module that recomputes keeps what it reads from outside, and what others read of it. Of the rest, its forward runs
again as far as the backward needs it. [`evenflow.model.recompute_parts`]
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from evenflow_torch.models.trace.operator_graph import OperatorGraph, Role, Value


@dataclass(frozen=True, slots=True, kw_only=True)
class Dropping:
    """What recomputing modules of a graph keep, and which operators run again."""

    kept: frozenset[Value]
    """Results that the forward keeps, of all modules."""
    again: frozenset[int]
    """Operators of the forward that run again."""


def dropping(graph: OperatorGraph, modules: Sequence[str]) -> Dropping:
    """Return what is kept and what runs again when `modules`, none inside another, recompute."""
    owner = [_owner(operator.module, modules) for operator in graph.operators]
    saved: dict[Value, set[str | None]] = {}
    kept: set[Value] = set()
    for index, operator in enumerate(graph.operators):
        if operator.role is not Role.COMPUTE:
            continue
        for source in _sources(graph, index):
            if operator.backward:
                saved.setdefault(source, set()).add(owner[index])
            elif owner[index] is not None and owner[source.operator] != owner[index]:
                kept.add(source)
    for value, readers in saved.items():
        own = owner[value.operator]
        if own is None or readers != {own}:
            kept.add(value)
    again = set()
    needed = [value.operator for value in saved if value not in kept]
    while needed:
        index = needed.pop()
        if index not in again:
            again.add(index)
            needed += [
                value.operator
                for value in _sources(graph, index)
                if owner[value.operator] == owner[index] and value not in kept
            ]
    return Dropping(kept=frozenset(kept), again=frozenset(again))


def _owner(module: str, modules: Sequence[str]) -> str | None:
    """Return the recomputing module that `module` is or is in."""
    return next((owner for owner in modules if module == owner or module.startswith(f"{owner}.")), None)


def _sources(graph: OperatorGraph, index: int) -> Iterator[Value]:
    """Yield the forward results that an operator reads, looking through views."""
    operator = graph.operators[index]
    for value in operator.inputs:
        for route in graph.routes(value, operator.times):
            source = graph.operators[route.source.operator]
            if not source.backward and source.role in (Role.COMPUTE, Role.INPUT):
                yield route.source
