"""Stages on several devices: parameters are DTensors on the stage's mesh, and so is all that is computed with them.

    from the stage before, or the batch      this device's part
    forward                                  DTensor: torch adds the collectives that the placements ask for
    to the next stage, or the loss           this device's part

Products read and give what the plan says; all else follows from their placements, as DTensor has it.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard, distribute_tensor
from torch.nn.modules.conv import _ConvNd

from evenflow.cluster import (
    REPLICATED,
    MeshPlan,
    Product,
    StageOnMesh,
    digits,
    dimension_of,
    placement_of,
)
from evenflow.cluster.splits.split_digits import through_view
from evenflow.cluster.splits.view_groups import groups_of_shapes
from evenflow_torch.models.parts import Context, Part
from evenflow_torch.run.engine.runtime import LossFunction
from evenflow_torch.run.engine.stages import StageModule, StageParts
from evenflow_torch.run.engine.torch_names import tree_map
from evenflow_torch.run.mesh.attention.distributed import set_attention
from evenflow_torch.run.mesh.local_operators import on_mesh
from evenflow_torch.run.mesh.local_parts import replicated, torch_placements
from evenflow_torch.run.mesh.mesh_experts import set_product


def device_meshes(
    plan: MeshPlan, device_type: str, pipelines: Sequence[Sequence[int]], *, own: int = 0
) -> list[DeviceMesh]:
    """Return the mesh of every stage in one of several pipelines, `own`, whose devices are these processes.

    Every process of all pipelines calls it, since it makes process groups.
    """
    made: dict[tuple[int, tuple[int, ...], tuple[int, ...]], DeviceMesh] = {}
    for index, processes in enumerate(pipelines):
        for stage in plan.stages:
            key = index, stage.devices, stage.mesh
            if key not in made:
                devices = torch.tensor([processes[device] for device in stage.devices])
                made[key] = DeviceMesh(device_type, devices.reshape(stage.mesh))
    return [made[own, stage.devices, stage.mesh] for stage in plan.stages]


def shard_parameters(part: Part, placement_of_name: Mapping[str, Sequence[int]], mesh: DeviceMesh) -> None:
    """Replace the parameters of a part by this device's share of them, and its buffers by replicated ones, in place.

    `placement_of_name` gives the placement of every parameter by its name in the unsplit model. All devices have equal
    values.
    """
    for path, module in part.module.named_modules():
        for last, parameter in list(module.named_parameters(recurse=False)):
            name = ".".join(piece for piece in (part.path, path, last) if piece)
            local = distribute_tensor(
                parameter.detach(), mesh, torch_placements(placement_of_name[name]), src_data_rank=None
            )
            setattr(module, last, nn.Parameter(local, requires_grad=parameter.requires_grad))
        for last, buffer in list(module.named_buffers(recurse=False)):
            setattr(module, last, replicated(buffer, mesh))


def placed_like(module: nn.Module, state: Mapping[str, Any]) -> dict[str, Any]:
    """Return whole tensors split over the devices as the module's own parameters and buffers are."""
    own = {**dict(module.named_parameters()), **dict(module.named_buffers())}

    def place(name: str, value: Any) -> Any:
        like = own.get(name)
        if not isinstance(like, DTensor) or isinstance(value, DTensor):
            return value
        return distribute_tensor(value.to(like.device), like.device_mesh, like.placements, src_data_rank=None)

    return {name: place(name, value) for name, value in state.items()}


class MeshStageModule(StageModule):
    """The modules of one stage, from this device's part of the input to its part of the output."""

    def __init__(
        self,
        stage: StageParts,
        context: Context | None,
        *,
        planned: StageOnMesh,
        mesh: DeviceMesh,
        before_use: Callable[[Part], None],
        expert_capacity: float | None,
        **others: Any,
    ) -> None:
        """`before_use` is called before a part computes; `expert_capacity` is that of `MeshPlan`."""
        for part in stage.parts:
            for path, module in part.module.named_modules(prefix=part.path):
                if path in planned.attention:
                    set_attention(module, planned.attention[path])
        super().__init__(stage, context, recompute_inside=on_mesh, **others)
        self.mesh = mesh
        self._before_use = before_use
        self.is_first = stage.index == 0
        self.entries = planned.entries
        self.input_placements = torch_placements(planned.input.placement)
        self.output_placements = torch_placements(
            _batch(planned) if planned.output is None else planned.output.placement
        )
        self.num_output_parts = math.prod(
            mesh.size(axis) for axis, placement in enumerate(self.output_placements) if isinstance(placement, Shard)
        )
        for part in stage.parts:
            for path, module in part.module.named_modules():
                product = planned.products.get(".".join(piece for piece in (part.path, path) if piece))
                if product is not None and product.experts is not None:
                    set_product(module, product, expert_capacity)
                if product is not None:
                    module.register_forward_pre_hook(partial(_read, product))
                    module.register_forward_hook(partial(_give, product))

    def forward(self, hidden: Tensor) -> Tensor:
        """Return this device's part of the output; the first stage gets the whole microbatch on every device."""
        if self.is_first:
            placed = replicated(hidden, self.mesh).redistribute(placements=self.input_placements)
        else:
            placed = DTensor.from_local(hidden, self.mesh, self.input_placements)
        with on_mesh():
            result = super().forward(placed)
        if not isinstance(result, DTensor):  # a stage without parameters may compute with none
            result = replicated(result, self.mesh)
        result = result.redistribute(placements=self.output_placements)
        local: Tensor = result.to_local(grad_placements=self.output_placements)
        return local

    def arguments(self, part: Part, hidden: Tensor, microbatch: int) -> dict[str, Any]:
        """Return what a part takes by keyword, the same on all devices."""
        return _everywhere(super().arguments(part, hidden, microbatch), self.mesh)

    def entering(self, part: Part, hidden: Tensor) -> Tensor:
        """Place the input of a part as the plan has it: between layers no tensor or gradient stays a partial sum."""
        self._before_use(part)
        if part.path not in self.entries or not isinstance(hidden, DTensor):
            return hidden
        wanted = torch_placements(self.entries[part.path])
        local = hidden.redistribute(placements=wanted).to_local(grad_placements=wanted)
        return DTensor.from_local(local, self.mesh, wanted, grad_placements=wanted)


