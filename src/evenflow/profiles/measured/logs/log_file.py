"""What the log of one process, or of several together, says of a run; read in a stream, whatever its size."""

import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from evenflow.errors import FileError
from evenflow.language import _
from evenflow.profiles.logs.log_lines import log_lines
from evenflow.profiles.measured.logs.log_format import LogFormat, LogFormats, PeakOf
from evenflow.profiles.measured.logs.stated import Stated
from evenflow.profiles.measured.logs.step_times import SteadyStep, StepTimes


@dataclass(slots=True)
class LoggedRun:
    """What a log says of one run."""

    formats: LogFormats
    stated: Stated = field(default_factory=Stated)
    times: dict[str, StepTimes] = field(default_factory=dict)
    """By the name of the format."""
    peaks: dict[PeakOf, dict[int | None, int]] = field(default_factory=dict)
    """The most bytes of every rank; None for a rank that is not said."""

    @property
    def format(self) -> LogFormat | None:
        """The first format with steady steps, or else with any."""
        logged = [log_format for log_format in self.formats.formats if log_format.name in self.times]
        return next(
            (log_format for log_format in logged if self.times[log_format.name].steady()), logged[0] if logged else None
        )

    @property
    def steady(self) -> SteadyStep | None:
        """The steady step; None without enough lines of progress."""
        return None if self.format is None else self.times[self.format.name].steady()

    def keep_peak(self, of: PeakOf, rank: int | None, size_bytes: int) -> None:
        """Take a peak of a rank, if it is the largest."""
        by_rank = self.peaks.setdefault(of, {})
        by_rank[rank] = max(size_bytes, by_rank.get(rank, 0))

    @property
    def is_empty(self) -> bool:
        """Whether nothing is known."""
        return not (self.stated.texts or self.times or self.peaks)


@dataclass(frozen=True, slots=True, kw_only=True)
class LogFile:
    """A log, with the last of its runs that has steady steps, or else the last."""

    path: Path
    run: LoggedRun


def read_log(path: Path, *, formats: LogFormats) -> LogFile:
    """Read a log that may have any of the formats.

    Raises:
        InputError: a file that cannot be read, or a size of memory in it that cannot be.
    """
    try:
        kind = path.stat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind) or stat.S_ISDIR(kind)):
            raise FileError(path, reason=_("it is not a file"))
        with path.open("rb") as file:
            return LogFile(path=path, run=parse_log(log_lines(file), place=str(path), formats=formats))
    except (OSError, ValueError) as error:
        raise FileError.from_os(path, error) from None


def parse_log(lines: Iterable[str], *, place: str, formats: LogFormats) -> LoggedRun:
    """Return what the lines of a log say of the last run in them that has steady steps, or else of the last."""
    complete: LoggedRun | None = None
    run, is_configuring = LoggedRun(formats=formats), True
    for line in lines:
        if not is_configuring and any(beginning in line for beginning in formats.beginnings):
            complete = run if run.steady else complete
            run, is_configuring = LoggedRun(formats=formats), True
        if _takes_step(run, line):
            is_configuring = False
        elif is_configuring:
            _take_configuration(run, line)
        for log_format in formats.formats:
            for peak in log_format.peaks(line, place):
                run.keep_peak(peak.of, peak.rank, peak.size_bytes)
    if complete is None or run.steady is not None:
        return run
    if not complete.stated.texts:  # ranks one after the other, and not the first one first
        complete.stated = run.stated
        for of, by_rank in run.peaks.items():
            for rank, size in by_rank.items():
                complete.keep_peak(of, rank, size)
    return complete


def _takes_step(run: LoggedRun, line: str) -> bool:
    for log_format in run.formats.formats:
        step = log_format.step(line)
        if step is not None:
            run.times.setdefault(log_format.name, StepTimes()).add(step)
            return True
    return False


def _take_configuration(run: LoggedRun, line: str) -> None:
    for name, text in run.formats.names.pairs(line):
        run.stated.state(name, text)
    for log_format in run.formats.formats:
        for name, text in log_format.sentences(line):
            run.stated.state(name, text)
