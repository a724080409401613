"""A sharding of a plan under which a layer of it does not run."""

from dataclasses import dataclass

from evenflow.cluster import Submesh
from evenflow_torch.auto.sharding.ways import MeshSharding


@dataclass(frozen=True, slots=True, kw_only=True)
class FailedTrial:
    """A sharding under which a layer does not run."""

    submesh: Submesh
    sharding: MeshSharding
    words: str
    """The sharding in words."""
    layer: str
    reason: str
    """The first sentence of what torch says."""
