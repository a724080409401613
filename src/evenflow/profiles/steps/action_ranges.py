"""Steps in profilers' timelines: ranges on the host that name the actions, and the work that was launched in them.

torch.distributed.pipelining names them ``PP:2F3`` (stage 2, forward, microbatch 3) or ``Forward 3`` and ``Backward 3``,
but for Schedule1F1B (see `pipelining_calls`); so may any training script. An action lasts from the first to the last
kernel that was launched in its range, on whatever thread, as autograd has one of its own; collectives and messages do
not count, since they wait for others.
"""

import re
import statistics
from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.steps.measured_step import MeasuredStep, TimedAction, measured_step
from evenflow.profiles.steps.pipelining_calls import check_order, is_call, named_ranges
from evenflow.profiles.traces.formats.chrome import read_chrome_ranges
from evenflow.profiles.traces.formats.launches import LaunchedRanges, LaunchScope
from evenflow.profiles.traces.formats.nsight import read_report_ranges
from evenflow.profiles.traces.names import BODY, LayerNames, Match, NameMatcher, names_there
from evenflow.profiles.traces.reader import is_report
from evenflow.profiles.traces.samples import UNSTABLE_STEPS
from evenflow.profiles.traces.trace_files import TraceFolder, trace_files
from evenflow.schedule import Action, Op

_WITH_STAGE = re.compile(r"(?:PP:)?(\d{1,4})([FBIW])(\d{1,6})", re.ASCII)
_WITHOUT_STAGE = re.compile(r"(Forward|Backward) (\d{1,6})", re.ASCII)
_SPANS = dict[Action, list[tuple[int, int]]]


class _ActionMatcher(NameMatcher):
    """Takes ranges that name an action, and calls that stand for one."""

    takes_functions = True

    def __init__(self) -> None:
        super().__init__(LayerNames())

    def __call__(self, scope: str) -> Match | None:
        is_action = _WITH_STAGE.fullmatch(scope) or _WITHOUT_STAGE.fullmatch(scope) or is_call(scope)
        return Match(BODY, scope) if is_action else None


def read_action_ranges(path: Path) -> MeasuredStep:
    """Return the step of median length in the traces of a folder, one for each rank (or in one report of all).

    Raises:
        InputError: a trace that is damaged, has no ranges of actions, or not all of them.
    """
    there = trace_files(path)
    _check_ranks(there, place=str(path))
    of_ranks = [ranges for file in there.files for ranges in _ranges_of(file.path)]
    ranks = [_spans_of(ranges, rank) for rank, ranges in enumerate(of_ranks)]
    ranks.sort(key=lambda spans: min(action.stage for action in spans))
    stage_ranks = _stage_ranks(ranks, place=str(path))
    counts = {len(times) for spans in ranks for times in spans.values()}
    if len(counts) != 1:
        raise InputError(
            value=f"{min(counts)}, {max(counts)}",
            rule=_("must have every action equally often, once in each step"),
            place=str(path),
            remedy=_("profile the same whole steps on every rank"),
        )
    (count,) = counts
    steps = range(min(UNSTABLE_STEPS, count - 1), count)
    lengths = {step: _length(ranks, step) for step in steps}
    median = statistics.median_low(lengths.values())
    chosen = next(step for step in steps if lengths[step] == median)
    notes = [_("Step {number}: of median length of {count}.", number=chosen + 1, count=len(steps))]
    notes += [there.missing_note(str(path))] if there.missing else []
    step = measured_step(
        [[TimedAction(*times[chosen], action) for action, times in spans.items()] for spans in ranks],
        stage_ranks,
        name=_("step {number} of the trace", number=chosen + 1),
        place=str(path),
        notes=notes,
    )
    if any(is_call(scope.match.name) for ranges in of_ranks for scope in ranges.scopes):
        check_order(step.timeline.schedule, place=str(path))
    return step


def _check_ranks(there: TraceFolder, *, place: str) -> None:
    """Refuse two traces of one rank."""
    ranks = Counter(file.rank for file in there.files if file.rank is not None)
    twice = next((rank for rank, count in sorted(ranks.items()) if count > 1), None)
    if twice is not None:
        raise InputError(
            value=[str(file.path) for file in there.files if file.rank == twice][:2],
            rule=_(
                "must have one trace of each rank; of rank {rank} there are {count}", rank=twice, count=ranks[twice]
            ),
            place=place,
            remedy=_("leave one of them there"),
        )


