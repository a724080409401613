"""Profilers' timelines: Ascend, PyTorch, Nsight Systems. One public function, `read_traces`."""

from evenflow.profiles.traces.names import LayerNames
from evenflow.profiles.traces.reader import FileReport, TraceProgress, TraceTimes, read_traces
from evenflow.profiles.traces.times import BlockTime, Spread

__all__ = ["BlockTime", "FileReport", "LayerNames", "Spread", "TraceProgress", "TraceTimes", "read_traces"]
