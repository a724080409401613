"""The key of a sharding: which logical mesh a submesh is taken as, and how dear memory was."""

from dataclasses import dataclass

from evenflow.auto.sharding.memory_levels import Level


@dataclass(frozen=True, slots=True)
class MeshSharding:
    """One way to shard every layer of a stage on the devices of a submesh.

    >>> str(MeshSharding((2, 4), Level.FASTEST)), str(MeshSharding((2, 4)))
    ('2x4 fastest', 'data 2 x tensor 4')
    """

    mesh: tuple[int, ...]
    """Devices along each axis of the logical mesh, the last one varying fastest."""
    level: Level | None = None
    """None: data parallelism over the first axis and tensor parallelism over the second, as `AnalyticStages` has it."""

    def __str__(self) -> str:
        if self.level is None:
            data, tensor = self.mesh
            return f"data {data} x tensor {tensor}"
        return f"{'x'.join(map(str, self.mesh))} {self.level}"