def _ranges_of(file: Path) -> list[LaunchedRanges]:
    """Return the ranges of every process in a file that has any of actions."""
    matcher = _ActionMatcher()
    if is_report(file):
        every = read_report_ranges(file, matcher, on_bytes=lambda _count: None)
    else:
        every = [read_chrome_ranges(file, matcher, on_bytes=lambda _count: None)]
    named = [replace(ranges, scopes=scopes) for ranges in every if (scopes := _named(ranges.scopes))]
    if not named:
        raise InputError(
            rule=_(
                "must have ranges that name the actions, such as PP:2F3; it has {there}",
                there=names_there(every[0].names),
            ),
            place=str(file),
            remedy=_(
                'put record_function("PP:2F3") (or an NVTX range) around the forward of microbatch 3 on stage 2, and B '
                "for its backward; torch.distributed.pipelining does so itself but for Schedule1F1B, whose calls "
                "torch.profiler records with with_stack=True"
            ),
        )
    return named


def _named(scopes: Sequence[LaunchScope]) -> Sequence[LaunchScope]:
    """Return the ranges that name actions; where none does, those of the calls that stand for them."""
    return [scope for scope in scopes if not is_call(scope.name)] or named_ranges(scopes)


def _spans_of(ranges: LaunchedRanges, rank: int) -> _SPANS:
    """Return when every action of a rank ran, once for each step, by the work that was launched in its ranges."""
    scopes = sorted(ranges.scopes, key=lambda scope: (scope.start_ns, -scope.end_ns))
    starts = [scope.start_ns for scope in scopes]
    first: dict[int, int] = {}
    last: dict[int, int] = {}
    work = ranges.work
    counted = np.flatnonzero(~work.is_collective)
    launches = zip(*(column[counted].tolist() for column in (work.launch_ns, work.start_ns, work.end_ns)), strict=True)
    for launch, start, end in launches:
        index = bisect_right(starts, launch) - 1
        if index >= 0 and launch < scopes[index].end_ns:
            first[index] = min(start, first.get(index, start))
            last[index] = max(end, last.get(index, end))
    if not first:
        raise InputError(
            value=scopes[0].name,
            rule=_("must have work that was launched in the ranges of the actions"),
            place=ranges.file,
            remedy=_("profile the host and the device together"),
        )
    spans: _SPANS = defaultdict(list)
    then = max(last.values())
    for index in reversed(range(len(scopes))):
        # Nothing runs in an input gradient that nobody needs: it takes no time, right before what runs next.
        span = (first[index], last[index]) if index in first else (then, then)
        spans[_action(scopes[index], rank)].insert(0, span)
        then = min(then, span[0])
    return dict(spans)


def _action(scope: LaunchScope, rank: int) -> Action:
    with_stage = _WITH_STAGE.fullmatch(scope.name)
    if with_stage is not None:
        return Action(int(with_stage[1]), Op[with_stage[2]], int(with_stage[3]))
    without = _WITHOUT_STAGE.fullmatch(scope.name)
    assert without is not None, "it was matched by one of the two"
    return Action(rank, Op.F if without[1] == "Forward" else Op.B, int(without[2]))


def _stage_ranks(ranks: Sequence[_SPANS], *, place: str) -> list[int]:
    """Return the rank of every stage; stages are numbered from 0, and each is on one rank."""
    owners: dict[int, int] = {}
    for rank, spans in enumerate(ranks):
        for stage in {action.stage for action in spans}:
            if stage in owners:
                raise InputError(
                    value=stage,
                    rule=_("must have every stage in one trace"),
                    place=place,
                    remedy=_("leave the traces of one pipeline there, one for each rank"),
                )
            owners[stage] = rank
    missing = next((stage for stage in range(len(owners)) if stage not in owners), None)
    chunks = {len({action.stage for action in spans}) for spans in ranks}
    if missing is not None or len(chunks) != 1:
        raise InputError(
            value=sorted(owners)[:12],
            rule=_("must have all stages from 0 on, equally many on every rank"),
            place=place,
            remedy=_("put the traces of all ranks of the pipeline there"),
        )
    return [owners[stage] for stage in range(len(owners))]


def _length(ranks: Sequence[_SPANS], step: int) -> int:
    """Return the time of the longest rank in a step, by its own clock."""
    return max(
        max(times[step][1] for times in spans.values()) - min(times[step][0] for times in spans.values())
        for spans in ranks
    )
