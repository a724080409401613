"""The checks of one rank: a rotation of turns that together do all work again that bubbles and memory hold.

    rank 1   F0 F1 . . B0 F2 B1 . B2 . .
                   |          |      |
                   forwards   |      backward of B2, forward of F2
                              backward of B1

Work can be done again in every gap behind its end. So the work that ends late has the fewest places: every gap takes
what ended last before it and is still to be checked, as long as the gap and the memory hold it. The turns go on until
nothing is left; these turns are the rotation, and it begins again. A turn that has time left repeats work that was
checked longest ago.

A forward that is done again needs its input, and for its own time the memory of its activations. A backward that is
done again keeps its activations until then.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from operator import itemgetter

from evenflow.aa.work import Cell, Check, Direction, StageWork
from evenflow.schedule import Action, Op

_Ended = tuple[int, int, Cell]
"""Place of the end, place since which the activations are kept, and the work."""

SPARE_PART = 10
"""Checks leave one part in so many of a gap free: one that is filled to the brim makes every error of the prediction a
longer step. In a step only one check of each kind may, alone in its gap."""


@dataclass(frozen=True, kw_only=True)
class RankChecks:
    """The gaps of one rank and the checks that fit into them."""

    order: tuple[Action, ...]
    gaps_ns: tuple[int, ...]
    """Time behind each action of `order` until the next one starts or the step ends."""
    costs_ns: dict[StageWork, int]
    """Time of a check, comparison included."""
    work_ns: dict[StageWork, int]
    """Time of the work itself."""
    activation_bytes: dict[int, int]
    """What the activations of a microbatch take, by stage."""
    room_bytes: tuple[int, ...]
    """What may be held beside the step's own memory behind each action."""
    everywhere: bool
    """Whether work that fits no gap is checked all the same, one piece a turn, where it costs least."""

    @cached_property
    def items(self) -> tuple[StageWork, ...]:
        """All kinds of work of the rank."""
        return tuple(self.costs_ns)

    @cached_property
    def cells(self) -> tuple[Cell, ...]:
        """All work of the rank in a step."""
        return tuple((*item, microbatch) for item in self.items for _, _, microbatch in self.ended[item])

    @cached_property
    def uncovered(self) -> tuple[StageWork, ...]:
        """Kinds of work that fit no gap."""
        in_gaps = {cell[:2] for cell in self.cells if self._first_in_gaps(cell) is not None}
        return tuple(item for item in self.items if item not in in_gaps)

    @cached_property
    def never(self) -> tuple[Cell, ...]:
        """Work that no turn checks."""
        return tuple(cell for cell in self.cells if cell not in self.first_places)

    @cached_property
    def rotation(self) -> tuple[tuple[Check, ...], ...]:
        """The checks of every turn until all that can be checked has been."""
        return tuple(_Rotation(self).turns())

    @cached_property
    def hosts(self) -> tuple[Action, ...]:
        """Actions that a check of some turn follows."""
        used = {check.after for turn in self.rotation for check in turn}
        return tuple(action for action in self.order if action in used)

    def turn(self, number: int) -> tuple[Check, ...]:
        """Return the checks of a step; turns count from 0."""
        return self.rotation[number % len(self.rotation)] if self.rotation else ()

    def can_hold(self, place: int, item: StageWork, used_ns: int, *, to_the_brim: bool) -> bool:
        """Return whether a gap in which checks take `used_ns` has the time for another."""
        gap, cost = self.gaps_ns[place], self.costs_ns[item]
        return used_ns + cost <= gap - gap // SPARE_PART or (to_the_brim and used_ns == 0 and cost <= gap)

    @cached_property
    def first_places(self) -> dict[Cell, int]:
        """Where each piece of work can be checked first if nothing else is; work that cannot be is missing."""
        result = {}
        for cell in self.cells:
            place = self._first_in_gaps(cell)
            if place is None and self.everywhere:
                ready = range(self._ends[cell][0], len(self.order))
                fitting = [place for place in ready if self._has_room(cell, place)]
                place = max(fitting, key=lambda place: self.gaps_ns[place]) if fitting else None
            if place is not None:
                result[cell] = place
        return result

    @cached_property
    def open_places(self) -> tuple[int, ...]:
        """Gaps that have the time for some check."""
        least_ns = min(self.costs_ns.values())
        return tuple(place for place, gap in enumerate(self.gaps_ns) if gap >= least_ns)

    @cached_property
    def ended(self) -> dict[StageWork, list[tuple[int, int, int]]]:
        """Place of the end, place since which it is kept, and microbatch of all work of a kind, in order."""
        begins = {(action.stage, action.microbatch): at for at, action in enumerate(self.order) if action.op is Op.I}
        ends: dict[StageWork, list[tuple[int, int, int]]] = {item: [] for item in self.costs_ns}
        for place, action in enumerate(self.order):
            if action.op is not Op.I:
                direction = Direction.FORWARD if action.op is Op.F else Direction.BACKWARD
                kept_from = begins.get((action.stage, action.microbatch), place) if action.op is Op.W else place
                if (action.stage, direction) in ends:
                    ends[action.stage, direction].append((place, kept_from, action.microbatch))
        return ends

    def kept(self, cell: Cell, place: int) -> range:
        """Return the places behind which the activations of a check are there beside the step's own."""
        if cell[1] is Direction.FORWARD:
            return range(place, place + 1)
        return range(self._ends[cell][1], place + 1)

    def is_extra(self, cell: Cell) -> bool:
        """Return whether a check of this work makes the step longer."""
        return self.gaps_ns[self.first_places[cell]] < self.costs_ns[cell[:2]]

    @cached_property
    def _ends(self) -> dict[Cell, tuple[int, int]]:
        return {(*item, number): (place, start) for item, ends in self.ended.items() for place, start, number in ends}

    def _first_in_gaps(self, cell: Cell) -> int | None:
        fitting = self._fitting[cell[:2]]
        later = islice(fitting, bisect_left(fitting, self._ends[cell][0]), None)
        if cell[1] is Direction.BACKWARD:  # what is kept to a gap is kept to all before it
            later = islice(later, 1)
        return next((place for place in later if self._has_room(cell, place)), None)

    @cached_property
    def _fitting(self) -> dict[StageWork, list[int]]:
        """Gaps that have the time for a kind of work."""
        return {
            item: [place for place, gap in enumerate(self.gaps_ns) if gap >= cost]
            for item, cost in self.costs_ns.items()
        }

    def _has_room(self, cell: Cell, place: int) -> bool:
        needed = self.activation_bytes[cell[0]]
        kept = self.kept(cell, place)
        return self._least_room(kept.start, kept.stop) >= needed

    def _least_room(self, start: int, stop: int) -> int:
        """Return the least room behind the actions [start, stop), from a table of powers of two."""
        level = (stop - start).bit_length() - 1
        row: Sequence[int] = self._room_table[level]
        return min(row[start], row[stop - (1 << level)])

    @cached_property
    def _room_table(self) -> list[Sequence[int]]:
        table: list[Sequence[int]] = [self.room_bytes]
        while 2 ** len(table) <= len(self.room_bytes):
            below, reach = table[-1], 2 ** (len(table) - 1)
            table.append([min(pair) for pair in zip(below[:-reach], below[reach:], strict=True)])
        return table


