"""Encoders beside the pipeline of a decoder: which of their parts ranks do while they would wait, and which not.

The pipeline stays as it is. Parts are alike, so it is enough to know when the next one can be done: where every rank
does as many as it can as early as it can, the k-th part that arrives at the first stage is there as early as a k-th can
be, and goes to the k-th forward that waits. What cannot be done in time in bubbles is done before the pipeline begins;
how long that takes at least is found by bisection. Backwards are the same thing in reversed time: they begin after
gradients have come, and what finds no bubble is done behind the pipeline. [decoupled encoder process of Kimi K2.5,
arXiv:2602.02276; forwards in bubbles as in Kimi K3]
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.model import Network
from evenflow.schedule import Op, Schedule
from evenflow.simulate.costs import Integers
from evenflow.simulate.idle_gaps import gaps_ns, own_gaps
from evenflow.simulate.timeline import Timeline

Gap = tuple[int, int]
"""Beginning and end of a time in which a rank has nothing to do, ns."""


@dataclass(frozen=True, eq=False, slots=True, kw_only=True)
class EncoderParts:
    """Parts in the order in which the first stage needs them, or gives their gradients; arrays of [num_parts]."""

    ranks: Integers
    """Who does a part."""
    start_ns: Integers
    """Its start, from the beginning of the pipeline; negative before that."""
    end_ns: Integers
    microbatches: Integers

    def taken(self, places: Integers) -> "EncoderParts":
        """Return the parts at these places, in their order."""
        return EncoderParts(
            ranks=self.ranks[places],
            start_ns=self.start_ns[places],
            end_ns=self.end_ns[places],
            microbatches=self.microbatches[places],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class EncodedStep:
    """What encoders add to the step of a decoder's pipeline, and who does what."""

    forwards: EncoderParts
    backwards: EncoderParts | None
    """None where nothing of encoders is trained."""
    before_ns: int
    """Time before the pipeline in which parts are done that it has no bubbles for, or that it would wait for."""
    behind_ns: int
    """Time behind the pipeline, with adding up the gradients."""
    pipeline_ns: int
    least_ns: int
    """Time that encoders take at least before and behind this pipeline; forwards and backwards are bounded each as if
    all bubbles were theirs.
    """

    @property
    def step_ns(self) -> int:
        """Time of a step, encoders included."""
        return self.before_ns + self.pipeline_ns + self.behind_ns

    @property
    def sides(self) -> tuple[EncoderParts, ...]:
        """Forwards, and backwards where anything is trained, each rank by rank in the order of time."""
        both = (self.forwards, self.backwards)
        return tuple(done.taken(np.lexsort((done.start_ns, done.ranks))) for done in both if done is not None)

    @property
    def forwards_in_bubbles(self) -> int:
        """Number of parts whose forward runs in bubbles."""
        return int((self.forwards.start_ns >= 0).sum())

    @property
    def backwards_in_bubbles(self) -> int:
        """Number of parts whose backward runs in bubbles."""
        return 0 if self.backwards is None else int((self.backwards.end_ns <= self.pipeline_ns).sum())


def encoded_step(network: Network, timeline: Timeline) -> EncodedStep | None:
    """Return what encoders add to a step; None where no rank has any beside the pipeline."""
    work = network.encoder_work
    if work is None:
        return None
    pipeline_ns, gaps = timeline.makespan_ns, _bubbles(timeline)
    bubbles = gaps if work.in_bubbles else [[] for _own in gaps]
    needed_ns, given_ns = _first_stage(timeline)
    if not work.in_bubbles:
        needed_ns, given_ns = np.zeros_like(needed_ns), np.full_like(given_ns, pipeline_ns)
    forward = _Side(network, timeline.schedule, work.forward_ns, needed_ns)
    forwards, before_ns = forward.placed(bubbles)
    if not work.backward_ns or timeline.schedule.is_forward_only:
        return EncodedStep(
            forwards=forwards, backwards=None, before_ns=before_ns, behind_ns=0, pipeline_ns=pipeline_ns,
            least_ns=before_ns,
        )  # fmt: skip
    backward = _Side(network, timeline.schedule, work.backward_ns, pipeline_ns - given_ns)
    left = [_mirrored(_without(own, forwards, rank), pipeline_ns) for rank, own in enumerate(bubbles)]
    mirrored, behind_ns = backward.placed(left)
    alone_ns = backward.least_ns([_mirrored(own, pipeline_ns) for own in bubbles])
    return EncodedStep(
        forwards=forwards,
        backwards=EncoderParts(
            ranks=mirrored.ranks,
            start_ns=pipeline_ns - mirrored.end_ns,
            end_ns=pipeline_ns - mirrored.start_ns,
            microbatches=mirrored.microbatches,
        ),
        before_ns=before_ns,
        behind_ns=behind_ns + work.summed_ns,
        pipeline_ns=pipeline_ns,
        least_ns=before_ns + alone_ns + work.summed_ns,
    )


