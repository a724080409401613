"""Steps in profilers' timelines: the ranges that are actions, and the work that was launched in them.

Which ranges are actions is told by their names (see `action_names`); where no trace has any, forwards and backwards are
told by what autograd launched (see `guessed_ranges`). An action lasts from the first to the last kernel that was
launched in its range, on whatever thread, as autograd has one of its own; collectives and messages do not count, since
they wait for others.
"""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from evenflow.errors import InputError
from evenflow.language import _, looked_up
from evenflow.profiles.steps.action_names import NAMINGS, READ_NUMBERED, ActionMatcher, ActionName, Naming
from evenflow.profiles.steps.guessed_ranges import guessed_ranges, without_nested
from evenflow.profiles.steps.measured_step import MeasuredStep
from evenflow.profiles.steps.observed_step import ObservedStep
from evenflow.profiles.steps.pair_pieces import joined_pieces
from evenflow.profiles.steps.pipelining_calls import is_call, named_ranges
from evenflow.profiles.steps.rank_ranges import RankRanges, rank_ranges
from evenflow.profiles.steps.step_of_ranks import Told, step_of_ranks
from evenflow.profiles.traces.formats.chrome import read_chrome_ranges
from evenflow.profiles.traces.formats.launches import LaunchedRanges, LaunchScope
from evenflow.profiles.traces.formats.nsight import read_report_ranges
from evenflow.profiles.traces.names import names_there
from evenflow.profiles.traces.reader import is_report
from evenflow.profiles.traces.trace_files import TraceFolder, trace_files

_RANK = re.compile(r"\brank[ _-]?([0-9]{1,6})\b", re.IGNORECASE)
_Named = list[tuple[LaunchScope, ActionName]]


def read_action_ranges(path: Path, naming: Naming | None = None) -> MeasuredStep | ObservedStep:
    """Return the step of median length in the traces of a folder, one for each rank (or in one report of all).

    `naming` says how actions are named; None: in one of the ways that are known, or not at all.

    Raises:
        InputError: a trace that is damaged, has nothing that tells actions, or not all of them.
    """
    there = trace_files(path)
    _check_ranks(there, place=str(path))
    namings = NAMINGS if naming is None else (naming,)
    matcher = ActionMatcher(namings)
    processes = [
        (ranges, file.rank) for file in there.files for ranges in _processes_of(file.path, matcher, namings=namings)
    ]
    notes = [there.missing_note(str(path))] if there.missing else []
    known = next((way for way in namings if all(_by(way, ranges) for ranges, _rank in processes)), None)
    if known is not None:
        ranks = [
            _joined(rank_ranges(ranges, _by(known, ranges), rank=_rank_of(ranges, rank)), ranges.scopes)
            for ranges, rank in processes
        ]
        return step_of_ranks(ranks, told=Told(title=looked_up(known.title)), place=str(path), notes=notes)
    if all(_calls(ranges) for ranges, _rank in processes):
        ranks = [rank_ranges(ranges, _calls(ranges), rank=rank) for ranges, rank in processes]
        told = Told(title=_("calls of Schedule1F1B of torch.distributed.pipelining"), schedule="1f1b")
        return step_of_ranks(ranks, told=told, place=str(path), notes=notes)
    unnamed = next(ranges for ranges, _rank in processes if not any(_by(way, ranges) for way in namings))
    guesses = [guessed_ranges(ranges, rank=rank) for ranges, rank in processes]
    if naming is not None or None in guesses or any(_by(way, ranges) for way in namings for ranges, _rank in processes):
        raise _nothing_named(unnamed, naming)
    if any(ranges.nodes for ranges, _rank in processes):
        title = _("the work that autograd launched, and the messages between")
    else:
        title = _("the names of kernels, and the messages between")
    told = Told(title=title, is_guess=True)
    return step_of_ranks([guess for guess in guesses if guess is not None], told=told, place=str(path), notes=notes)


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


def _processes_of(file: Path, matcher: ActionMatcher, *, namings: Sequence[Naming]) -> list[LaunchedRanges]:
    """Return the processes of a file that have ranges of actions; where none has, all that launched work."""
    if is_report(file):
        every = read_report_ranges(file, matcher, on_bytes=lambda _count: None)
    else:
        every = read_chrome_ranges(file, matcher, on_bytes=lambda _count: None)
    named = [ranges for ranges in every if _calls(ranges) or any(_by(way, ranges) for way in namings)]
    return named or every


def _by(naming: Naming, ranges: LaunchedRanges) -> _Named:
    """Return the ranges of a process that are named in one way, with what their names say."""
    return [(scope, name) for scope in ranges.scopes if (name := naming.read(scope.name)) is not None]


def _calls(ranges: LaunchedRanges) -> _Named:
    """Return the calls of Schedule1F1B that stand for actions."""
    scopes = named_ranges(scope for scope in ranges.scopes if is_call(scope.name))
    return [(scope, name) for scope in scopes if (name := READ_NUMBERED(scope.name)) is not None]


def _rank_of(ranges: LaunchedRanges, rank: int | None) -> int | None:
    """Return the rank of a process: by its label, as evenflow and simulators name it, else by its file."""
    label = _RANK.search(ranges.label)
    return int(label[1]) if label is not None else rank


def _joined(ranges: RankRanges, scopes: Sequence[LaunchScope]) -> RankRanges:
    """Return the actions of a process without those inside others, and with their pieces joined."""
    if any(item.name.is_piece for item in ranges.ranges):
        return replace(ranges, ranges=joined_pieces(ranges.ranges, scopes, place=ranges.file))
    return without_nested(ranges)


def _nothing_named(ranges: LaunchedRanges, naming: Naming | None) -> InputError:
    if naming is not None:
        remedy = _("write a regular expression that matches the names of its actions")
    else:
        remedy = _(
            'put record_function("PP:2F3") (or an NVTX range) around the forward of microbatch 3 on stage 2, and B '
            "for its backward, or say with --actions REGEX how the trace names them; torch.distributed.pipelining "
            "does so itself but for Schedule1F1B, whose calls torch.profiler records with with_stack=True"
        )
    return InputError(
        rule=_(
            "must have ranges that name the actions, such as PP:2F3; it has {there}", there=names_there(ranges.names)
        ),
        place=ranges.file,
        remedy=remedy,
    )
