"""The question of a tuning: a model, devices and a batch, and what the answer may be."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil

from evenflow.cluster.topology import Topology
from evenflow.model import Abilities, Empty
from evenflow.predict.evidence import counted
from evenflow.predict.host_update import HostUpdate
from evenflow.predict.memory import device_bytes_for, usable_bytes
from evenflow.predict.memory_error import margin
from evenflow.predict.training import Degrees, Software, Training
from evenflow.predict.transformer import Transformer
from evenflow.tune.axes import Axis, Value
from evenflow.tune.rules import DegreeRules

USUAL_CONFIDENCE = 0.9
"""With which configurations must fit that are ranked."""
_ROUNDED_BYTES = 3
"""What the roundings of a reserve and of limits come to at most."""


@dataclass(frozen=True, kw_only=True)
class TuningQuestion:
    """A training whose degrees are to be chosen."""

    model: Transformer
    topology: Topology
    devices: int
    """In all."""
    global_batch: int
    """Sequences of a step."""
    sequence: int
    """Tokens of a sequence."""
    memory_limit_bytes: int
    """Of a device, all that it has."""
    confidence: float | None = USUAL_CONFIDENCE
    """Probability with which the ranks of a configuration must fit; None: as likely as not."""
    precision: str = "bf16"
    software: Software = field(default_factory=Software)
    rules: DegreeRules = field(default_factory=DegreeRules)
    """What the degrees of the framework must keep to."""
    abilities: Abilities | None = None
    """What the framework can run of a pipeline; None: all that evenflow plans."""
    title: str = ""
    """The framework, for people; empty without one."""
    schedules: tuple[str, ...] = ("1f1b", "interleaved", "zb-h1", "zbv")
    """Schedule families that are tried."""
    fixed: Mapping[Axis, Value] = field(default_factory=dict)
    """What the user has decided."""
    most: Mapping[Axis, int] = field(default_factory=dict)
    """The largest value of an axis, where the user says one."""
    allow_empty: bool = True
    """Whether cells may hold no layer."""
    recompute_sets: tuple[tuple[str, ...], ...] = ()
    """Sets of modules that are recompute kinds of their own, in the place of `select`."""
    optimizer_offload: float = 0.0
    """Part of the optimizer's state that the host may keep and update; configurations are tried without too."""
    host_update: HostUpdate | None = None
    """How fast the host does so; None where it keeps nothing."""
    recompute: str | None = None
    """The one recompute kind that layers may be under beside `none`, or `none` alone; None: all kinds."""

    @property
    def usable_bytes(self) -> int:
        """What tensors of a rank may take, so that it fits with that probability."""
        reached = self.topology.accelerator.reached
        return usable_bytes(self.memory_limit_bytes, reached, confidence=self.confidence)

    def device_bytes_for(self, held_bytes: float) -> int:
        """Return the memory of a device on which tensors may take so much."""
        return device_bytes_for(held_bytes, self.topology.accelerator.reached, confidence=self.confidence)

    def sure_bytes(self, rank_bytes: Sequence[int]) -> int:
        """Return the memory of a device into which ranks fit with that probability that are predicted to need so much.

        One byte more than that, for what is rounded.
        """
        driver_bytes = round(self.topology.accelerator.reached.driver_bytes)
        return ceil((max(rank_bytes) - driver_bytes) * margin(self.confidence)) + driver_bytes + 1

    def fits(self, rank_bytes: Sequence[int]) -> bool:
        """Whether ranks that are predicted to need so much fit into the memory of devices with that probability."""
        return self.sure_bytes(rank_bytes) <= self.memory_limit_bytes + _ROUNDED_BYTES

    @property
    def full_cells(self) -> bool:
        """Whether plans with empty cells are left out, of which the framework runs some."""
        own = self.abilities
        has_some = own is None or (own.empty is not Empty.NONE and own.own_cut is None)
        return has_some and not self.allow_empty and self.devices > 1 and self.fixed.get(Axis.PIPELINE) != 1

    @property
    def min_layers(self) -> int:
        """Fewest layers that a cell may hold."""
        return 0 if self.allow_empty else 1

    def min_layers_of(self, schedule: str) -> int:
        """Return the fewest under one schedule: a framework may need a layer in every cell under some of its own."""
        limits = None if self.abilities is None else self.abilities.limits.get(schedule)
        return self.min_layers if limits is None or not limits.every_cell else 1

    @property
    def offloads(self) -> tuple[float, ...]:
        """The parts of the optimizer's state that the host keeps, of which each is tried."""
        return (0.0, self.optimizer_offload) if self.optimizer_offload else (0.0,)

    @property
    def on_all_devices(self) -> Training:
        """The training on all devices with copies of the model alone: what of it no choice of degrees changes."""
        return replace(self.on_one_device, degrees=Degrees(data=self.devices))

    @property
    def calibrated(self) -> "TuningQuestion":
        """The same on devices as far as their calibration counts for it."""
        return replace(self, topology=counted(self.on_all_devices, self.topology))

    @property
    def on_one_device(self) -> Training:
        """The training without any degrees, a sequence at a time."""
        return Training(
            model=self.model,
            degrees=Degrees(),
            microbatch=1,
            global_batch=self.global_batch,
            sequence=self.sequence,
            precision=self.precision,
            software=self.software,
        )
