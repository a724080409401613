"""The contents of one trace, whatever its format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evenflow.model import PassHalves
from evenflow.profiles.traces.names import Match

FORWARD, BACKWARD = "forward", "backward"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One forward or backward of one layer, for one microbatch."""

    match: Match
    scope: str
    """Name of the scope in the trace, which tells one layer from another where it is numbered."""
    phase: str
    start_ns: int
    """Start on the clock of the step markers; it decides the step."""
    time_ns: int
    halves: PassHalves | None = None
    """What is known apart of `time_ns`; None where the layer exchanges no tokens, or the trace does not show it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMarkers:
    """One way in which a trace tells its steps."""

    name: str
    windows: Sequence[tuple[int, int]]
    """Start and end of whole steps in nanoseconds, in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """The layers that one process ran, as a profiler recorded them."""

    file: str
    source: str
    """Kind of the trace, and what its times are."""
    occurrences: Sequence[Occurrence]
    markers: Sequence[StepMarkers]
    """Ways to tell the steps, the best first; none where the trace has no marks."""
    scopes: Mapping[str, int] = field(default_factory=dict)
    """Names of scopes with their numbers, for messages."""
    notes: Sequence[str] = ()
