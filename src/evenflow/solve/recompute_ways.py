"""The ways of recomputing that a framework has, as rules of cells: together they allow all that it can run, no more.

A framework that recomputes so many first layers of every cell has one number K for all of them, which no rule of a
single cell says. So every K is a rule of its own, up to some more than an even cut has layers in a cell, and all layers
are another. Cells that recompute at least K layers, in any numbers, are rules that only bound: all larger K at once,
and what lies between the largest K that is tried and all layers.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto

from evenflow.language import _, _n
from evenflow.model import (
    FULL,
    NONE,
    Abilities,
    CellRule,
    Plan,
    Recomputation,
    Request,
    Scope,
    has_whole_segments,
    segment_length,
)

_MORE_THAN_EVEN = 2
"""Layers of a cell beyond those of an even cut up to which every number of recomputed layers is tried."""


class BoundPurpose(Enum):
    """What a rule bounds that is not taken for plans."""

    COVER = auto()
    """Plans of other rules, several at once."""
    MORE = auto()
    """Plans of other rules, and others that no rule is for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RecomputeWay:
    """A rule of cells, with its name."""

    rule: CellRule
    name: str = ""
    """What all cells have in common, as a phrase; empty where they may differ."""
    count: int | None = None
    """Layers of every cell under `full`, the least where the rule only bounds; None without such a number."""
    bounds: BoundPurpose | None = None
    """What the rule only bounds, where it also allows what the framework cannot run; None where it can run all."""
    chain: tuple[str, ...] = ()
    """The kinds of which every cell may hold a share instead; none where there is no other way. Where the rule only
    bounds, it does so for all such shares."""
    less: CellRule | None = None
    """The rule that recomputes less, which memory may forbid; None where cells recompute as little as they can."""


def recompute_ways(request: Request, abilities: Abilities, *, known: Sequence[Plan] = ()) -> tuple[RecomputeWay, ...]:
    """Return the ways of recomputing that a framework has for the network of `request`, the freest ones first.

    That of each `known` plan with one number of recomputed layers is among them.
    """
    kinds = request.network.split_sequence(request.sizes.sequence_splits).kinds
    free = _without_covered(
        [way for way in abilities.recomputation if way.scope in (Scope.LAYERS, Scope.CELL)], set(kinds)
    )
    ways = [RecomputeWay(rule=way.rule()) for way in free]
    plain = CellRule(kinds=(NONE,))
    if not free:
        ways.append(RecomputeWay(rule=plain, name=_("nothing recomputed")))
    for way in abilities.recomputation:
        offered = [
            kind
            for kind in way.kinds
            if kind in kinds and not _includes(free, kind) and _has_whole_segments(request, kind)
        ]
        if way.scope is Scope.COUNT and FULL in offered:
            ways += _counted(request, _most_counted(known))
        elif way.scope is Scope.MODEL:
            ways += [
                RecomputeWay(
                    rule=CellRule(kinds=(kind,)),
                    name=_("{kind} in all layers", kind=kind),
                    chain=way.chain(kind),
                    less=plain,
                )
                for kind in offered
            ]
            ways += _shares([way.chain(kind) for kind in offered])
    return tuple({way.rule: way for way in reversed(ways)}.values())[::-1]


def _shares(chains: Sequence[tuple[str, ...]]) -> Iterator[RecomputeWay]:
    """Yield rules that bound the plans with a share of any of `chains`: cells of any of their kinds."""
    for chain in dict.fromkeys(chains):
        if chain and not any(len(chain) < len(other) and other[: len(chain)] == chain for other in chains):
            name = _("shares of {kind}", kind=chain[-1])
            yield RecomputeWay(rule=CellRule(kinds=chain), name=name, bounds=BoundPurpose.MORE, chain=chain)


def _without_covered(ways: Sequence[Recomputation], kinds: set[str]) -> list[Recomputation]:
    """Return the ways without those whose contents of cells another one has too, for layers that offer `kinds`."""
    left = list(dict.fromkeys(ways))
    for way in tuple(left):
        if any(other != way and _covers(other, way, kinds) for other in left):
            left.remove(way)
    return left


def _covers(larger: Recomputation, way: Recomputation, kinds: set[str]) -> bool:
    own = set(way.kinds) & kinds
    apart = {pair for pair in larger.apart if set(pair) <= own}
    return larger.scope is Scope.LAYERS and own <= set(larger.kinds) and apart <= set(way.apart)


def _has_whole_segments(request: Request, kind: str) -> bool:
    """Return whether `kind` is not one of segments, or the decided cut holds nothing but whole ones."""
    length = segment_length(kind)
    if length is None:
        return True
    return bool(length) and request.layers is not None and has_whole_segments(request.layers, (length,))


def _includes(free: list[Recomputation], kind: str) -> bool:
    """Return whether cells that choose freely may all be under `kind`."""
    return any(kind in way.kinds for way in free)


def _most_counted(plans: Sequence[Plan]) -> int:
    """Return the most layers of a cell that known plans recompute under `full`, unless they recompute all of them."""
    counted = [plan for plan in plans if plan.used_kinds == (FULL,) and plan.num_recomputed < plan.num_layers]
    return max((max(map(max, plan.recompute[FULL])) for plan in counted), default=0)


def _counted(request: Request, least_last: int) -> Iterator[RecomputeWay]:
    """Yield the ways of recomputing so many first layers of every cell, up to `least_last` and more."""
    num_cells, network = request.sizes.num_cells, request.network
    even = -(-network.num_layers // num_cells)
    most = most_layers(request)
    last = min(max(even + _MORE_THAN_EVEN, least_last), most)
    for count in range(2, last + (2 if last < most else 0)):
        phrase = _("full in the first {count} layers of every cell or more", count=count)
        bounds = BoundPurpose.MORE if count > last else BoundPurpose.COVER
        yield RecomputeWay(rule=CellRule(full=(count, None)), name=phrase, count=count, bounds=bounds)
    for count in range(1, last + 1):
        name = _n(
            "full in the first layer of every cell", "full in the first {count} layers of every cell", count=count
        )
        less = CellRule(full=(count - 1, count - 1))
        yield RecomputeWay(rule=CellRule(full=(count, count)), name=name, count=count, less=less)
    if last < most:
        name, less = _("full in all layers"), CellRule(full=(last, last))
        yield RecomputeWay(rule=CellRule(kinds=(FULL,)), name=name, count=most, less=less)


def most_layers(request: Request) -> int:
    """Return the most layers that a cell may have."""
    if request.layers is not None:
        return max(count for row in request.layers for count in row)
    return request.network.num_layers - (request.sizes.num_cells - 1) * request.min_layers
