"""The key of a sharding: which logical mesh a submesh is taken as, and how its operators are sharded on it."""

from dataclasses import dataclass

from evenflow_torch.auto.sharding.ways import Way


@dataclass(frozen=True, slots=True)
class MeshSharding:
    """One way to shard every layer of a stage on the devices of a submesh.

    >>> from evenflow_torch.auto.sharding.ways import Level
    >>> str(MeshSharding((2, 4), Level.FASTEST)), str(MeshSharding((2, 4)))
    ('2x4 fastest', 'data 2 x tensor 4')
    """

    mesh: tuple[int, ...]
    """Devices along each axis of the logical mesh, the last one varying fastest."""
    way: Way | None = None
    """None: data parallelism over the first axis and tensor parallelism over the second, as `AnalyticStages` has it."""

    def __str__(self) -> str:
        if self.way is None:
            data, tensor = self.mesh
            return f"data {data} x tensor {tensor}"
        return f"{'x'.join(map(str, self.mesh))} {self.way}"
