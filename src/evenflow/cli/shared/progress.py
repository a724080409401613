"""Progress on stderr: one live line on a terminal, elsewhere a line now and then."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.text import Text

from evenflow.language import _
from evenflow.solve import Progress, ProgressCallback
from evenflow.units import milliseconds

SECONDS_BETWEEN_LINES = 2.0
"""Least seconds between two lines where there is no terminal."""

SPINNER_WIDTH = 3


@contextmanager
def shown_progress(*, quiet: bool = False) -> Iterator[ProgressCallback | None]:
    """Give a callback for `evenflow.plan` that shows the progress while the block runs; None when `quiet`."""
    if quiet:
        yield None
        return
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        yield _Lines(console)
        return
    with console.status(_("starting")) as status:
        yield lambda progress: status.update(_one_line(progress, width=console.width - SPINNER_WIDTH))


def progress_text(progress: Progress) -> str:
    """Return one line: time, phase, best plan, bound and gap."""
    parts = [f"{progress.seconds:6.1f} s", progress.phase]
    if progress.makespan_ns is not None:
        parts.append(_("best {ms:,.3f} ms", ms=milliseconds(progress.makespan_ns)))
    if progress.lower_bound_ns > 0:
        parts.append(_("bound {ms:,.3f} ms", ms=milliseconds(progress.lower_bound_ns)))
        if progress.makespan_ns:
            parts.append(_("gap {percent:.2f} %", percent=100 * (1 - progress.lower_bound_ns / progress.makespan_ns)))
    return "  ".join(parts)


def _one_line(progress: Progress, *, width: int) -> Text:
    """Return the line as plain text (a bracket is no markup), cut where the terminal ends."""
    text = Text(progress_text(progress))
    text.truncate(width, overflow="ellipsis")
    return text


class _Lines:
    """A callback that prints an improvement of plan or bound, at most every few seconds."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._shown: tuple[int | None, int] | None = None
        self._shown_at = -SECONDS_BETWEEN_LINES

    def __call__(self, progress: Progress) -> None:
        state = (progress.makespan_ns, progress.lower_bound_ns)
        if state == self._shown or progress.seconds < self._shown_at + SECONDS_BETWEEN_LINES:
            return
        self._shown, self._shown_at = state, progress.seconds
        self._console.print(progress_text(progress), markup=False, soft_wrap=True)


@contextmanager
def shown_step(first: str) -> Iterator[Callable[[str], None]]:
    """Give a callback that shows which step of the work runs, on a terminal only; `first` is shown at once."""
    console = Console(stderr=True, highlight=False, markup=False)
    if not console.is_terminal:
        yield lambda _step: None
        return
    with console.status(first) as status:
        yield status.update
