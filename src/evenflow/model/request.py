"""The request to a planner: a network to be cut over a pipeline, under limits."""

from dataclasses import dataclass

from evenflow.model.network import Network
from evenflow.model.plan import Cells, Communication
from evenflow.model.sizes import Sizes


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A network to be cut over a pipeline of these sizes, and the limits of its plans."""

    network: Network
    sizes: Sizes
    memory_limit_bytes: int | None = None
    """Bytes that no rank may exceed; None: no limit."""
    mix_any: bool = False
    """Whether `select` and `comm` layers may share a cell, which MindFormers cannot express."""
    allow_empty: bool = False
    """Whether cells may hold no layer."""
    group_size: int | None = None
    """Microbatches of a group in an interleaved schedule; None: as many as fill the pipeline."""
    communication: Communication | None = None
    """Cost of one transfer between ranks; None: transfers take no time."""
    layers: Cells | None = None
    """Number of layers of every cell ``[chunk][rank]`` that the caller has decided, which leaves only recomputation to
    plan; None: the planner decides both.
    """

    @property
    def min_layers(self) -> int:
        """Fewest layers that a cell may hold."""
        return 0 if self.allow_empty else 1

    @property
    def message_ns(self) -> int:
        """Time of one transfer between ranks."""
        return self.communication.message_ns if self.communication else 0
