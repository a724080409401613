"""What a training step reaches of the rates of a data sheet: the few parameters that a calibration fits."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.ranges import PAIR_SLOWDOWN

SLOWED = 1.13
"""How much slower a device computes while it communicates. [Galvatron, arXiv:2211.13878, measured]"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Reached:
    """Shares of a data sheet's rates that are reached, and times that no data sheet states."""

    product_share: float = 0.8
    """Of the peak of matrix products in 16 or 32 bits, that large products reach."""
    low_precision_share: float = 0.85
    """Of `product_share`, that products in 8 or 4 bits reach: their peak is higher, and harder to feed."""
    attention_share: float = 0.8
    """Of `product_share`, that fused attention reaches."""
    memory_share: float = 0.9
    """Of the memory bandwidth."""
    ramp_depth: float = 0.0
    """A product of depth k takes (k + ramp_depth) / k as long as its operations: tiles begin and end."""
    operator_ns: float = 40_000.0
    """Least time of an operator: the host launches no faster."""
    link_share: float = 0.5
    """Of the bandwidth between devices of one fast domain, that collectives reach."""
    network_share: float = 0.4
    """Of the bandwidth of the network, that collectives reach."""
    latency_ns: float = 30_000.0
    """Time that a collective or a message takes to begin; each message of a collective adds a share of it."""
    step_ns: float = 10_000_000.0
    """Time of a step outside of forwards, backwards, collectives and the optimizer's traffic."""
    pair_slowdown: float = SLOWED
    """How many times as long computation takes while tokens travel between experts beside it."""
    reserve_share: float = 0.05
    """Of what a rank allocates, that fragmentation adds: a fit to four runs that state what was reserved."""
    driver_bytes: float = 3 * 2.0**30
    """Of a device, that no framework counts: the driver's context, and communicators' own buffers.

    A fit to 58 readings of devices that trained models of 1 to 200 B parameters.
    """
    standard_errors: Mapping[str, float] = field(default_factory=dict, hash=False)
    """Of the fitted parameters, each in its own unit."""

    def __post_init__(self) -> None:
        PAIR_SLOWDOWN.check(self.pair_slowdown, place="pair_slowdown")
        for name in PARAMETERS:
            value = getattr(self, name)
            if name.endswith("_share") and name != "reserve_share":
                holds, rule = 0 < value <= 1, _("must be a share above 0 and at most 1")
            else:
                holds, rule = 0 <= value < float("inf"), _("must be zero or more, and finite")
            if not holds:
                raise InputError(value=value, rule=rule, place=name)

    def changed(self, values: Mapping[str, float]) -> "Reached":
        """Return the same with other values of some parameters, by name."""
        return replace(self, **dict(values))  # type: ignore[arg-type]


PARAMETERS: tuple[str, ...] = tuple(rate.name for rate in fields(Reached) if rate.name != "standard_errors")
"""Names of what can be fitted."""