class MeshLoss:
    """A loss function of this device's samples: its share of the microbatch's loss, a mean over samples or a sum."""

    def __init__(self, loss_fn: LossFunction, stage: MeshStageModule, *, is_sum: bool) -> None:
        self._loss_fn = loss_fn
        self._is_sum = is_sum
        self._mesh = stage.mesh
        self._placements = stage.output_placements
        self._num_parts = stage.num_output_parts

    def __call__(self, output: Tensor, target: Tensor) -> Tensor:
        """Return the share, from this device's output and the targets of the whole microbatch."""
        whole = replicated(target, self._mesh)
        loss = self._loss_fn(output, whole.redistribute(placements=self._placements).to_local())
        return loss if self._is_sum else loss / self._num_parts

    def total(self, share: Tensor) -> Tensor:
        """Return the loss from the shares of all devices, each of which calls it."""
        total = share.clone()
        for axis in range(self._mesh.ndim):
            dist.all_reduce(total, group=self._mesh.get_group(axis))
        return total * self._num_parts / self._mesh.size()


def _batch(planned: StageOnMesh) -> list[int]:
    """Return the placement of the model's result: its samples split along the axes that split the stage's input."""
    return [0 if dimension == 0 else REPLICATED for dimension in planned.input.placement]


def _everywhere(values: Mapping[str, Any], mesh: DeviceMesh) -> dict[str, Any]:
    """Return `values` with their tensors the same on all devices."""

    def convert(value: Any) -> Any:
        return replicated(value, mesh) if isinstance(value, Tensor) and not isinstance(value, DTensor) else value

    result: dict[str, Any] = tree_map(convert, dict(values))
    return result


def _read(product: Product, module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """Place the input of a product as the plan has it, which is where collectives of a column split come from."""
    hidden, *others = arguments
    return (_moved(hidden, product.reads, module), *others)


def _give(product: Product, module: nn.Module, _arguments: tuple[Any, ...], result: Any) -> Any:
    """Place the result of a product where torch chose another way. Partial sums stay so until somebody reads them."""
    return _moved(result, product.gives, module)


def _moved(tensor: Any, planned: Sequence[int], module: nn.Module) -> Any:
    if not isinstance(tensor, DTensor) or any(dimension < REPLICATED for dimension in planned):
        return tensor
    # Convolutions are planned as they are, other products as those of matrices.
    wanted = torch_placements(planned) if isinstance(module, _ConvNd) else _of_tensor(tensor, planned)
    return tensor if wanted is None else tensor.redistribute(placements=wanted)


def _of_tensor(tensor: DTensor, of_matrix: Sequence[int]) -> list[Placement] | None:
    """Return the placements of a matrix [samples and positions, features] as those of a tensor [..., features].

    Where parts of the rows are no parts of a dimension, they are split in the first that can be; None where there is
    none.
    """
    shape = tuple(tensor.shape)
    mesh = tuple(tensor.device_mesh.size(axis) for axis in range(len(of_matrix)))
    matrix = (math.prod(shape[:-1]), shape[-1])
    digits_of_matrix = digits(matrix, tuple(of_matrix), mesh)
    view = None if digits_of_matrix is None else through_view(digits_of_matrix, groups_of_shapes(matrix, shape), shape)
    if view is not None:
        dimensions = placement_of(view, tuple(of_matrix))
        if all(dimension < len(shape) for dimension in dimensions):
            return torch_placements(dimensions)
    rows = list(shape[:-1])
    result: list[Placement] = []
    for size, dimension in zip(mesh, of_matrix, strict=True):
        if dimension == REPLICATED:
            result.append(Replicate())
        elif dimension_of(dimension) == 1:
            result.append(Shard(len(rows)))
        else:
            which = next((at for at, length in enumerate(rows) if length % size == 0), None)
            if which is None:
                return None
            rows[which] //= size
            result.append(Shard(which))
    return result
