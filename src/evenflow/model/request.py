"""What a planner is asked for: a network to be cut over a pipeline, under limits."""

from dataclasses import dataclass

from evenflow.model.network import Network
from evenflow.model.plan import Cells, Communication
from evenflow.model.sizes import Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A network to be cut over a pipeline of these sizes, and what its plans must keep to."""

    network: Network
    sizes: Sizes
    memory_limit_bytes: int | None = None
    """Memory that no rank may exceed; None: no limit."""
    mix_any: bool = False
    """Whether `select` and `comm` layers may share a cell, which MindFormers cannot express."""
    allow_empty: bool = False
    """Whether cells may hold no layer."""
    communication: Communication | None = None
    layers: Cells | None = None
    """Layers of every cell ``[chunk][rank]`` where the caller decides them: only recomputation is left free."""

    @property
    def min_layers(self) -> int:
        """The fewest layers of a cell."""
        return 0 if self.allow_empty else 1

    @property
    def message_ns(self) -> int:
        """Time of one transfer between ranks."""
        return self.communication.message_ns if self.communication else 0
