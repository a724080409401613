"""Peak memory of every stage from logs: MindSpore's dry runs, and Megatron-LM's training. [SAPP guide]

A dry run writes a log for each stage, in a folder with the numbers of the stage and of its first rank. Both forms of
the folder's name are in use, and ``grep -rn`` over the logs says the same in one text::

    stage_3_rank_3072/mindformer.log:5470:Actual peak memory usage (with fragments): 54533M
    log/stage3_3072/mindformer.log:5470:Used peak memory usage (without fragments): 54533M

Megatron-LM writes one line for each rank that is the first of its data-parallel group, on the output of the whole job::

    [Rank 8] (after 2 iterations) memory (MB) | allocated: 3.0 | max allocated: 5.5 | reserved: 6.0 | max reserved: 6.0

The last line of a stage (of a rank) counts. `actual` peaks include what the allocator loses to fragments, `used` peaks
are what tensors take: reserved and allocated memory in the words of Megatron-LM.
"""

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from pathlib import Path

from evenflow.errors import InputError
from evenflow.units import megabytes, parse_memory

_BLOCK_BYTES = 1 << 20
_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,12})?)"
_STAGE_FOLDER = re.compile(r"stage_?([0-9]{1,6})(?:_rank)?_[0-9]{1,9}")
_STAGE_PATH = re.compile(rf"(?:^|[/\\])({_STAGE_FOLDER.pattern}[/\\][^:]*):")
_MINDSPORE = re.compile(
    rf"(Actual|Used) peak memory usage \((?:with|without) fragments\):\s*{_NUMBER}\s*([A-Za-z]*)",
)
_MEGATRON = re.compile(
    r"\[Rank ([0-9]{1,6})\] [^|\[]*memory \(MB\) \| allocated: [0-9.]+"
    rf" \| max allocated: {_NUMBER} \| reserved: [0-9.]+ \| max reserved: {_NUMBER}"
)
_ERRORS = ("ERROR", "CRITICAL", "Error: ", "Exception: ")
"""What a line has that says why a dry run failed."""


class PeakKind(Enum):
    """Which of the two peaks in the logs; the value is the first word of MindSpore's line."""

    ACTUAL = "Actual"
    """With fragments: what the device must hold."""
    USED = "Used"
    """Without fragments: what the tensors take."""

    @property
    def line(self) -> str:
        """The beginning of MindSpore's line."""
        return f"{self.value} peak memory usage"


def read_peak_folder(folder: Path, *, kind: PeakKind = PeakKind.ACTUAL) -> tuple[int, ...]:
    """Peak bytes by stage, from a folder with a folder for each stage, at any depth, that has one ``*.log`` each.

    Logs are read from their end, so their size does not matter.

    Raises:
        InputError: no folder of a stage, one missing, two for a stage, none or several logs in one, or a log without
            the line (then with the last error in it).
    """
    folders: dict[int, Path] = {}
    for path in sorted(folder.rglob("stage*")):
        match = _STAGE_FOLDER.fullmatch(path.name)
        if match is None or not path.is_dir():
            continue
        stage = int(match[1])
        if stage in folders:
            raise _twice(stage, str(folders[stage]), str(path), place=str(folder))
        folders[stage] = path
    if not folders:
        above = _STAGE_FOLDER.fullmatch(folder.name) is not None
        raise InputError(
            value=str(folder),
            rule="the folder has a folder for each stage, such as stage_0_rank_0",
            place=str(folder),
            remedy="this is the folder of one stage: name the one above it" if above else "run scripts/dryrun.sh",
        )
    return _in_order({stage: _last_peak(_only_log(path), kind) for stage, path in folders.items()}, place=str(folder))


