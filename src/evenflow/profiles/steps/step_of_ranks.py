"""From what every process ran to a step: which rank, stage and microbatch every action is of, and how sure that is."""

import statistics
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.language import _, _n
from evenflow.model.stage_ranks import looped, v_shaped
from evenflow.profiles.steps.action_names import PATTERN_OPTION
from evenflow.profiles.steps.counted import counted_cells, numbered
from evenflow.profiles.steps.measured_step import MeasuredStep, TimedAction, measured_step
from evenflow.profiles.steps.observed_step import ObservedStep, observed_step
from evenflow.profiles.steps.rank_ranges import Communicated, NamedRange, RankRanges
from evenflow.profiles.traces.samples import UNSTABLE_STEPS
from evenflow.profiles.traces.trace_files import shown_name
from evenflow.schedule import Action, Op, make_schedule

_MOST_EARLY = 0.05
"""Share of the step by which counted actions may start before their input has ended: more, and they are others."""
_MOST_ROWS = 16
"""Most rows of which it is said what they are."""
_Step = list[list[NamedRange]]
"""The actions of every rank in one step."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What told the actions."""

    title: str
    is_guess: bool = False
    """Whether nothing names them."""
    schedule: str = ""
    """The schedule that they must be in the order of; empty: any."""


def step_of_ranks(
    ranks: Sequence[RankRanges], *, told: Told, place: str, notes: Sequence[str] = ()
) -> MeasuredStep | ObservedStep:
    """Return the step of median length of these processes; what is not a whole step is shown as it was recorded.

    Raises:
        InputError: actions that are missing, twice or at the same time, or that may be several.
    """
    ranks = _in_order(ranks)
    is_counted = any(item.name.microbatch is None for rank in ranks for item in rank.ranges)
    steps = _steps(ranks, place=place) if is_counted else _named_steps(ranks, place=place)
    lengths = [max(_length(own) for own in step) for step in steps]
    first = min(UNSTABLE_STEPS, len(steps) - 1)
    median = statistics.median_low(lengths[first:])
    chosen = lengths.index(median, first)
    said = list(notes)
    if len(steps) > 1:
        said.insert(0, _("Step {number}: of median length of {count}.", number=chosen + 1, count=len(steps) - first))
    name = _("step {number} of the trace", number=chosen + 1)
    make = _Maker(ranks=ranks, step=steps[chosen], told=told, name=name, place=place, notes=said)
    return make.counted() if is_counted else make.named()


def _in_order(ranks: Sequence[RankRanges]) -> list[RankRanges]:
    """Return processes in the order of the ranks that their actions, the files or the labels name, else as they are."""
    named = [{item.name.rank for item in rank.ranges} for rank in ranks]
    if all(len(own) == 1 and None not in own for own in named):
        return sorted(ranks, key=lambda rank: rank.ranges[0].name.rank or 0)
    if all(rank.rank is not None for rank in ranks):
        return sorted(ranks, key=lambda rank: rank.rank or 0)
    return list(ranks)


def _named_steps(ranks: Sequence[RankRanges], *, place: str) -> list[_Step]:
    """Return the steps of actions that are all named: each runs once in every step."""
    occurrences: list[dict[object, list[NamedRange]]] = []
    for rank in ranks:
        own: dict[object, list[NamedRange]] = defaultdict(list)
        for item in sorted(rank.ranges, key=lambda item: item.host_ns):
            own[item.name].append(item)
        occurrences.append(own)
    counts = {len(items) for own in occurrences for items in own.values()}
    if len(counts) != 1:
        raise InputError(
            value=f"{min(counts)}, {max(counts)}",
            rule=_("must have every action equally often, once in each step"),
            place=place,
            remedy=_("profile the same whole steps on every rank"),
        )
    return [[[items[step] for items in own.values()] for own in occurrences] for step in range(counts.pop())]


