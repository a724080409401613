"""Plans with pairs for frameworks whose chunks of a rank must hold equally many layers that exchange tokens.

There a forward waits for a backward at every exchange, layer by layer, and for ever where one of them has more. So a
cut is a number for every rank: that many layers with experts in each of its chunks. The sum of these numbers is given,

    rank             0       1       2       3
    each chunk       2       3       3       2        of 20 layers in 2 chunks

and a search moves one from rank to rank, as long as the plan with the best recomputation becomes shorter. Layers
without experts stand before all others, in the first cell; blocks that predict further tokens count with those with
experts, behind one of them in the last cell. Bounds are those of all such cuts.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product

from evenflow.model import Abilities, Cells, Network, Plan, Request, cells
from evenflow.schedule import group_allowed
from evenflow.simulate import pairs_save
from evenflow.solve.best import counts_to_try, floors_of
from evenflow.solve.best_outcome import BestOutcome, ScheduleCandidate
from evenflow.solve.bounds import ramp_bound_ns
from evenflow.solve.bounds.equal_chunks_bound import equal_chunks_bound_ns
from evenflow.solve.outcome import Outcome, Status
from evenflow.solve.plan import solve
from evenflow.solve.problem import make_problem
from evenflow.solve.proof import TOLERANCE
from evenflow.solve.rank_orders import rank_orders, reordered
from evenflow.solve.recompute_ways import recompute_ways
from evenflow.solve.requests import ContestSearch
from evenflow.solve.time_left import TimeLeft

_TURNS = 12
"""Cuts that a search has time for at least, where each takes its whole turn."""
_LEAST_TURN_S = 0.3
_LAST_SHARE = 0.3
"""Share of the time for the best cut at the end."""

Numbers = tuple[int, ...]
"""Layers with experts in each chunk of every rank."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PairedRequest:
    """A number of chunks and a way of recomputing under a schedule with pairs."""

    request: Request
    schedule: str
    recomputation: str = ""
    rank_order: tuple[int, ...] = ()
    """For each rank, which of those of the caller's request it is; empty: as they are there."""
    floor_ns: int = 0
    """A lower bound on every plan, whatever its cut."""

    @property
    def lower_bound_ns(self) -> int:
        """Lower bound on the step of all plans with this number of chunks."""
        request = self.request
        dense = dense_layers(request.network)
        assert dense is not None
        of_cuts = equal_chunks_bound_ns(request.network, request.sizes, dense=dense)
        return max(self.floor_ns, of_cuts, int(ramp_bound_ns(make_problem(request, schedule=self.schedule))))


def dense_layers(network: Network) -> int | None:
    """Return the layers that exchange no tokens, all of them before all others; None where they are elsewhere too."""
    exchanges = [layer.halves is not None and layer.halves.forward.exchange_ns > 0 for layer in network.layers]
    dense = exchanges.index(True) if True in exchanges else len(exchanges)
    return dense if all(exchanges[dense:]) and dense < len(exchanges) else None


def equal_cut(dense: int, numbers: Numbers, num_chunks: int) -> Cells:
    """Return the layers of every cell ``[chunk][rank]`` for these numbers of layers with experts in each chunk.

    >>> equal_cut(1, (2, 3), 2)
    ((3, 3), (2, 3))
    """
    rows = [list(numbers) for _chunk in range(num_chunks)]
    rows[0][0] += dense
    return cells(rows)


def first_numbers(num_experts: int, num_ranks: int, num_chunks: int) -> Numbers | None:
    """Return about equal numbers for all ranks, the smaller ones at the ends; None where there are none.

    >>> first_numbers(20, 4, 2), first_numbers(21, 4, 2), first_numbers(6, 4, 2)
    ((2, 3, 3, 2), None, None)
    """
    of_chunk, rest = divmod(num_experts, num_chunks)
    each, more = divmod(of_chunk, num_ranks)
    if rest or not each:
        return None
    # Both ends do more than their layers, and the first ranks hold most microbatches.
    order = sorted(range(num_ranks), key=lambda rank: (rank in (0, num_ranks - 1), -rank))
    return tuple(each + (rank in order[:more]) for rank in range(num_ranks))


def with_equal_pairs(
    without: BestOutcome | None, requests: Sequence[PairedRequest], *, left: TimeLeft
) -> BestOutcome | None:
    """Return the outcome of a contest, or a shorter plan with pairs of one of `requests`; None where there is neither.

    Bound and status are those of all plans of both.
    """
    answers = [(each, _searched(each, left.share(1 / (len(requests) - done)))) for done, each in enumerate(requests)]
    if not answers:
        return without
    candidates = [*(() if without is None else without.candidates), *(_candidate(*answer) for answer in answers)]
    candidates.sort(key=lambda each: float("inf") if each.makespan_ns is None else each.makespan_ns)
    outcomes = [*(() if without is None else (without.outcome,)), *(outcome for _each, outcome in answers)]
    best = min(outcomes, key=lambda each: float("inf") if each.makespan_ns is None else each.makespan_ns)
    bounds = [*(() if without is None else (without.lower_bound_ns,)), *(each.lower_bound_ns for each, _ in answers)]
    bound_ns = min(bounds)
    if best.makespan_ns is not None:
        bound_ns = min(bound_ns, best.makespan_ns)
        best = _with_bound(best, bound_ns)
    seconds = sum(outcome.solve_seconds for outcome in outcomes)
    return BestOutcome(
        outcome=replace(best, solve_seconds=seconds),
        candidates=tuple(candidates),
        lower_bound_ns=bound_ns,
        solve_seconds=seconds,
    )