class _Side:
    """Forwards, or in reversed time backwards: parts that must have arrived when they are due."""

    def __init__(self, network: Network, schedule: Schedule, part_ns: int, due_ns: Integers) -> None:
        """`due_ns` [num_microbatches] is when the parts of a microbatch must be at the first stage."""
        work = network.encoder_work
        assert work is not None
        self._work_ns = [round(part_ns / network.speed_of(rank)) for rank in range(schedule.num_ranks)]
        self._first_rank = schedule.stage_ranks[0]
        self._message_ns = work.message_ns if schedule.num_ranks > 1 else 0
        order = np.argsort(due_ns, kind="stable")
        self._microbatches = np.repeat(order, work.parts)
        self._due_ns = np.repeat(due_ns[order], work.parts)

    def least_ns(self, bubbles: Sequence[Sequence[Gap]]) -> int:
        """Return how long before time 0 the ranks must begin, so that all parts are there when they are due."""
        count = len(self._due_ns)
        low, high = -1, count * (self._work_ns[self._first_rank] + 1)  # the first rank alone can do all in that time
        while high - low > 1:
            lead_ns = (low + high) // 2
            if self._is_in_time(self._arrivals(bubbles, lead_ns)[0]):
                high = lead_ns
            else:
                low = lead_ns
        return high

    def placed(self, bubbles: Sequence[Sequence[Gap]]) -> tuple[EncoderParts, int]:
        """Return the parts, each as early as it can be, and how long before time 0 the first of them begins."""
        lead_ns = self.least_ns(bubbles)
        count = len(self._due_ns)
        _arrive, ends, ranks = self._arrivals(bubbles, lead_ns)
        ends, ranks = ends[:count], ranks[:count]
        starts = ends - np.array(self._work_ns, dtype=np.int64)[ranks]
        return EncoderParts(ranks=ranks, start_ns=starts, end_ns=ends, microbatches=self._microbatches), lead_ns

    def _is_in_time(self, arrivals: Integers) -> bool:
        count = len(self._due_ns)
        return len(arrivals) >= count and bool((arrivals[:count] <= self._due_ns).all())

    def _arrivals(self, bubbles: Sequence[Sequence[Gap]], lead_ns: int) -> tuple[Integers, Integers, Integers]:
        """Return when parts arrive if every rank does as many as it can, in that order, their ends and ranks."""
        made = [self._ends(rank, own, lead_ns) for rank, own in enumerate(bubbles)]
        ends = np.concatenate(made)
        ranks = np.repeat(np.arange(len(made)), [len(own) for own in made])
        order = np.argsort(ends, kind="stable")
        ends, ranks = ends[order], ranks[order]
        arrivals = ends.copy()
        sent = ranks != self._first_rank
        turns = np.arange(int(sent.sum())) * self._message_ns
        arrivals[sent] = np.maximum.accumulate(ends[sent] - turns) + turns + self._message_ns
        order = np.argsort(arrivals, kind="stable")
        return arrivals[order], ends[order], ranks[order]

    def _ends(self, rank: int, bubbles: Sequence[Gap], lead_ns: int) -> Integers:
        """Return when a rank is done with each of the parts that it has time for, none more than there are."""
        work_ns = self._work_ns[rank]
        gaps = [(-lead_ns, 0), *bubbles]
        if bubbles and bubbles[0][0] == 0:  # it goes on without a break
            gaps = [(-lead_ns, bubbles[0][1]), *bubbles[1:]]
        most = len(self._due_ns)
        ends = [
            begin + work_ns * np.arange(1, 1 + min(most, (end - begin) // work_ns), dtype=np.int64)
            for begin, end in gaps
        ]
        return np.concatenate(ends)[:most]


def _bubbles(timeline: Timeline) -> list[list[Gap]]:
    """Return when every rank has nothing to do, in the order of time."""
    num_ranks = timeline.schedule.num_ranks
    lengths = gaps_ns(timeline)
    ends = np.append(timeline.start_ns, [timeline.makespan_ns] * num_ranks)
    bubbles = []
    for rank in range(num_ranks):
        own = own_gaps(timeline.schedule, rank)
        own = own[lengths[own] > 0]
        bubbles.append(list(zip((ends - lengths)[own].tolist(), ends[own].tolist(), strict=True)))
    return bubbles


def _first_stage(timeline: Timeline) -> tuple[Integers, Integers]:
    """Return when the first stage begins every microbatch, and when its gradients are there, [num_microbatches]."""
    schedule = timeline.schedule
    first = schedule.stages == 0
    forwards = first & (schedule.ops == Op.F)
    backwards = first & ((schedule.ops == Op.B) | (schedule.ops == Op.I))
    count = schedule.num_microbatches
    needed = np.full(count, timeline.makespan_ns, dtype=np.int64)
    given = np.zeros(count, dtype=np.int64)
    of_unit = schedule.units // schedule.sequence_splits
    np.minimum.at(needed, of_unit[forwards], timeline.start_ns[forwards])
    np.maximum.at(given, of_unit[backwards], timeline.end_ns[backwards])
    return needed, given


def _without(bubbles: Sequence[Gap], parts: EncoderParts, rank: int) -> list[Gap]:
    """Return what is left of the bubbles of a rank behind the parts in each, which begin with it."""
    ends = parts.end_ns[parts.ranks == rank]
    left = []
    for begin, end in bubbles:
        within = ends[(ends > begin) & (ends <= end)]
        used = int(within.max(initial=begin))
        if used < end:
            left.append((used, end))
    return left


def _mirrored(bubbles: Sequence[Gap], pipeline_ns: int) -> list[Gap]:
    """Return bubbles in reversed time."""
    return [(pipeline_ns - end, pipeline_ns - begin) for begin, end in reversed(bubbles)]
