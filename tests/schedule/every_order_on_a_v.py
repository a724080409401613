"""The shortest step on a V in units of one action, over every order within a limit: forward, I and W take a unit each.

A state counts, for every rank, what it has done of F of chunk 0, F of chunk 1, I of chunk 1, I of chunk 0, and W. All
states that can be reached are followed unit by unit. Microbatches are taken in turn. Weight gradients unlock nothing
and free the same whichever chunk they are of, so they are counted together; and a rank that could run I or W never
idles, since to run it at once takes nothing from any order. A rank that idles longer than the step allows is out.
"""

from itertools import product

RankState = tuple[int, int, int, int, int]


def fits_in(ranks: int, microbatches: int, most_live: int, units: int) -> bool:
    """Whether some order takes at most so many units with at most `most_live` activations of a chunk on each rank."""
    spare = units - 6 * microbatches
    states: set[tuple[RankState, ...]] = {((0, 0, 0, 0, 0),) * ranks}
    for unit in range(units):
        following: set[tuple[RankState, ...]] = set()
        for state in states:
            choices = [_choices(state, rank, microbatches, most_live) for rank in range(ranks)]
            for chosen in product(*choices):
                if all(unit + 1 - sum(own) <= spare for own in chosen):
                    following.add(chosen)
        states = following
    return bool(states)


def shortest_units(ranks: int, microbatches: int, most_live: int) -> int:
    """The units of the shortest order."""
    units = 6 * microbatches + ranks - 1
    while not fits_in(ranks, microbatches, most_live, units):
        units += 1
    return units


def _choices(state: tuple[RankState, ...], rank: int, microbatches: int, most_live: int) -> list[RankState]:
    """The states of a rank after a unit."""
    own = state[rank]
    down, up, back_up, back_down, weights = own
    last = len(state) - 1
    choices = []
    live = down + up - weights
    if live < most_live:
        if down < microbatches and (rank == 0 or state[rank - 1][0] > down):
            choices.append((down + 1, up, back_up, back_down, weights))
        if up < (down if rank == last else state[rank + 1][1]):
            choices.append((down, up + 1, back_up, back_down, weights))
    must = False
    if back_up < (up if rank == 0 else state[rank - 1][2]):
        choices.append((down, up, back_up + 1, back_down, weights))
        must = True
    if back_down < (back_up if rank == last else state[rank + 1][3]):
        choices.append((down, up, back_up, back_down + 1, weights))
        must = True
    if weights < back_up + back_down:
        choices.append((down, up, back_up, back_down, weights + 1))
        must = True
    if not must:
        choices.append(own)
    return choices