def parse_peak_lines(lines: Iterable[str], *, place: str, kind: PeakKind = PeakKind.ACTUAL) -> tuple[int, ...]:
    """Peak bytes by stage, from what ``grep -rn`` found in the logs of dry runs.

    Raises:
        InputError: no such line, one whose path does not name its stage, two logs of a stage, or a stage missing.
    """
    peaks: dict[int, int] = {}
    logs: dict[int, str] = {}
    others = ranks = False
    for line in lines:
        found = _peaks_in(line, kind)
        if not found:
            others = others or any(other.line in line for other in PeakKind)
            ranks = ranks or "max reserved: " in line
            continue
        path = _STAGE_PATH.search(line)
        if path is None:
            raise InputError(
                value=_short(line),
                rule="the line begins with the log's path, which names the stage: stage_0_rank_0/mindformer.log",
                place=place,
                remedy="give the folder of the logs, or what grep -rn found in it",
            )
        stage = int(path[2])
        if logs.setdefault(stage, path[1]) != path[1]:
            raise _twice(stage, logs[stage], path[1], place=place)
        peaks[stage] = _bytes(found[-1], place=place)
    if not peaks:
        raise _nothing_found(kind, only_other=others, megatron=ranks, place=place)
    return _in_order(peaks, place=place)


def parse_rank_lines(
    lines: Iterable[str], *, ranks_per_stage: int, place: str, kind: PeakKind = PeakKind.ACTUAL
) -> tuple[int, ...]:
    """Peak bytes by stage, the most of any of its ranks, from the output of a Megatron-LM job.

    Rank r belongs to stage ``r // ranks_per_stage``: the pipeline is the outermost of Megatron-LM's groups.

    Raises:
        InputError: no such line, or a stage missing.
    """
    by_rank: dict[int, int] = {}
    for line in lines:
        for match in _MEGATRON.finditer(line):
            by_rank[int(match[1])] = parse_memory(
                match[3 if kind is PeakKind.ACTUAL else 2], place=f"{place}: the peak memory"
            )
    if not by_rank:
        raise InputError(
            value=0,
            rule="lines such as '[Rank 0] (after 2 iterations) memory (MB) | allocated: …'",
            place=place,
            remedy="they come with the first line of training progress: train until --log-interval",
        )
    peaks: dict[int, int] = {}
    for rank, peak in by_rank.items():
        stage = rank // ranks_per_stage
        peaks[stage] = max(peak, peaks.get(stage, 0))
    return _in_order(peaks, place=place)


def format_memory_usage(rounds: Sequence[Sequence[int]]) -> str:
    """The ``memory_usage`` block of an init file, in MB, from the peak bytes by stage of one or several rounds.

    Head and tail are those of the first round; with several rounds the lists become lists of lists. [SAPP guide]

    Raises:
        InputError: fewer than three stages, or rounds with different numbers of them.
    """
    stages = len(rounds[0])
    if stages < 3:
        raise InputError(
            value=stages,
            rule="peaks of three stages or more: the first, the last, and one between",
            place="round 1",
            remedy="do the dry runs that evenflow guide gives",
        )
    for number, peaks in enumerate(rounds, start=1):
        if len(peaks) != stages:
            rule = f"every round has the {stages} stages of the first"
            raise InputError(value=len(peaks), rule=rule, place=f"round {number}")
    in_mb = [[round(megabytes(peak)) for peak in peaks] for peaks in rounds]
    bodies = [_flow(peaks[1:-1]) for peaks in in_mb]
    ids = [_flow(range(1, stages - 1))] * len(rounds)
    several = len(rounds) > 1
    return (
        "memory_usage:\n"
        f"  head_memory: {in_mb[0][0]}\n"
        f"  tail_memory: {in_mb[0][-1]}\n"
        "  body_memories:\n"
        f"    stage_id: {_flow(ids) if several else ids[0]}\n"
        f"    memories: {_flow(bodies) if several else bodies[0]}\n"
    )


def _flow(values: Iterable[object]) -> str:
    return f"[{','.join(map(str, values))}]"


