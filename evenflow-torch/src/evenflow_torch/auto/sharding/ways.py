"""The ways a layer's operators may be sharded: found freely at a price of memory, or a plain plan that has a name.

With the logical mesh that a submesh is taken as, a way is the key of a sharding.
"""

from dataclasses import dataclass
from enum import IntEnum, StrEnum

from evenflow.predict.training import Sharding


class Level(IntEnum):
    """The price of memory that a sharding was chosen at, from none to a price that makes memory all that counts."""

    FASTEST = 0
    FAST = 1
    BALANCED = 2
    SMALL = 3
    SMALLEST = 4

    def __str__(self) -> str:
        return self.name.lower()


class AxisRole(StrEnum):
    """What a plain plan uses a mesh axis for; the value is the word in result files."""

    DATA = "data"
    """Devices have other samples, and all parameters or their share of them (`PlainWay.sharding`)."""
    TENSOR = "tensor"
    """Megatron's column and row splits, the sequence split outside of them. [arXiv:1909.08053, arXiv:2205.05198]"""
    CONTEXT = "context"
    """Devices have other tokens of the same samples; attention exchanges keys and values."""
    EXPERT = "expert"
    """As data, but every device has other experts, to which tokens go all-to-all: their parameters split along
    dimension 0, tokens by samples."""
    REPLICA = "replica"
    """As data, but the state of parameters is not shared out: hybrid sharding, where only inner axes do."""


@dataclass(frozen=True, slots=True)
class PlainWay:
    """A plain plan: what each axis of the logical mesh is for, as people write it by hand."""

    roles: tuple[AxisRole, ...]
    """One for each mesh axis, slowest first."""
    sharding: Sharding = Sharding.NOTHING
    """What the devices of the data, context and expert axes share out of a parameter's state."""

    def __str__(self) -> str:
        return f"{' x '.join(self.roles)} zero-{self.sharding}"


SHARING = (AxisRole.DATA, AxisRole.CONTEXT, AxisRole.EXPERT)
"""The roles of axes whose devices share what `PlainWay.sharding` says."""

Way = Level | PlainWay
"""How every layer of a stage is sharded on its mesh."""


@dataclass(frozen=True, slots=True)
class MeshSharding:
    """One way to shard every layer of a stage on the devices of a submesh.

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