def _steps(ranks: Sequence[RankRanges], *, place: str) -> list[_Step]:
    """Return the steps of actions without numbers: by marks of steps, else where a rank has done all backwards."""
    by_rank = [_marked(rank) or _parts(rank.ranges, 1) for rank in ranks]
    if not any(_marked(rank) for rank in ranks) and len(ranks) > 1:
        number = min(_balances([item.name.op for item in rank.ranges]) for rank in ranks)
        if number > 1 and all(len(rank.ranges) % number == 0 for rank in ranks):
            by_rank = [_parts(rank.ranges, number) for rank in ranks]
    numbers = sorted({len(own) for own in by_rank})
    if len(numbers) > 1:
        raise InputError(
            value=f"{numbers[0]}, {numbers[-1]}",
            rule=_("must have equally many steps on every rank"),
            place=place,
            remedy=_("profile the same whole steps on every rank"),
        )
    return [[own[step] for own in by_rank] for step in range(numbers[0])]


def _marked(rank: RankRanges) -> list[list[NamedRange]]:
    """Return the actions that the host began within each marked step, of the steps that have any."""
    steps = [[item for item in rank.ranges if start_ns <= item.host_ns < end_ns] for start_ns, end_ns in rank.steps]
    return [step for step in steps if step]


def _balances(ops: Sequence[Op]) -> int:
    """Return how often a rank has done the backwards of all forwards that it began."""
    ends, under_way = 0, 0
    for op in ops:
        under_way += {Op.F: 1, Op.B: -1, Op.I: -1}.get(op, 0)
        ends += op != Op.F and under_way == 0 and op != Op.W
    return ends


def _parts(ranges: Sequence[NamedRange], number: int) -> list[list[NamedRange]]:
    ordered = sorted(ranges, key=lambda item: item.start_ns)
    size = len(ordered) // number
    return [ordered[part * size : (part + 1) * size] for part in range(number)]


def _length(ranges: Sequence[NamedRange]) -> int:
    """Return the time of a rank in a step, by its own clock."""
    return max((item.end_ns for item in ranges), default=0) - min((item.start_ns for item in ranges), default=0)


