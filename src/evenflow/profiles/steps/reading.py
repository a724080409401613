"""Which measured step is in a file or folder."""

from pathlib import Path

from evenflow.fields import read_head
from evenflow.profiles.steps import primus
from evenflow.profiles.steps.action_ranges import read_action_ranges
from evenflow.profiles.steps.measured_step import MeasuredStep
from evenflow.profiles.traces.reader import is_report

_TRACE_STARTS = (b"[", b"\x1f\x8b")
_OF_TRACES = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"')
_HEAD_BYTES = 2**16


def read_measured_step(path: Path) -> MeasuredStep | None:
    """Return the measured step at `path`; None where something else is there.

    It is a folder (or a file of it) that Primus dumped, or timelines of a profiler: a folder with one for each rank, or
    a report of all.

    Raises:
        InputError: a measured step that is damaged or not whole.
    """
    folder = path if path.is_dir() else path.parent
    if path.is_dir() or path.name == primus.CONFIG or path.name.startswith("pp_rank_"):
        if primus.is_primus(folder):
            return primus.read_primus(folder)
        if path.is_dir():
            return read_action_ranges(path)
    if not path.is_file():
        return None
    return read_action_ranges(path) if is_report(path) or _is_trace(path) else None


def _is_trace(path: Path) -> bool:
    """Return whether a file is a Chrome trace, by its beginning."""
    head = read_head(path, _HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.startswith(_TRACE_STARTS) or (head.startswith(b"{") and any(key in head for key in _OF_TRACES))
