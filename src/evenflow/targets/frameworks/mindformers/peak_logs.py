"""Peak memory of every stage from the logs of MindSpore's dry runs. [SAPP guide, 使用DryRun获取内存数据]

A dry run writes a log for each stage, in a folder with the numbers of the stage and of its first rank. Both forms of
the folder's name are in use, and ``grep -rn`` over the logs says the same in one text::

    stage_3_rank_3072/mindformer.log:5470:Actual peak memory usage (with fragments): 54533M
    log/stage3_3072/mindformer.log:5470:Used peak memory usage (without fragments): 54533M

The last line of a stage counts. `actual` peaks include what the allocator loses to fragments, `used` peaks are what
tensors take.
"""

import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from evenflow.errors import FileError, InputError
from evenflow.fields import shortened
from evenflow.language import _
from evenflow.profiles.logs.log_lines import LONGEST_LINE
from evenflow.profiles.logs.stage_peaks import PeakKind, peaks_in_order
from evenflow.units import parse_memory

_BLOCK_BYTES = 1 << 20
_NUMBER = r"([0-9]{1,12}(?:\.[0-9]{1,12})?)"
_STAGE_FOLDER = re.compile(r"stage_?([0-9]{1,6})(?:_rank)?_[0-9]{1,9}")
_STAGE_PATH = re.compile(rf"(?:^|[/\\])({_STAGE_FOLDER.pattern}[/\\][^:]*):")
_PEAK = re.compile(
    rf"(Actual|Used) peak memory usage \((?:with|without) fragments\):\s*{_NUMBER}\s*([A-Za-z]*)",
)
_ERRORS = ("ERROR", "CRITICAL", "Error: ", "Exception: ")
"""Parts of a line that says why a dry run failed."""
_MOST_SHOWN = 200


def read_peak_folder(folder: Path, *, kind: PeakKind = PeakKind.ACTUAL) -> tuple[int, ...]:
    """Return the peak bytes of each stage, from a folder with a folder of one ``*.log`` for each stage, at any depth.

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
            rule=_("must have a folder for each stage, such as stage_0_rank_0"),
            place=str(folder),
            remedy=_("name the folder above it: this is that of one stage") if above else _("run scripts/dryrun.sh"),
        )
    return peaks_in_order(
        {stage: _last_peak(_only_log(path), kind) for stage, path in folders.items()}, place=str(folder)
    )


def parse_peak_lines(lines: Iterable[str], *, place: str, kind: PeakKind = PeakKind.ACTUAL) -> tuple[int, ...]:
    """Return the peak bytes of each stage, from what ``grep -rn`` found in the logs of dry runs.

    Raises:
        InputError: no such line, one whose path does not name its stage, two logs of a stage, or a stage missing.
    """
    peaks: dict[int, int] = {}
    logs: dict[int, str] = {}
    has_other = is_megatron = False
    for line in lines:
        in_line = _peaks_in(line, kind)
        if not in_line:
            has_other = has_other or any(other.line in line for other in PeakKind)
            is_megatron = is_megatron or "max reserved: " in line
            continue
        path = _STAGE_PATH.search(line)
        if path is None:
            raise InputError(
                value=shortened(line.strip(), length=_MOST_SHOWN),
                rule=_(
                    "must begin every line with the path of a log that names the stage: stage_0_rank_0/mindformer.log"
                ),
                place=place,
                remedy=_("give the folder of the logs, or what grep -rn found in it"),
            )
        stage = int(path[2])
        if logs.setdefault(stage, path[1]) != path[1]:
            raise _twice(stage, logs[stage], path[1], place=place)
        peaks[stage] = _bytes(in_line[-1], place=place)
    if not peaks:
        raise _no_peak(kind, has_other=has_other, is_megatron=is_megatron, place=place)
    return peaks_in_order(peaks, place=place)


def peaks_in_line(line: str, *, place: str) -> Iterator[tuple[PeakKind, int]]:
    """Yield the kinds and bytes of the peaks in a line of a log."""
    for kind in PeakKind:
        for match in _peaks_in(line, kind):
            yield kind, _bytes(match, place=place)


def _only_log(folder: Path) -> Path:
    logs = sorted(folder.rglob("*.log"))
    if not logs:
        raise InputError(rule=_("must have a *.log"), place=str(folder), remedy=_("run the dry run of this stage"))
    if len(logs) > 1:
        raise InputError(
            value=[str(log.relative_to(folder)) for log in logs[:10]],
            rule=_("must have one *.log"),
            place=str(folder),
            remedy=_("keep the log of the dry run whose peak counts"),
        )
    return logs[0]


def _last_peak(log: Path, kind: PeakKind) -> int:
    """Return the bytes in the last line of `kind`."""
    error = last = ""
    try:
        for line in _lines_from_end(log):
            peaks = _peaks_in(line, kind)
            if peaks:
                return _bytes(peaks[-1], place=str(log))
            last = last or line.strip()
            if not error and any(word in line for word in _ERRORS):
                error = line.strip()
    except OSError as problem:
        raise FileError.from_os(log, problem) from None
    shown = shortened(error or last, length=_MOST_SHOWN)
    if error:
        end = _("its last error is {shown!r}", shown=shown)
    else:
        end = _("its last line is {shown!r}", shown=shown) if last else _("the log is empty")
    raise InputError(
        rule=_(
            "must have a line with {line!r}, but the dry run failed or is not finished: {end}", line=kind.line, end=end
        ),
        place=str(log),
        remedy=_("run it again"),
    )


def _lines_from_end(path: Path) -> Iterator[str]:
    """Yield the lines of a file, the last one first."""
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
            if len(rest) > LONGEST_LINE:
                yield rest.decode(errors="replace")
                rest = b""
        yield rest.decode(errors="replace")


def _peaks_in(line: str, kind: PeakKind) -> list[re.Match[str]]:
    """Return the peaks of `kind` in a line; most lines have none, which is quick to see."""
    if kind.line not in line:
        return []
    return [match for match in _PEAK.finditer(line) if match[1] == kind.value]


def _bytes(match: re.Match[str], *, place: str) -> int:
    """Return the bytes of a size such as ``96643M``; MindSpore leaves the B of the unit out."""
    number, unit = match[2], match[3]
    size = f"{number}{unit}B" if unit in {"K", "M", "G", "T"} else f"{number}{unit}"
    return parse_memory(size, place=_("{place}: the peak memory", place=place))


def _twice(stage: int, first: str, second: str, *, place: str) -> InputError:
    """Return the refusal of two logs of one stage."""
    rule = _("must have one log for each stage, and stage {stage} has two", stage=stage)
    return InputError(value=[first, second], rule=rule, place=place, remedy=_("remove the old one"))


def _no_peak(kind: PeakKind, *, has_other: bool, is_megatron: bool, place: str) -> InputError:
    """Return the refusal of a text without peaks of `kind`, with what it may be instead."""
    remedy = ""
    if is_megatron:
        remedy = _("give --ranks-per-stage (all ranks / pipeline ranks): these are lines of Megatron-LM")
    elif has_other:
        remedy = (
            _("give --used: only the other peaks are there")
            if kind is PeakKind.ACTUAL
            else _("leave --used out: only the other peaks are there")
        )
    return InputError(rule=_("must have lines with {line!r}", line=kind.line), place=place, remedy=remedy)
