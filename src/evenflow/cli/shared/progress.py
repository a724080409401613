"""Progress on stderr: one live line on a terminal, elsewhere a line now and then."""

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from functools import partial
from math import isfinite
from typing import Generic, Protocol, TypeVar

from rich.console import Console
from rich.text import Text

from evenflow.cli.standard_streams import filtered, live_console
from evenflow.language import _
from evenflow.plain_text import on_one_line
from evenflow.solve import Progress, ProgressCallback
from evenflow.tune.search import TuningProgress
from evenflow.units import milliseconds

SECONDS_BETWEEN_LINES = 2.0
"""Least seconds between two lines where there is no terminal."""

SPINNER_WIDTH = 3


class _Timed(Protocol):
    @property
    def seconds(self) -> float: ...


_Report = TypeVar("_Report", bound=_Timed)


@contextmanager
def shown_progress(*, time_limit_s: float, quiet: bool = False) -> Iterator[ProgressCallback | None]:
    """Give a callback for `evenflow.plan` that shows the progress while the block runs; None when `quiet`."""
    if quiet:
        yield None
        return
    text = partial(progress_text, time_limit_s=time_limit_s)
    with _shown(text, lambda progress: (progress.makespan_ns, progress.lower_bound_ns)) as callback:
        yield callback


@contextmanager
def shown_tuning(*, time_limit_s: float) -> Iterator[Callable[[TuningProgress], None]]:
    """Give a callback for `evenflow.tune` that shows the progress while the block runs."""
    text = partial(tuning_text, time_limit_s=time_limit_s)
    with _shown(
        text, lambda progress: (progress.best_ns, progress.lower_bound_ns, progress.refuted, progress.solved)
    ) as callback:
        yield callback


@contextmanager
def _shown(text: Callable[[_Report], str], state: Callable[[_Report], Hashable]) -> Iterator[Callable[[_Report], None]]:
    """Give a callback that shows reports as `text`; without a terminal only those whose `state` is new."""
    console = live_console()
    if not console.is_terminal:
        yield _Lines(console, text, state)
        return
    with filtered(console.status(_("starting"))) as status:
        yield lambda report: status.update(_one_line(text(report), width=console.width - SPINNER_WIDTH))


def progress_text(progress: Progress, *, time_limit_s: float) -> str:
    """Return one line: time, phase, best plan, bound and gap."""
    parts = [_time(progress.seconds, time_limit_s), progress.phase]
    if progress.makespan_ns is not None:
        parts.append(_("best {ms:,.3f} ms", ms=milliseconds(progress.makespan_ns)))
    if progress.lower_bound_ns > 0:
        parts.append(_("bound {ms:,.3f} ms", ms=milliseconds(progress.lower_bound_ns)))
        if progress.makespan_ns:
            parts.append(_("gap {percent:.2f} %", percent=100 * (1 - progress.lower_bound_ns / progress.makespan_ns)))
    return "  ".join(parts)


def tuning_text(progress: TuningProgress, *, time_limit_s: float) -> str:
    """Return one line: time, configurations refuted, solved and left, best step and bound on all."""
    parts = [
        _time(progress.seconds, time_limit_s),
        _(
            "{refuted:,} refuted, {solved:,} solved, {left:,} left",
            refuted=progress.refuted,
            solved=progress.solved,
            left=progress.left,
        ),
    ]
    if isfinite(progress.best_ns):
        parts.append(_("best {ms:,.3f} ms", ms=progress.best_ns / 1e6))
    if progress.lower_bound_ns > 0 and isfinite(progress.lower_bound_ns):
        parts.append(_("bound {ms:,.3f} ms", ms=progress.lower_bound_ns / 1e6))
    return "  ".join(parts)


def _time(seconds: float, time_limit_s: float) -> str:
    """Return the time that is over, and which share that is of the time limit."""
    share = min(1.0, seconds / time_limit_s) if time_limit_s > 0 else 1.0
    return f"{seconds:6.1f} s ({100 * share:.0f} %)"


def _one_line(line: str, *, width: int) -> Text:
    """Return a line as plain text (a bracket is no markup), cut where the terminal ends."""
    text = Text(on_one_line(line))
    text.truncate(width, overflow="ellipsis")
    return text


class _Lines(Generic[_Report]):
    """A callback that prints what is new, at most every few seconds."""

    def __init__(self, console: Console, text: Callable[[_Report], str], state: Callable[[_Report], Hashable]) -> None:
        self._console, self._text, self._state = console, text, state
        self._shown: Hashable = None
        self._shown_at = -SECONDS_BETWEEN_LINES

    def __call__(self, progress: _Report) -> None:
        state = self._state(progress)
        if state == self._shown or progress.seconds < self._shown_at + SECONDS_BETWEEN_LINES:
            return
        self._shown, self._shown_at = state, progress.seconds
        self._console.print(on_one_line(self._text(progress)), markup=False, soft_wrap=True)


@contextmanager
def shown_step(first: str) -> Iterator[Callable[[str], None]]:
    """Give a callback that shows which step of the work runs, on a terminal only; `first` is shown at once."""
    console = live_console(markup=False)
    if not console.is_terminal:
        yield lambda _step: None
        return
    with filtered(console.status(first)) as status:
        yield status.update
