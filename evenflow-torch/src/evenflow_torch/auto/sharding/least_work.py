"""The least time in which devices can compute a microbatch under any sharding: a bound for every plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from evenflow.cluster import Accelerator
from evenflow_torch.models.trace.operator_graph import Operator, OperatorGraph, Role


@dataclass(frozen=True, slots=True, kw_only=True)
class LeastWork:
    """The operators of all layers, traced with a microbatch of some size.

    On n devices an operator takes at least 1/n of its arithmetic and at least what the host takes to launch it on each.
    So n devices together spend at least the larger of both, on any number of them.
    """

    samples: int
    """Samples of the microbatch that was traced."""
    operators: tuple[tuple[float, float], ...]
    """For every operator in all layers, nanoseconds of arithmetic on one device and of its launches."""

    def ns(self, samples: int) -> float:
        """Return the least sum of all devices' nanoseconds for a microbatch of at most as many samples as traced.

        With a part of the samples an operator has at least that part of the arithmetic, and as many launches.
        """
        assert samples <= self.samples
        part = samples / self.samples
        return sum(max(part * arithmetic - 0.5, launch) for arithmetic, launch in self.operators)

    def step_ns(self, samples: int, *, num_microbatches: int, num_devices: int) -> int:
        """Return nanoseconds that no step undercuts: the slowest device does at least an equal share of the work."""
        return int(num_microbatches * self.ns(samples) / num_devices)


def least_work(
    graphs: Sequence[OperatorGraph], order: Sequence[int], samples: int, accelerator: Accelerator | None
) -> LeastWork:
    """Return the work of layers in this order of kinds, forward and backward; nothing without an accelerator."""
    operators: list[tuple[float, float]] = []
    for kind, run in groupby(order if accelerator else ()):
        for operator in graphs[kind].with_layers(len(list(run))).operators:
            if operator.role is Role.COMPUTE and operator.cost.launches:
                assert accelerator is not None
                operators.append(_least_ns(operator, accelerator))
    return LeastWork(samples=samples, operators=tuple(operators))


def _least_ns(operator: Operator, accelerator: Accelerator) -> tuple[float, float]:
    """Return an operator's least nanoseconds of arithmetic and of launches, over all layers that run it."""
    cost = operator.cost
    arithmetic = accelerator.time_ns(
        flops=cost.flops, moved_bytes=0.0, dtype=cost.dtype, calls=0, is_fused_attention=cost.is_fused_attention
    )
    launch = cost.launches * accelerator.reached.operator_ns
    return operator.times * arithmetic, operator.times * max(0.0, launch - 0.5)
