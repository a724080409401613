"""What a reader finds in one trace, whatever its format."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from evenflow.profiles.traces.names import Match

FORWARD, BACKWARD = "forward", "backward"


@dataclass(frozen=True, slots=True, kw_only=True)
class Occurrence:
    """One layer at work on one microbatch."""

    match: Match
    scope: str
    """The scope's name in the trace, which tells one layer from another where it is numbered."""
    phase: str
    start_ns: int
    """Decides the step; on the clock of the step markers."""
    time_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepMarkers:
    """A way in which a trace may tell its steps."""

    name: str
    windows: Sequence[tuple[int, int]]
    """Start and end of whole steps, in order, nanoseconds."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeline:
    """The layers that one process ran."""

    file: str
    source: str
    """The kind of trace, and what a time is."""
    occurrences: Sequence[Occurrence]
    markers: Sequence[StepMarkers]
    """The best first; none where the trace does not tell."""
    scopes: Mapping[str, int] = field(default_factory=dict)
    """Names of the scopes that are there, with how often, for messages."""
    notes: Sequence[str] = ()
