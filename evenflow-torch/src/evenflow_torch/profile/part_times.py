"""Times of a part, and how they follow from its operators at the rates of an accelerator."""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from evenflow.cluster import Accelerator
from evenflow.model import Halves
from evenflow_torch.models.live_storage import ExecutedOperator
from evenflow_torch.models.part_trace import PartTrace


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
    exchanges_tokens: bool = False
    """Whether tokens were seen to travel between experts."""
    halves: Halves | None = None
    """The exchanges of both passes, and what is computed between them; None: not known apart."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Roofline:
    """Times of operators one after another, as eager PyTorch runs them, each by `Accelerator.time_ns`."""

    accelerator: Accelerator

    def time_ns(self, operators: Iterable[ExecutedOperator]) -> int:
        """Return the time of all `operators` in turn, rounded up."""
        return math.ceil(sum(operator.cost.time_ns(self.accelerator) for operator in operators))

    def times(self, traces: Mapping[str, PartTrace]) -> PartTimes:
        """Return the times of a part from its traces by recompute kind."""
        plain = traces["none"]
        backward_ns = {kind: self.time_ns(trace.backward) for kind, trace in traces.items()}
        return PartTimes(
            forward_ns=self.time_ns(plain.forward), backward_ns=backward_ns, weight_ns=self.time_ns(plain.weight)
        )
