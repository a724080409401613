"""Which measured step is in a file or folder."""

from pathlib import Path

from evenflow.errors import InputError
from evenflow.fields import read_head
from evenflow.language import _
from evenflow.profiles.steps import primus
from evenflow.profiles.steps.action_names import PATTERN_OPTION, Naming
from evenflow.profiles.steps.action_ranges import read_action_ranges
from evenflow.profiles.steps.measured_step import MeasuredStep
from evenflow.profiles.steps.observed_step import ObservedStep
from evenflow.profiles.steps.telemetry_spans import read_telemetry, telemetry_files
from evenflow.profiles.traces.reader import is_report

_TRACE_STARTS = (b"[", b"\x1f\x8b")
_OF_TRACES = (b'"traceEvents"', b'"schemaVersion"', b'"deviceProperties"')
_HEAD_BYTES = 2**16


def read_measured_step(path: Path, naming: Naming | None = None) -> MeasuredStep | None:
    """Return the measured step at `path`; None where something else is there.

    It is a folder (or a file of it) that Primus dumped, or timelines of a profiler: a folder with one for each rank, or
    a report of all. `naming` says how timelines name their actions (see `naming_of_pattern`).

    Raises:
        InputError: a measured step that is damaged or not whole.
    """
    step = read_step(path, naming)
    if isinstance(step, ObservedStep):
        raise step.refusal
    return step


def read_step(path: Path, naming: Naming | None = None) -> MeasuredStep | ObservedStep | None:
    """Return the same; of timelines that show no whole step, what they show.

    Raises:
        InputError: a measured step that is damaged.
    """
    folder = path if path.is_dir() else path.parent
    if path.is_dir() or path.name == primus.CONFIG or path.name.startswith("pp_rank_"):
        if primus.is_primus(folder):
            if naming is not None:
                raise InputError(
                    rule=_("must be left out for what Primus dumped, which says what each action is"),
                    place=PATTERN_OPTION,
                )
            return primus.read_primus(folder)
        if path.is_dir():
            spans = telemetry_files(path)
            return read_telemetry(spans, place=str(path), naming=naming) if spans else read_action_ranges(path, naming)
    if not path.is_file():
        return None
    if telemetry_files(path):
        return read_telemetry([path], place=str(path), naming=naming)
    return read_action_ranges(path, naming) if is_report(path) or _is_trace(path) else None


def _is_trace(path: Path) -> bool:
    """Return whether a file is a Chrome trace, by its beginning."""
    head = read_head(path, _HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    return head.startswith(_TRACE_STARTS) or (head.startswith(b"{") and any(key in head for key in _OF_TRACES))
