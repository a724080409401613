"""The devices of one stage as an operator sharding sees them: a mesh of up to three axes, each with its own links."""

import math
from dataclasses import dataclass

from evenflow.cluster.accelerators import Accelerator
from evenflow.errors import InputError
from evenflow.language import _


@dataclass(frozen=True, slots=True, kw_only=True)
class MeshAxis:
    """One direction of the mesh: its devices run collectives with one another over the same kind of link."""

    size: int
    bandwidth_bytes_per_s: int
    """Bytes per second that one device sends over these links."""
    latency_ns: int = 0
    """Time that a message takes to the next device beside its bytes."""
    start_ns: int = 0
    """Time that a collective takes to begin, whatever its devices."""
    domains: int = 1
    """Fast domains (nodes, racks) that the devices lie in, where messages between these take longer."""
    domain_latency_ns: int = 0
    """Time that a message between domains takes beside its bytes."""
    switch_reduces: bool = False
    """Whether a switch between the devices adds up what they send (NVLink SHARP)."""

    def __post_init__(self) -> None:
        bandwidth = self.bandwidth_bytes_per_s
        _require(self.size >= 1, self.size, _("must be at least 1"), "size")
        _require(bandwidth > 0, bandwidth, _("must be above zero"), "bandwidth_bytes_per_s")
        for name in ("latency_ns", "start_ns", "domain_latency_ns"):
            value = getattr(self, name)
            _require(value >= 0, value, _("must be zero or more"), name)
        if not 1 <= self.domains <= self.size:
            rule = _("must be from 1 to the {size} devices", size=self.size)
            raise InputError(value=self.domains, rule=rule, place=_("mesh, {field}", field="domains"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Mesh:
    """A logical mesh of devices, slowest axis first, as in Alpa (OSDI 2022, section 4.1)."""

    axes: tuple[MeshAxis, ...]
    accelerator: Accelerator | None = None
    """None: computation costs nothing, and heavy operators must be split evenly over the mesh (Alpa, section 4.2)."""

    def __post_init__(self) -> None:
        _require(1 <= len(self.axes) <= 3, len(self.axes), _("must be from 1 to 3"), _("number of axes"))

    @property
    def shape(self) -> tuple[int, ...]:
        """Devices along each axis."""
        return tuple(axis.size for axis in self.axes)

    @property
    def num_devices(self) -> int:
        """Devices in all."""
        return math.prod(self.shape)


def _require(holds: bool, value: object, rule: str, field: str) -> None:
    if not holds:
        raise InputError(value=value, rule=rule, place=_("mesh, {field}", field=field))