@dataclass(frozen=True, kw_only=True)
class _Maker:
    """Makes a step of the actions of ranks."""

    ranks: Sequence[RankRanges]
    step: _Step
    told: Told
    name: str
    place: str
    notes: Sequence[str]

    def named(self) -> MeasuredStep | ObservedStep:
        """Return the step of actions that say their microbatch, and their stage or their chunk."""
        if any(item.name.is_piece for own in self.step for item in own):
            return self._paired()
        if any(item.name.stage is None for own in self.step for item in own):
            cells = [[(item.name.chunk or 0, item.name.microbatch or 0) for item in own] for own in self.step]
            return self._of_cells(cells, sure=_("each says its microbatch"))
        actions = [[_timed(item, item.name.stage or 0, item.name.microbatch or 0) for item in own] for own in self.step]
        actions.sort(key=lambda own: min(timed.action.stage for timed in own))
        owners = Counter(stage for own in actions for stage in {timed.action.stage for timed in own})
        twice = next((stage for stage, count in sorted(owners.items()) if count > 1), None)
        if twice is not None:
            raise InputError(
                value=twice,
                rule=_("must have every stage in one trace"),
                place=self.place,
                remedy=_("leave the traces of one pipeline there, one for each rank"),
            )
        stages = [{timed.action.stage for timed in own} for own in actions]
        if sorted(owners) != list(range(len(owners))) or len({len(own) for own in stages}) != 1:
            refusal = InputError(
                value=sorted(owners)[:12],
                rule=_("must have all stages from 0 on, equally many on every rank"),
                place=self.place,
                remedy=_("put the traces of all ranks of the pipeline there"),
            )
            return self._observed(actions, refusal, sure=_("each says its stage and microbatch"))
        rank_of = {stage: rank for rank, own in enumerate(stages) for stage in own}
        return self._measured(
            actions, [rank_of[stage] for stage in range(len(owners))], sure=_("each says its stage and microbatch")
        )

    def counted(self) -> MeasuredStep | ObservedStep:
        """Return the step of actions that do not say their microbatch."""
        ordered = [sorted(own, key=lambda item: (item.start_ns, item.end_ns)) for own in self.step]
        make = _Maker(
            ranks=self.ranks, step=ordered, told=self.told, name=self.name, place=self.place, notes=self.notes
        )
        return make._counted([[item.name.op for item in own] for own in ordered])

    def _counted(self, ops: list[list[Op]]) -> MeasuredStep | ObservedStep:
        apart = len(ops) == 1 or not any(rank.communicated.sends_messages for rank in self.ranks)
        by_place = _("counted in the order in which they ran: likely")
        try:
            if len(ops) == 1 and self.ranks[0].communicated.sends_messages:
                raise InputError(
                    rule=_("must have the traces of all ranks that send each other messages, and has that of one"),
                    place=self.place,
                    remedy=_("put the traces of all ranks of the pipeline there"),
                )
            numbering = numbered(ops, place=self.place)
            sure = by_place
            if numbering.schedule and len(ops) > 1:
                sure = _("counted, in the order of {schedule} on every rank: sure", schedule=numbering.schedule)
            step = self._of_cells(numbering.cells, sure=sure)
        except InputError as error:
            refusal = error
        else:
            is_early = isinstance(step, MeasuredStep) and step.early_ns > _MOST_EARLY * step.timeline.makespan_ns
            if not is_early:
                return step
            refusal = InputError(
                rule=_("must have forwards and backwards that wait for those of other ranks as in a pipeline"),
                place=self.place,
                remedy=_("say with {option} REGEX which ranges are actions", option=PATTERN_OPTION),
            )
        if not apart:
            raise refusal
        cells = counted_cells(ops)
        actions = [
            [_timed(item, 0, microbatch) for item, (_chunk, microbatch) in zip(own, cells[rank], strict=True)]
            for rank, own in enumerate(self.step)
        ]
        return self._observed(actions, refusal, sure=by_place)

    def _of_cells(self, cells: Sequence[Sequence[tuple[int, int]]], *, sure: str) -> MeasuredStep | ObservedStep:
        """Return the step of actions of these chunks and microbatches, whose stages lie in turn or on a V."""
        num_ranks = len(cells)
        num_chunks = max(chunk for own in cells for chunk, _microbatch in own) + 1
        in_turn = looped(num_ranks=num_ranks, num_chunks=num_chunks)
        placements = [in_turn, v_shaped(num_ranks=num_ranks)] if num_chunks == 2 and num_ranks > 1 else [in_turn]
        for last, placement in enumerate(placements, start=1):
            stages = [[stage for stage, owner in enumerate(placement) if owner == rank] for rank in range(num_ranks)]
            actions = [
                [
                    _timed(item, stages[rank][chunk], microbatch)
                    for item, (chunk, microbatch) in zip(own, cells[rank], strict=True)
                ]
                for rank, own in enumerate(self.step)
            ]
            try:
                return self._measured(actions, placement, sure=sure)
            except InputError:
                if last == len(placements):
                    raise
        raise AssertionError("a placement was tried")

    def _measured(self, actions: list[list[TimedAction]], stage_ranks: Sequence[int], *, sure: str) -> MeasuredStep:
        actions = [_with_input_gradients(own) for own in actions]
        step = measured_step(
            actions,
            stage_ranks,
            name=self.name,
            place=self.place,
            notes=[*self.notes, *self._told(actions, sure)],
            communicated=self._communicated,
        )
        if self.told.schedule:
            schedule = step.timeline.schedule
            expected = make_schedule(
                self.told.schedule,
                num_ranks=schedule.num_ranks,
                num_chunks=1,
                num_microbatches=schedule.num_microbatches,
            )
            if not schedule.same_order(expected):
                raise InputError(
                    rule=_(
                        "must have the calls of Schedule1F1B in its order, for it is told by them which microbatch runs"
                    ),
                    place=self.place,
                    remedy=_('put the traces of all ranks there, or record_function("PP:2F3") around every action'),
                )
        return step

    def _paired(self) -> ObservedStep:
        """Return the forwards and backwards that run beside each other, as they were joined from their pieces."""
        actions = [
            [_timed(item, 0, item.name.microbatch or 0, is_paired=item.name.op == Op.F) for item in own]
            for own in self.step
        ]
        refusal = InputError(
            rule=_("must be a whole step; forwards beside backwards do not say which microbatch they are of"),
            place=self.place,
        )
        alone = [[item.own_ns for item in own] for own in self.step]
        return self._observed(actions, refusal, sure=_("joined from their pieces and counted: likely"), alone_ns=alone)

    def _observed(
        self,
        actions: list[list[TimedAction]],
        refusal: InputError,
        *,
        sure: str,
        alone_ns: Sequence[Sequence[int]] = (),
    ) -> ObservedStep:
        partly = _(
            "This is no whole step of a pipeline: actions are shown as they were recorded, and nothing tells which "
            "waits for which."
        )
        return observed_step(
            actions,
            refusal=refusal,
            name=self.name,
            place=self.place,
            alone_ns=alone_ns,
            notes=[*self.notes, *self._told(actions, sure), partly, *self._rows()],
            communicated=self._communicated,
        )

    def _rows(self) -> list[str]:
        """Return which process each row is, where they may be any ranks."""
        if len(self.ranks) == 1:
            return []
        rows = ", ".join(
            f"{row}: {shown_name(rank.file)}" + ("" if rank.rank is None else _(" (rank {rank})", rank=rank.rank))
            for row, rank in enumerate(self.ranks[:_MOST_ROWS])
        )
        return [_("Rows: {rows}", rows=rows)]

    @property
    def _communicated(self) -> list[Communicated]:
        """What every rank communicated; empty where that is not recorded."""
        is_recorded = any(rank.communicated.is_recorded for rank in self.ranks)
        return [rank.communicated for rank in self.ranks] if is_recorded else []

    def _told(self, actions: Sequence[Sequence[TimedAction]], sure: str) -> list[str]:
        """Return what told the actions, how sure that is, and what is of none."""
        count = sum(map(len, actions))
        notes = [
            _n(
                "{count} action, told by {title}; {sure}.",
                "{count} actions, told by {title}; {sure}.",
                count=count,
                title=self.told.title,
                sure=sure,
            )
        ]
        if self.told.is_guess:
            notes[0] = _("Guessed: {sentence}", sentence=notes[0])
        if self.told.is_guess and all(timed.action.op == Op.F for own in actions for timed in own):
            notes.append(_("Nothing is known to be of a backward, so everything is taken for forwards."))
        left_out = max(rank.left_out for rank in self.ranks)
        if left_out > 0.0005:
            notes.append(_("Up to {share:.1f} % of the computation of a rank is in no action.", share=100 * left_out))
        if not all(rank.has_device for rank in self.ranks):
            notes.append(_("Times are those of the ranges themselves, not of work on a device."))
        return notes


def _timed(item: NamedRange, stage: int, microbatch: int, *, is_paired: bool = False) -> TimedAction:
    return TimedAction(item.start_ns, item.end_ns, Action(stage, item.name.op, microbatch, is_paired))


def _with_input_gradients(actions: Sequence[TimedAction]) -> list[TimedAction]:
    """Return backwards that leave the weight gradient to an action of its own as input gradients, which they are."""
    split = {(timed.action.stage, timed.action.microbatch) for timed in actions if timed.action.op == Op.W}
    return [
        timed._replace(action=Action(timed.action.stage, Op.I, timed.action.microbatch))
        if timed.action.op == Op.B and (timed.action.stage, timed.action.microbatch) in split
        else timed
        for timed in actions
    ]