def _with_bound(outcome: Outcome, bound_ns: int) -> Outcome:
    """Return the outcome of a plan with a bound on other cuts too."""
    free = replace(outcome.restrictions, fixed_layers=False)
    if outcome.makespan_ns is None:
        return replace(outcome, restrictions=free)
    is_optimal = bound_ns >= outcome.makespan_ns * (1 - 2 * TOLERANCE)
    status = Status.OPTIMAL if is_optimal else Status.FEASIBLE
    return replace(outcome, lower_bound_ns=bound_ns, status=status, restrictions=free)


def _candidate(paired: PairedRequest, outcome: Outcome) -> ScheduleCandidate:
    return ScheduleCandidate(
        schedule=paired.schedule,
        num_chunks=paired.request.sizes.num_chunks,
        recomputation=paired.recomputation,
        rank_order=paired.rank_order,
        outcome=outcome,
    )


def paired_requests(
    request: Request, abilities: Abilities, search: ContestSearch, *, title: str
) -> list[PairedRequest]:
    """Return the numbers of chunks, and ways of recomputing, for which there is such a cut and pairs save time."""
    schedule, network = abilities.equal_pairs, request.network
    if schedule is None or search.layers is not None or not pairs_save(network, request.communication):
        return []
    orders: list[tuple[int, ...]] = [()]
    if search.place_ranks is not None and network.ranks:
        orders = rank_orders(network.ranks, search.place_ranks)
    found: list[PairedRequest] = []
    for order, count in product(orders, counts_to_try(request, search)):
        sizes = replace(request.sizes, num_chunks=count)
        placed = reordered(network, order) if order else network
        own = replace(request, network=placed, sizes=sizes, layers=None, group_size=None)
        refusals = abilities.with_equal_pairs.refusals(sizes, schedule, title=title)
        is_run = not any(True for _each in refusals) and group_allowed(abilities.groups, None, sizes)
        if not is_run or _first(own) is None:
            continue
        floor_ns = floors_of({count: own}, [schedule])[count, True]
        found += [
            PairedRequest(
                request=replace(own, cell_rule=way.rule),
                schedule=schedule,
                recomputation=way.name,
                rank_order=order,
                floor_ns=floor_ns,
            )
            for way in recompute_ways(own, abilities)
            if way.bounds is None
        ]
    return found


def _first(request: Request) -> Numbers | None:
    dense, sizes = dense_layers(request.network), request.sizes
    if dense is None or sizes.num_chunks == 1:
        return None
    numbers = first_numbers(request.network.num_layers - dense, sizes.num_ranks, sizes.num_chunks)
    return None if numbers is None else _with_last(numbers, _least_in_last(request.network))


def _least_in_last(network: Network) -> int:
    """Return how many layers with experts each chunk of the last rank has at least.

    All blocks that predict further tokens are in the last stage, behind one that does not.
    """
    return network.mtp_layers + 1


def _with_last(numbers: Numbers, least: int) -> Numbers | None:
    """Return numbers of which the last is at least so large, each other one at least one; None where none are."""
    taken = list(numbers)
    while taken[-1] < least:
        giver = max(range(len(taken) - 1), key=lambda rank: taken[rank], default=0)
        if len(taken) == 1 or taken[giver] == 1:
            return None
        taken[giver] -= 1
        taken[-1] += 1
    return tuple(taken)


def _searched(paired: PairedRequest, left: TimeLeft) -> Outcome:
    """Return the outcome of the best cut that was found, with a bound on all."""
    dense, numbers = dense_layers(paired.request.network), _first(paired.request)
    assert dense is not None
    assert numbers is not None
    turn_s, last_s = max(_LEAST_TURN_S, left.seconds / _TURNS), _LAST_SHARE * left.seconds
    moving = TimeLeft.of(max(0.0, left.seconds - last_s))
    tried: dict[Numbers, Outcome] = {}

    def step_ns(each: Numbers) -> float:
        if each not in tried:
            tried[each] = _solved(paired, dense, each, seconds=turn_s)
        makespan_ns = tried[each].makespan_ns
        return float("inf") if makespan_ns is None else float(makespan_ns)

    best_ns, least = step_ns(numbers), _least_in_last(paired.request.network)
    others = iter(_neighbours(numbers, least))
    while not moving.is_over:
        other = next(others, None)
        if other is None:
            break
        if other not in tried and step_ns(other) < best_ns:
            numbers, best_ns = other, step_ns(other)
            others = iter(_neighbours(numbers, least))
    known = tried[numbers].plan
    best = tried[numbers]
    if known is not None and not left.is_over and best.status is not Status.OPTIMAL:
        last = _solved(paired, dense, numbers, seconds=max(turn_s, left.seconds), known=(known,))
        best = best if last.makespan_ns is None else last
    bound_ns, best = paired.lower_bound_ns, replace(best, rank_order=paired.rank_order)
    return _with_bound(best, bound_ns if best.makespan_ns is None else min(bound_ns, best.makespan_ns))


def _solved(
    paired: PairedRequest, dense: int, numbers: Numbers, *, seconds: float, known: Sequence[Plan] = ()
) -> Outcome:
    request = paired.request
    layers = equal_cut(dense, numbers, request.sizes.num_chunks)
    return solve(replace(request, layers=layers), schedule=paired.schedule, time_limit_s=seconds, known=known)


def _neighbours(numbers: Numbers, least_in_last: int) -> Iterator[Numbers]:
    """Yield the numbers after a layer of each chunk went from one rank to another, near ones first.

    The last one stays at `least_in_last` or more.
    """
    ranks = range(len(numbers))
    for distance in ranks[1:]:
        for giver in ranks:
            for taker in (giver - distance, giver + distance):
                least = least_in_last if giver == ranks[-1] else 1
                if taker in ranks and numbers[giver] > least:
                    yield tuple(number - (rank == giver) + (rank == taker) for rank, number in enumerate(numbers))
