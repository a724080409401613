"""The plan of an A/A check: which work is done again, and in which bubble. Imports no torch. [uneven VPP talk, part 2]

One way for all schedules: the bubbles are the gaps of a simulated timeline, wherever a family has them.

    rank 1   F0 F1 . . B0 F2 B1 . B2 . .
                   |          |      |
                   forwards   |      backward of B2, forward of F2
                              backward of B1

In a gap, work of the rank that has ended can be done again. In every turn each stage of the rank wants one forward and
one backward checked; who is asked first goes round, so that whatever fits some gap at all is checked within
``2 * num_chunks`` turns. Then further microbatches are checked, as many as nine tenths of the gaps hold. What goes
into a gap is no longer than the gap, so the step is no longer either. A backward that is done again keeps its
activations until then: that of the backward that ended last, or of others where fewer microbatches are live than at the
rank's fullest moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from evenflow.model import Communication
from evenflow.schedule import Action, Op
from evenflow.simulate import StageCosts, Timeline
from evenflow.simulate.even_layout import even_layout
from evenflow_torch.run.values.aa_report import Direction, StageWork

_SPARE_PART = 10
"""Further checks leave one part in so many of each gap free."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One re-execution of work on a microbatch."""

    after: Action
    """Action of the rank behind which the check runs."""
    stage: int
    microbatch: int
    direction: Direction


