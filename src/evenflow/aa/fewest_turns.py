"""A lower bound on the turns of a rotation: no choice of checks needs fewer, whatever goes where.

Each bound counts work that only some of the gaps can take. Work that ended behind a place has no gap before it; work
that takes at least so long is taken by a gap at most so often; backwards that pass a place are all kept there. How many
turns the fullest of these needs, every rotation needs.
"""

from collections.abc import Iterator

from evenflow.aa.rank_checks import SPARE_PART, RankChecks
from evenflow.aa.work import Cell, Direction


def fewest_turns(checks: RankChecks) -> int:
    """Return a number of turns that no rotation over all work that `checks` can check falls below."""
    inside = {cell: place for cell, place in checks.first_places.items() if not checks.is_extra(cell)}
    return max([len(checks.first_places) - len(inside), *_by_time(checks, inside), *_by_memory(checks, inside)])


def _by_time(checks: RankChecks, inside: dict[Cell, int]) -> Iterator[int]:
    """Yield a bound for every place and every least cost of the work that ends from there on."""
    for least_ns in {checks.costs_ns[cell[:2]] for cell in inside}:
        long = sorted((place, checks.costs_ns[cell[:2]]) for cell, place in inside.items())
        long = [(place, cost) for place, cost in long if cost >= least_ns]
        count = work = slots = time = 0
        place = len(checks.gaps_ns)
        while long:
            first, cost = long.pop()
            for index in range(first, place):
                slots += _slots(checks.gaps_ns[index], least_ns)
                time += _time(checks, index)
            place = first
            count, work = count + 1, work + cost
            yield max(-(-count // slots), -(-work // time) if time else 0)


def _slots(gap_ns: int, cost_ns: int) -> int:
    """Return how many checks of at least this length a gap takes."""
    if cost_ns == 0:
        return 10**9
    return max(int(gap_ns >= cost_ns), (gap_ns - gap_ns // SPARE_PART) // cost_ns)


def _time(checks: RankChecks, place: int) -> int:
    """Return the most time that checks take in a gap."""
    gap = checks.gaps_ns[place]
    alone = max((cost for cost in checks.costs_ns.values() if cost <= gap), default=0)
    return max(alone, gap - gap // SPARE_PART)


def _by_memory(checks: RankChecks, inside: dict[Cell, int]) -> Iterator[int]:
    """Yield a bound for every place, from the backwards that are kept there wherever they are checked."""
    held = [0] * len(checks.order)
    for cell, place in inside.items():
        if cell[1] is Direction.BACKWARD:
            for at in checks.kept(cell, place):
                held[at] += checks.activation_bytes[cell[0]]
    for needed, room in zip(held, checks.room_bytes, strict=True):
        if needed and room > 0:
            yield -(-needed // room)
