"""A measured run beside the training that it was, and its prediction with other parameters."""

from dataclasses import dataclass, replace
from enum import StrEnum

from evenflow.cluster.reached import Reached
from evenflow.cluster.topology import Topology
from evenflow.predict.memory import RankMemory
from evenflow.predict.prediction import Prediction, predict
from evenflow.predict.training import Training


class Quantity(StrEnum):
    """What was measured."""

    TIME = "time"
    MEMORY = "memory"


class MemoryOf(StrEnum):
    """What measured memory counts."""

    ALLOCATED = "allocated"
    """What the framework allocated."""
    RESERVED = "reserved"
    """What its allocator took from the device for that."""
    DEVICE = "device"
    """What the device showed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """A training, the devices that it ran on as they are known so far, and what was measured."""

    name: str
    training: Training
    topology: Topology
    step_ns: float | None = None
    """Time of a step; None where it was not measured."""
    memory_bytes: float | None = None
    """Peak memory of a device; None where it was not measured."""
    is_last_rank: bool = False
    """Whether the memory is that of the last pipeline rank, and not of the fullest one."""
    memory_of: MemoryOf = MemoryOf.ALLOCATED
    source: str = ""
    """Runs that were measured together have the same; empty: not known."""

    def measured(self, quantity: Quantity) -> float | None:
        """Return nanoseconds or bytes; None where that was not measured."""
        return self.step_ns if quantity is Quantity.TIME else self.memory_bytes

    @property
    def reached(self) -> Reached:
        """What the accelerator is known to reach."""
        return self.topology.accelerator.reached

    @property
    def configuration(self) -> tuple[object, ...]:
        """What its predictions depend on."""
        return self.training, self.topology, self.is_last_rank, self.memory_of

    def prediction(self, reached: Reached) -> Prediction:
        """Return the prediction for an accelerator that reaches `reached`."""
        accelerator = replace(self.topology.accelerator, reached=reached)
        return predict(self.training, replace(self.topology, accelerator=accelerator))

    def of(self, prediction: Prediction, quantity: Quantity) -> float:
        """Return the nanoseconds or bytes that were measured, as predicted."""
        if quantity is Quantity.TIME:
            return prediction.step_ns
        ranks = [self._counted(rank) for rank in prediction.memory]
        return float(ranks[-1] if self.is_last_rank else max(ranks))

    def _counted(self, rank: RankMemory) -> int:
        if self.memory_of is MemoryOf.DEVICE:
            return rank.device_bytes
        return rank.reserved_bytes if self.memory_of is MemoryOf.RESERVED else rank.allocated_bytes

    def predicted(self, quantity: Quantity, reached: Reached) -> float:
        """Return the predicted nanoseconds or bytes for an accelerator that reaches `reached`."""
        return self.of(self.prediction(reached), quantity)