def _in_order(peaks: Mapping[int, int], *, place: str) -> tuple[int, ...]:
    """The peaks of stages 0 to the last one seen, all of which must be there."""
    last = max(peaks)
    missing = [stage for stage in range(last) if stage not in peaks]
    if missing:
        names = ", ".join(map(str, missing[:10])) + (", …" if len(missing) > 10 else "")
        raise InputError(
            value=len(peaks),
            rule=f"a log of every stage from 0 to {last}; there is none of {names}",
            place=place,
            remedy="run the missing ones",
        )
    return tuple(peaks[stage] for stage in range(last + 1))


def _only_log(folder: Path) -> Path:
    logs = sorted(folder.rglob("*.log"))
    if not logs:
        raise InputError(
            value=str(folder), rule="the folder of a stage has a *.log", place=str(folder), remedy="run its dry run"
        )
    if len(logs) > 1:
        raise InputError(
            value=[str(log.relative_to(folder)) for log in logs[:10]],
            rule="the folder of a stage has one *.log",
            place=str(folder),
            remedy="keep the log of the dry run whose peak counts",
        )
    return logs[0]


def _last_peak(log: Path, kind: PeakKind) -> int:
    """Bytes in the last line of `kind`."""
    error = last = ""
    try:
        for line in _lines_from_end(log):
            found = _peaks_in(line, kind)
            if found:
                return _bytes(found[-1], place=str(log))
            last = last or line.strip()
            if not error and any(word in line for word in _ERRORS):
                error = line.strip()
    except OSError as problem:
        reason = problem.strerror or str(problem)
        raise InputError(value=str(log), rule=f"the file can be read ({reason})", place=str(log)) from None
    described = "last error" if error else "last line"
    raise InputError(
        value=_short(error or last),
        rule=f"no line has {kind.line!r}: the dry run failed or is not finished",
        place=str(log),
        remedy=f"the value is its {described}" if last else "the log is empty",
    )


def _lines_from_end(path: Path) -> Iterator[str]:
    """The lines of a file, the last one first."""
    with path.open("rb") as file:
        position = file.seek(0, os.SEEK_END)
        rest = b""
        while position > 0:
            start = max(0, position - _BLOCK_BYTES)
            file.seek(start)
            rest, *lines = (file.read(position - start) + rest).split(b"\n")
            position = start
            for line in reversed(lines):
                yield line.decode(errors="replace")
        yield rest.decode(errors="replace")


def _peaks_in(line: str, kind: PeakKind) -> list[re.Match[str]]:
    """The peaks of `kind` that a line has; most lines have none, which is seen at a glance."""
    if kind.line not in line:
        return []
    return [match for match in _MINDSPORE.finditer(line) if match[1] == kind.value]


def _bytes(match: re.Match[str], *, place: str) -> int:
    """Bytes of a size such as ``96643M``; MindSpore leaves the B of the unit out."""
    number, unit = match[2], match[3]
    size = f"{number}{unit}B" if unit in {"K", "M", "G", "T"} else f"{number}{unit}"
    return parse_memory(size, place=f"{place}: the peak memory")


def _twice(stage: int, first: str, second: str, *, place: str) -> InputError:
    return InputError(
        value=[first, second], rule=f"one log a stage; stage {stage} has two", place=place, remedy="remove the old one"
    )


def _nothing_found(kind: PeakKind, *, only_other: bool, megatron: bool, place: str) -> InputError:
    remedy = ""
    if megatron:
        remedy = "these are lines of Megatron-LM: give --ranks-per-stage (all ranks / pipeline ranks)"
    elif only_other:
        remedy = "only the others are there: " + ("give --used" if kind is PeakKind.ACTUAL else "leave --used out")
    return InputError(value=0, rule=f"lines with {kind.line!r}", place=place, remedy=remedy)


def _short(line: str) -> str:
    return line.strip() if len(line) <= 200 else line.strip()[:197] + "..."
