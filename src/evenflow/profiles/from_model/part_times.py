"""Where times come from: the same five numbers of a part, computed from its operators or measured on a device."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenflow.cluster.accelerators import Accelerator
from evenflow.profiles.from_model.part_trace import Trace
from evenflow.torch_model.live_storage import Operator


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTimes:
    """Times of one part for one microbatch."""

    forward_ns: int
    backward_ns: Mapping[str, int]
    """The whole backward by recompute kind; never below that of ``none``."""
    weight_ns: int
    """The weight gradient, a part of the backward without recomputation."""
    spread: float | None = None
    """Of measured forwards and backwards, the largest (slowest - fastest) / median; None where nothing was measured."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """The time of an operator is what takes longer, its arithmetic or its memory traffic.

    ``max(flops / (peak * efficiency), bytes / bandwidth)``, operators one after another, as eager PyTorch runs them.
    [Williams et al., Roofline, Communications of the ACM 52(4), 2009]
    """

    accelerator: Accelerator
    efficiency: float

    def time_ns(self, operators: Iterable[Operator]) -> int:
        """The time of all `operators` in turn, rounded up."""
        return math.ceil(sum(map(self._one_ns, operators)))

    def times(self, traces: Mapping[str, Trace]) -> PartTimes:
        """The times of a part from its traces by recompute kind."""
        plain = traces["none"]
        backward_ns = {kind: self.time_ns(trace.backward) for kind, trace in traces.items()}
        return PartTimes(
            forward_ns=self.time_ns(plain.forward), backward_ns=backward_ns, weight_ns=self.time_ns(plain.weight)
        )

    def origin(self) -> str:
        """One sentence for people."""
        device = self.accelerator
        peaks = ", ".join(f"{tflops:g} TFLOPS {dtype}" for dtype, tflops in device.peak_tflops.items())
        return (
            f"times follow from operations and bytes at the rates of {device.name}: {100 * self.efficiency:g} % of "
            f"{peaks}; {device.bandwidth_gb_s:g} GB/s ({device.source})"
        )

    def _one_ns(self, operator: Operator) -> float:
        peaks = self.accelerator.peak_tflops
        peak_tflops = peaks.get(operator.dtype, min(peaks.values()))
        arithmetic_ns = operator.flops / (peak_tflops * self.efficiency * 1e3)  # 10^12 a second are 10^3 a nanosecond
        return max(arithmetic_ns, operator.moved_bytes / self.accelerator.bandwidth_gb_s)