@dataclass(frozen=True, kw_only=True)
class RankChecks:
    """The gaps of one rank and the checks that fit into them."""

    order: tuple[Action, ...]
    gaps_ns: tuple[int, ...]
    """Time behind each action of `order` until the next one starts or the step ends."""
    costs_ns: dict[StageWork, int]
    """Time of a check, comparison included."""
    everywhere: bool
    """Whether work that fits no gap is checked all the same, where it costs least."""

    @cached_property
    def items(self) -> tuple[StageWork, ...]:
        """All work of the rank that can be checked."""
        return tuple(self.costs_ns)

    @cached_property
    def uncovered(self) -> tuple[StageWork, ...]:
        """Work that fits no gap."""
        return tuple(item for item in self.items if not self._fitting(item, self.gaps_ns))

    @cached_property
    def hosts(self) -> tuple[Action, ...]:
        """Actions that a check of some turn may follow."""
        places = {place for item in self.items for place in self._places(item, self.gaps_ns)}
        return tuple(self.order[place] for place in sorted(places))

    def turn(self, number: int) -> tuple[Check, ...]:
        """Return the checks of a step; turns count from 0."""
        left, spare = list(self.gaps_ns), list(self._spare)
        count = len(self.items)
        checks: list[Check] = []
        done: set[tuple[int, Direction, int]] = set()
        while True:
            before = len(checks)
            for offset in range(count):
                item = self.items[(number + offset) % count]
                if before and item in self.uncovered:
                    continue  # what makes the step longer is checked once
                places = self._places(item, left)
                first = number // count % len(places) if places else 0
                for place in (*places[first:], *places[:first]):
                    microbatch = self._microbatch(item, place, number // count, done, spare)
                    if microbatch is not None:
                        left[place] -= self.costs_ns[item]
                        done.add((*item, microbatch))
                        stage, direction = item
                        after = self.order[place]
                        checks.append(Check(after=after, stage=stage, microbatch=microbatch, direction=direction))
                        break
            if len(checks) == before:
                return tuple(checks)
            if before == 0:  # a gap that is filled to the brim makes every error of the prediction a longer step
                left = [rest - gap // _SPARE_PART for rest, gap in zip(left, self.gaps_ns, strict=True)]

    def _places(self, item: StageWork, gaps_ns: Sequence[int]) -> list[int]:
        if not self.everywhere or item not in self.uncovered:
            return self._fitting(item, gaps_ns)
        ready = range(self._ended[item][0][0], len(self.order))
        return [max(ready, key=lambda place: self.gaps_ns[place])]

    def _fitting(self, item: StageWork, gaps_ns: Sequence[int]) -> list[int]:
        first = self._ended[item][0][0]
        return [place for place in range(first, len(gaps_ns)) if gaps_ns[place] >= self.costs_ns[item]]

    def _microbatch(
        self, item: StageWork, place: int, number: int, done: set[tuple[int, Direction, int]], spare: list[int]
    ) -> int | None:
        """Choose the microbatch to check behind a place, none of `done`; None where no other can be had.

        A forward whose tensors live anyway, in turn; else the work that ended last; else an earlier backward whose
        activations there is `spare` room for until then, which they take.
        """
        stage, direction = item
        ended = [(at, microbatch) for at, microbatch in self._ended[item] if at <= place]
        last = ended[-1][1]
        if direction is Direction.FORWARD:
            gone = {microbatch for at, microbatch in self._begun_backwards[stage] if at <= place}
            living = [microbatch for _, microbatch in ended if microbatch not in gone]
            candidates = [*living[number % len(living) :], *living[: number % len(living)]] if living else [last]
            return next((candidate for candidate in candidates if (*item, candidate) not in done), None)
        for at, microbatch in reversed(ended):
            kept = range(at, place + 1)
            if (*item, microbatch) not in done and (microbatch == last or min(spare[index] for index in kept) > 0):
                for index in kept:
                    spare[index] -= 1
                return microbatch
        return None

    @cached_property
    def _spare(self) -> tuple[int, ...]:
        """Stages and microbatches that could live after each action until as many do as at the fullest moment."""
        changes = {Op.F: 1, Op.B: -1, Op.I: 0, Op.W: -1}
        live = list(accumulate(changes[action.op] for action in self.order))
        return tuple(max(live) - count for count in live)

    @cached_property
    def _ended(self) -> dict[StageWork, list[tuple[int, int]]]:
        """Place and microbatch of the actions that end the work of each stage and direction, in order."""
        ends: dict[StageWork, list[tuple[int, int]]] = {item: [] for item in self.items}
        for place, action in enumerate(self.order):
            if action.op is not Op.I:
                direction = Direction.FORWARD if action.op is Op.F else Direction.BACKWARD
                ends[action.stage, direction].append((place, action.microbatch))
        return ends

    @cached_property
    def _begun_backwards(self) -> dict[int, list[tuple[int, int]]]:
        begun: dict[int, list[tuple[int, int]]] = {stage: [] for stage, _ in self.items}
        for place, action in enumerate(self.order):
            if action.op in (Op.B, Op.I):
                begun[action.stage].append((place, action.microbatch))
        return begun


def plan_checks(
    timeline: Timeline,
    costs: StageCosts,
    *,
    compare_ns: Sequence[int] | None = None,
    communication: Communication | None = None,
    everywhere: bool = False,
) -> tuple[RankChecks, ...]:
    """Choose the checks that each rank can do without making the step longer.

    Of two layouts with the same order and the same makespan, one with every action as early as it can and one with the
    gaps gathered, it takes the one that holds more.

    Args:
        timeline: the step as predicted, run with `communication`.
        costs: of the stages, as in the timeline.
        compare_ns: how long the comparison of a stage's gradients takes, by stage; by default no time.
        everywhere: also what fits no gap, at a cost.
    """
    schedule = timeline.schedule
    forward_ns = costs.forward_ns.tolist()
    backward_ns = costs.backward_ns.tolist()
    compare_ns = compare_ns or [0] * schedule.num_stages
    plans = []
    for layout in (timeline, even_layout(timeline, communication)):
        ranks = []
        for rank in range(schedule.num_ranks):
            span = slice(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
            starts, ends = layout.start_ns[span].tolist(), layout.end_ns[span].tolist()
            own = [stage for stage in range(schedule.num_stages) if schedule.stage_ranks[stage] == rank]
            costs_ns = {
                (stage, direction): times[stage] + compare_ns[stage]
                for stage in own
                for direction, times in ((Direction.FORWARD, forward_ns), (Direction.BACKWARD, backward_ns))
            }
            following = [*starts[1:], layout.makespan_ns]
            ranks.append(
                RankChecks(
                    order=tuple(schedule.order(rank)),
                    gaps_ns=tuple(after - end for end, after in zip(ends, following, strict=True)),
                    costs_ns=costs_ns,
                    everywhere=everywhere,
                )
            )
        plans.append(tuple(ranks))
    return min(plans, key=lambda ranks: sum(len(rank.uncovered) for rank in ranks))
