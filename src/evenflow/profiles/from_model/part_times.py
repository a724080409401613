"""Times of a part, and how they follow from its operators at the rates of an accelerator."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenflow.cluster import Accelerator
from evenflow.language import _
from evenflow.torch_model.live_storage import ExecutedOperator
from evenflow.torch_model.part_trace import PartTrace


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTimes:
    """Times of one part for one microbatch."""

    forward_ns: int
    backward_ns: Mapping[str, int]
    """Nanoseconds of the whole backward by recompute kind; never below that of ``none``."""
    weight_ns: int
    """Nanoseconds of the weight gradient, a part of the backward without recomputation."""
    spread: float | None = None
    """The largest (slowest - fastest) / median of measured forwards and backwards; None where nothing was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Times of operators one after another, as eager PyTorch runs them, each by `Accelerator.operator_ns`."""

    accelerator: Accelerator
    efficiency: float

    def time_ns(self, operators: Iterable[ExecutedOperator]) -> int:
        """Return the time of all `operators` in turn, rounded up."""
        device = self.accelerator.reaching(self.efficiency)
        return math.ceil(
            sum(device.operator_ns(flops=one.flops, moved_bytes=one.moved_bytes, dtype=one.dtype) for one in operators)
        )

    def times(self, traces: Mapping[str, PartTrace]) -> PartTimes:
        """Return the times of a part from its traces by recompute kind."""
        plain = traces["none"]
        backward_ns = {kind: self.time_ns(trace.backward) for kind, trace in traces.items()}
        return PartTimes(
            forward_ns=self.time_ns(plain.forward), backward_ns=backward_ns, weight_ns=self.time_ns(plain.weight)
        )

    def origin(self) -> str:
        """Say where the times come from, as a sentence."""
        device = self.accelerator
        peaks = ", ".join(f"{rate / 1e12:g} TFLOPS {dtype}" for dtype, rate in device.flops_per_s_of.items())
        return _(
            "times follow from operations and bytes at the rates of {name}: {efficiency:g} % of "
            "{peaks}; {bandwidth:g} GB/s ({source})",
            name=device.name,
            efficiency=100 * self.efficiency,
            peaks=peaks,
            bandwidth=device.memory_bytes_per_s / 1e9,
            source=device.source,
        )