class _Rotation:
    """The state of a rotation while it is made."""

    def __init__(self, checks: RankChecks) -> None:
        self.checks = checks
        can = checks.first_places
        self.extra = sorted((cell for cell in can if checks.is_extra(cell)), key=itemgetter(2))  # kinds alternate
        outside = set(self.extra)
        self.waiting: dict[StageWork, list[_Ended]] = {
            item: [
                (place, start, (*item, number))
                for place, start, number in checks.ended[item]
                if (*item, number) in can and (*item, number) not in outside
            ]
            for item in checks.items
        }
        """Work that is to be checked in this rotation, by kind."""
        self.all_work = {item: list(cells) for item, cells in self.waiting.items()}
        self.by_cost = sorted(checks.items, key=lambda item: -checks.costs_ns[item])
        self.last_turn = dict.fromkeys(checks.items, -1)
        self.number = 0

    def turns(self) -> list[tuple[Check, ...]]:
        turns = []
        while any(self.waiting.values()) or self.extra:
            turns.append(self._turn())
            self.number += 1
        return turns

    def _turn(self) -> tuple[Check, ...]:
        self.used = [0] * len(self.checks.gaps_ns)
        self.room = list(self.checks.room_bytes)
        self.forwards = [0] * len(self.room)
        self.chosen: dict[Cell, Check] = {}
        if self.extra:
            cell = self.extra.pop(0)
            self._take(cell, self.checks.first_places[cell])
        places = self.checks.open_places
        for item in sorted(self.checks.items, key=lambda item: self.last_turn[item]):  # every kind, the oldest first
            for place in places:
                if self._put(item, place, self.waiting[item], to_the_brim=True):
                    break
        for place in places:
            for item in self.by_cost:
                while self._put(item, place, self.waiting[item]):
                    pass
        oldest = sorted(self.checks.items, key=lambda item: self.last_turn[item])
        for place in reversed(places):
            for item in oldest:
                while self._put(item, place, self.all_work[item], is_repeat=True):
                    pass
        return tuple(self.chosen.values())

    def _put(
        self, item: StageWork, place: int, entries: list[_Ended], *, to_the_brim: bool = False, is_repeat: bool = False
    ) -> bool:
        """Check the last of `entries` for which a place has time and memory, and return whether there is one.

        Unless it `is_repeat`, it is then taken out of them.
        """
        stage, direction = item
        needed = self.checks.activation_bytes[stage]
        if (
            not entries
            or self._room(place, direction) < needed
            or not self.checks.can_hold(place, item, self.used[place], to_the_brim=to_the_brim)
        ):
            return False
        reached = place
        for index in range(bisect_right(entries, place, key=itemgetter(0)) - 1, -1, -1):
            _, start, cell = entries[index]
            if direction is Direction.BACKWARD:
                while reached > start and self._room(reached - 1, direction) >= needed:
                    reached -= 1
                if reached > start:
                    return False  # what ended earlier would be kept longer
            if cell not in self.chosen:
                if not is_repeat:
                    entries.pop(index)
                self._take(cell, place)
                return True
        return False

    def _room(self, place: int, direction: Direction) -> int:
        """Return what a check may take behind a place: forwards there run one at a time, beside what is kept."""
        return self.room[place] - (self.forwards[place] if direction is Direction.BACKWARD else 0)

    def _take(self, cell: Cell, place: int) -> None:
        stage, direction, microbatch = cell
        after = self.checks.order[place]
        self.chosen[cell] = Check(after=after, stage=stage, microbatch=microbatch, direction=direction)
        self.used[place] += self.checks.costs_ns[stage, direction]
        if direction is Direction.BACKWARD:
            for at in self.checks.kept(cell, place):
                self.room[at] -= self.checks.activation_bytes[stage]
        else:
            self.forwards[place] = max(self.forwards[place], self.checks.activation_bytes[stage])
        self.last_turn[stage, direction] = self.number
