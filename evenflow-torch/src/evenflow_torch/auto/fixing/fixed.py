"""What a user decides of a plan before the search: degrees of parallelism, and where parameters lie."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from evenflow.cluster import Cluster, Mesh, Submesh
from evenflow.errors import InputError
from evenflow.fields import check_one_of
from evenflow.language import _
from evenflow.predict.training import Sharding
from evenflow_torch.auto.sharding.mesh_costs import MeshCosts
from evenflow_torch.auto.sharding.ways import AxisRole, Level, PlainWay, Way
from evenflow_torch.auto.wording.axis_use import SAME, AxisUse, axis_uses

_ROLES = {
    "tensor": (AxisRole.TENSOR,),
    "context": (AxisRole.CONTEXT,),
    "expert": (AxisRole.EXPERT,),
    "data": (AxisRole.DATA, AxisRole.EXPERT, AxisRole.REPLICA),
}
"""The roles of axes whose devices a degree counts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fixed:
    """The user's decisions, which every plan keeps to; None leaves a degree open."""

    tensor: int | None = None
    data: int | None = None
    context: int | None = None
    expert: int | None = None
    """How many of the data-parallel devices share out the experts."""
    pipeline: int | None = None
    """Pipeline stages; the chunks into which the refinement may cut a rank's stage do not count."""
    zero: Sharding | int | None = None
    """Stage of ZeRO, also as a number; a `Sharding` once it is made."""
    placements: tuple[tuple[str, str], ...] = ()
    """Names of parameters, which may have ``*`` in them, each with the dimension that is split where they are kept."""

    def __post_init__(self) -> None:
        """Take the stage of ZeRO by its number; raise InputError for one that there is not."""
        if self.zero is None or isinstance(self.zero, Sharding):
            return
        check_one_of(str(self.zero), [stage.value for stage in Sharding], place="zero")
        object.__setattr__(self, "zero", Sharding(str(self.zero)))

    @property
    def needs_three_axes(self) -> bool:
        """Whether data parallelism may need a third axis beside two other degrees."""
        return sum((degree or 1) > 1 for degree in (self.tensor, self.context, self.expert)) > 1

    @property
    def says_sharding(self) -> bool:
        """Whether any decision says how the devices inside a stage are used."""
        return self.zero is not None or any(getattr(self, name) is not None for name in _ROLES)

    def check(self, cluster: Cluster, num_layers: int) -> None:
        """Raise InputError for degrees that no plan of `num_layers` layers on the cluster can have."""
        across = [self.tensor, self.data, self.context, self.pipeline]
        devices = prod(degree for degree in across if degree)
        is_whole = None not in across
        if cluster.num_devices % devices or (is_whole and devices != cluster.num_devices):
            rule = _("must be the {count} devices", count=cluster.num_devices)
            if not is_whole:
                rule = _("must divide the {count} devices", count=cluster.num_devices)
            raise InputError(
                value=devices,
                rule=rule,
                place=_("the product of the degrees"),
                remedy=_("choose other degrees, or leave one out"),
            )
        if self.pipeline is not None and self.pipeline > num_layers:
            raise InputError(
                value=self.pipeline,
                rule=_("must be at most the {count} layers", count=num_layers),
                place="pipeline",
            )

    def has_room(self, submesh: Submesh) -> bool:
        """Tell whether `submesh` has devices enough for a stage with the decided degrees."""
        inside = [self.tensor, self.data, self.context]
        devices = prod(degree for degree in inside if degree)
        return submesh.num_devices == devices if None not in inside else submesh.num_devices % devices == 0

    def allows(self, costs: MeshCosts, way: Way) -> bool:
        """Tell whether layers sharded in `way` have the decided degrees."""
        if not self.says_sharding:
            return True
        if isinstance(way, PlainWay):
            return self.allows_plain(costs.mesh, way)
        uses = _uses(costs, way)
        return uses is not None and self._keeps(uses)

    def allows_plain(self, mesh: Mesh, way: PlainWay) -> bool:
        """Tell whether the plain plan `way` on a mesh has the decided degrees."""
        uses = [AxisUse(role=role, sharding=way.sharding) for role in way.roles]
        return self._keeps([(size, use) for size, use in zip(mesh.shape, uses, strict=True) if size > 1])

    def _keeps(self, axes: Sequence[tuple[int, AxisUse]]) -> bool:
        for name, roles in _ROLES.items():
            wanted = getattr(self, name)
            if wanted is not None and wanted != prod(size for size, use in axes if use.role in roles):
                return False
        sharing = {use.sharding for _size, use in axes if use.role not in (AxisRole.TENSOR, AxisRole.REPLICA)}
        return self.zero is None or sharing <= {self.zero}


def _uses(costs: MeshCosts, way: Level) -> list[tuple[int, AxisUse]] | None:
    """Return the use of each axis of several devices; None where layers differ or devices repeat the same work."""
    shape = costs.mesh.shape
    by_layer = [axis_uses([(ways[way], 1)]) for ways in costs.layers]
    uses = list(by_layer[0])
    axes = [axis for axis, size in enumerate(shape) if size > 1]
    if any(layer_uses[axis] != uses[axis] or layer_uses[axis].share < SAME for layer_uses in by_layer for axis in axes):
        return None
    if any(uses[axis].role is None for axis in axes):
        return None
    return [(size, use) for size, use in zip(shape, uses, strict=True) if size > 1]


def fixed_text(fixed: Fixed) -> str:
    """Return the degrees in the form in which the command takes them: ``tensor=8,zero=1``."""
    values = {name: getattr(fixed, name) for name in (*_ROLES, "pipeline", "zero")}
    degrees = [f"{name}={value}" for name, value in values.items() if value is not None]
    return ",".join([*degrees, *(f"{name}={split}" for name, split in fixed.placements)])
