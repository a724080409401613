"""Profilers' timelines: Ascend, PyTorch, Nsight Systems. One public function, `read_traces`."""

from evenflow.profiles.traces.layer_times import BlockTime, SampleSpread
from evenflow.profiles.traces.names import LayerNames
from evenflow.profiles.traces.reader import TraceProgress, TraceTimes, read_traces
from evenflow.profiles.traces.samples import FileReport

__all__ = ["BlockTime", "FileReport", "LayerNames", "SampleSpread", "TraceProgress", "TraceTimes", "read_traces"]
