"""A layer on several devices, done again by as many others: what has to lie alike, and its tensors on their way."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement

from evenflow.cluster import MeshPlan
from evenflow_torch.models.parts import Part
from evenflow_torch.run.engine.spread_tensors import local_part
from evenflow_torch.run.engine.torch_names import tree_map
from evenflow_torch.run.replicas.replicas import Replicas


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """A device's part of a tensor, for the device at the same place of another mesh."""

    local: Tensor
    placements: tuple[Placement, ...]
    shape: tuple[int, ...]
    stride: tuple[int, ...]

    def on(self, mesh: DeviceMesh) -> DTensor:
        return DTensor.from_local(self.local, mesh, self.placements, shape=self.shape, stride=self.stride)


def without_mesh(values: Any) -> Any:
    """Return values in which this device's parts stand for tensors that lie on several."""

    def convert(value: Any) -> Any:
        if not isinstance(value, DTensor):
            return value
        return _Share(
            local=local_part(value), placements=tuple(value.placements), shape=tuple(value.shape), stride=value.stride()
        )

    return tree_map(convert, values)


def on_own_mesh(values: Any, mesh: DeviceMesh) -> Any:
    """Return the values of `without_mesh` as tensors that lie on the devices of another mesh."""
    return tree_map(lambda value: value.on(mesh) if isinstance(value, _Share) else value, values)


def how_it_lies(plan: MeshPlan, stage: int, part: Part) -> str:
    """Return what two layers have in common that the devices of their meshes compute with the same parts of tensors."""
    planned = plan.stages[stage]
    first = next(other for other in plan.stages if other.rank == planned.rank)

    def own(values: Mapping[str, Any]) -> list[tuple[str, str]]:
        names = sorted(name for name in values if f"{name}.".startswith(f"{part.path}."))
        return [(name.removeprefix(part.path), str(values[name])) for name in names]

    order = [first.devices.index(device) for device in planned.devices]
    kinds = planned.parameters, planned.gathered, planned.products, planned.attention
    return str((planned.mesh, order, [own(values) for values in kinds]))


def rings_of(replicas: Replicas, num_ranks: int, plan: MeshPlan | None) -> list[Sequence[int]]:
    """Return the processes in a row of which each can do layers of the one before again.

    They are the replicas of a stage, or of a device of it, and the ranks of a pipeline, or the devices at the same
    place of these, where all ranks have equally many.
    """
    if plan is None:
        places: list[int] = list(range(num_ranks))
    else:
        stages = [next(stage for stage in plan.stages if stage.rank == rank) for rank in range(num_ranks)]
        me = dist.get_rank(replicas.pipeline)
        place = next(stage.devices.index(me) for stage in stages if me in stage.devices)
        is_even = len({len(stage.devices) for stage in stages}) == 1
        places = [stage.devices[place] for stage in stages] if is_even else []
    rings = replicas.alike, [replicas.process_of(device) for device in places]
    return [ring for ring in rings if len(ring) > 1]
