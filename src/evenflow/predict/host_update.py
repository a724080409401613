"""The optimizer's state on the host, and its update by the host's processors.

Gradients go to the host in 32 bits, where Adam goes through parameter, gradient and two moments, and what it has
changed comes back in 16 bits; copies run beside the update of other parameters. [Megatron-LM, `HybridDeviceOptimizer`
with `--overlap-cpu-optimizer-d2h-h2d`]
"""

from dataclasses import dataclass

from evenflow.language import _
from evenflow.ranges import BYTES_PER_S

UPDATE_BYTES_PER_S = 22 * 10**9
"""What the processors of one device go through, in bytes per second, where nobody says it: a fit to one run. Qwen3-0.6B
on an H100 takes 0.752, 1.187 and 1.678 s a step with none, half and all of the state on the host. [NVIDIA-NeMo/RL,
issue 3628]"""
HOST_BYTES = 16
"""Bytes that the host keeps for a parameter: itself, its gradient and two moments."""
_OUT_BYTES = 4
"""Bytes of a gradient on its way to the host; what comes back, in 16 bits, takes less time in the other direction."""
_UPDATED_BYTES = 7 * 4 + 6
"""Bytes that the processors read and write for a parameter: Adam four and three numbers, then one as 16 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HostUpdate:
    """The rates of what the host does for one device."""

    link_bytes_per_s: int
    """Of the link to its memory, in one direction."""
    update_bytes_per_s: int = UPDATE_BYTES_PER_S
    """Bytes that its processors read and write."""

    def __post_init__(self) -> None:
        BYTES_PER_S.check(self.link_bytes_per_s, place=_("the bandwidth to the host"))
        BYTES_PER_S.check(self.update_bytes_per_s, place=_("the rate of updates on the host"))

    def ns(self, count: float) -> float:
        """Return the time of the update of `count` parameters."""
        return max(_OUT_BYTES / self.link_bytes_per_s, _UPDATED_BYTES / self.update_bytes_per_s) * count * 1e9
