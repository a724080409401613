"""What the log of one process, or of several together, says of a run; read in a stream, whatever its size."""

import stat
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from evenflow.errors import FileError
from evenflow.language import _
from evenflow.profiles.logs.log_lines import log_lines
from evenflow.profiles.measured.logs.deepspeed import DEEPSPEED
from evenflow.profiles.measured.logs.log_format import LogFormat, PeakOf
from evenflow.profiles.measured.logs.megatron import MEGATRON, MEGATRON_BRIDGE
from evenflow.profiles.measured.logs.mindformers import MINDFORMERS
from evenflow.profiles.measured.logs.nemo import NEMO
from evenflow.profiles.measured.logs.stated import Names, Stated
from evenflow.profiles.measured.logs.step_times import SteadyStep, StepTimes
from evenflow.profiles.measured.logs.torchtitan import TORCHTITAN

FORMATS = (MEGATRON, TORCHTITAN, MINDFORMERS, NEMO, MEGATRON_BRIDGE, DEEPSPEED)
"""Where a log has lines of several, as Megatron-DeepSpeed's have, the first counts."""
_NAMES = Names(name for each in FORMATS for name in each.names)
_BEGINNINGS = (
    "-- arguments --",
    "Starting job: ",
    "Running with args: ",
    "Running with configs: ",
    "Trainer Init Success",
)
"""What frameworks say when a run begins."""


@dataclass(slots=True)
class LoggedRun:
    """What a log says of one run."""

    stated: Stated = field(default_factory=Stated)
    times: dict[str, StepTimes] = field(default_factory=dict)
    """By the name of the format."""
    peaks: dict[PeakOf, dict[int | None, int]] = field(default_factory=dict)
    """The most bytes of every rank; None for a rank that is not said."""

    @property
    def format(self) -> LogFormat | None:
        """The first format with steady steps, or else with any."""
        logged = [each for each in FORMATS if each.name in self.times]
        return next((each for each in logged if self.times[each.name].steady()), logged[0] if logged else None)

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


def read_log(path: Path) -> LogFile:
    """Read a log.

    Raises:
        InputError: a file that cannot be read, or a size of memory in it that cannot be.
    """
    try:
        kind = path.stat().st_mode
        if not (stat.S_ISREG(kind) or stat.S_ISFIFO(kind) or stat.S_ISDIR(kind)):
            raise FileError(path, reason=_("it is not a file"))
        with path.open("rb") as file:
            return LogFile(path=path, run=parse_log(log_lines(file), place=str(path)))
    except (OSError, ValueError) as error:
        raise FileError.from_os(path, error) from None


def parse_log(lines: Iterable[str], *, place: str) -> LoggedRun:
    """Return what the lines of a log say of the last run in them that has steady steps, or else of the last."""
    complete: LoggedRun | None = None
    run, is_configuring = LoggedRun(), True
    for line in lines:
        if not is_configuring and any(beginning in line for beginning in _BEGINNINGS):
            complete = run if run.steady else complete
            run, is_configuring = LoggedRun(), True
        if _takes_step(run, line):
            is_configuring = False
        elif is_configuring:
            _take_configuration(run.stated, line)
        for each in FORMATS:
            for peak in each.peaks(line, place):
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
    for each in FORMATS:
        step = each.step(line)
        if step is not None:
            run.times.setdefault(each.name, StepTimes()).add(step)
            return True
    return False


def _take_configuration(stated: Stated, line: str) -> None:
    for name, text in _NAMES.pairs(line):
        stated.state(name, text)
    for each in FORMATS:
        for name, text in each.sentences(line):
            stated.state(name, text)
