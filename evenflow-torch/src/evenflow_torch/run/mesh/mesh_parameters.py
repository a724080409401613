"""Gradients of parameters on several devices: partial sums added, also over stages that share a parameter."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from evenflow.cluster import MeshPlan, TensorLayout, plan_resharding
from evenflow_torch.models.parts import Part
from evenflow_torch.run.engine.shared_parameters import names_of, parameter_of, share
from evenflow_torch.run.engine.spread_tensors import local_part
from evenflow_torch.run.engine.stages import StageParts
from evenflow_torch.run.mesh.exchange import reshard
from evenflow_torch.run.mesh.local_parts import torch_placements
from evenflow_torch.run.mesh.moving import GradientSum, Moving, summed_at

_Layer = tuple[int, str]
"""A stage and the path of a part in it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """A shared parameter on the devices of one rank of the pipeline."""

    layout: TensorLayout
    parameter: nn.Parameter | None
    """The parameter if this device has it, else None."""


class MeshParameters:
    """Sums gradients around a step, as `evenflow_torch.run.engine.shared_parameters.SharedParameters`.

    During a step gradients stay partial sums over the devices that had other samples, and are summed once, layer by
    layer: as soon as the last backward of a stage has made those of a layer, their collectives begin, and the backward
    goes on. They are waited for when the step ends. Where the plan sums gradients that are reduced already (ZeRO-2 and
    3), every backward does so. Where the plan splits a parameter's update further than the parameter, the optimizer
    gets a copy that is split so: its gradient arrives by a reduce-scatter, and the parameter is gathered from it when
    the next step begins, while the layers before it compute. [ZeRO, arXiv:1910.02054, §5]
    Copies of a shared parameter on other ranks exchange their gradients part by part, after the step. They begin equal.
    """

    def __init__(
        self,
        shared: Sequence[Sequence[str]],
        stages: Sequence[StageParts],
        plan: MeshPlan,
        rank: int,
        pipeline: dist.ProcessGroup | None = None,
    ) -> None:
        """`rank` is that of this device in the pipeline, whose devices are the processes of `pipeline`, or all."""
        self._plan = plan
        self._pipeline = pipeline
        own = {name: part for stage in stages if stage.rank == rank for part in stage.parts for name in names_of(part)}
        share(shared, own)
        parameters = {name: parameter_of(name, part) for name, part in own.items()}
        self._parameters = list({id(parameter): parameter for parameter in parameters.values()}.values())
        self._updated = {
            id(parameters[name]): _placed(parameters[name], placement)
            for on_mesh in plan.stages
            for name, placement in on_mesh.updates.items()
            if on_mesh.rank == rank and name in parameters
        }
        self._copies = [copies for names in shared if len(copies := _copies(names, stages, plan, parameters)) > 1]
        self._shared = {id(copy.parameter) for copies in self._copies for copy in copies}
        self._before: list[Tensor | None] = []
        self._layers = self._layers_of([stage for stage in stages if stage.rank == rank])
        self._gathered: dict[int, Moving] = {}
        """Parameters on their way from the optimizer's copy."""
        self._sums: dict[int, GradientSum] = {}
        """Gradients of the step that have left their parameter."""
        self._summed_at = {
            id(parameters[name]): placement
            for on_mesh in plan.stages
            for name, placement in on_mesh.gradients.items()
            if on_mesh.rank == rank and name in parameters
        }
        self._waiting: dict[_Layer, set[int]] = {}
        """Gradients that the backward of a stage has still to make, by layer."""
        self._is_last = False
        """Whether that backward is the last one of the step."""
        for layer, parameters_of_layer in self._layers.items():
            for parameter in parameters_of_layer:
                parameter.register_post_accumulate_grad_hook(partial(self._made, layer))

    def _layers_of(self, stages: Sequence[StageParts]) -> dict[_Layer, list[nn.Parameter]]:
        """Return the parameters that are trained in one layer alone, by layer."""
        homes: dict[int, list[_Layer]] = {}
        for stage in stages:
            for part in stage.parts:
                for parameter in part.module.parameters():
                    homes.setdefault(id(parameter), []).append((stage.index, part.path))
        layers: dict[_Layer, list[nn.Parameter]] = {}
        for parameter in self._parameters:
            layers_of_parameter = homes[id(parameter)]
            if parameter.requires_grad and len(layers_of_parameter) == 1 and id(parameter) not in self._shared:
                layers.setdefault(layers_of_parameter[0], []).append(parameter)
        return layers

    def updated(self, parameter: nn.Parameter) -> nn.Parameter:
        """Return the parameter that the optimizer updates for `parameter`: itself or a copy that is split further."""
        return self._updated.get(id(parameter), parameter)

    def all_updated(self) -> list[nn.Parameter]:
        """Return what the optimizer updates on this device."""
        return [self.updated(parameter) for parameter in self._parameters]

    def is_owned(self, parameter: nn.Parameter) -> bool:
        """Return whether a parameter is of this rank alone, or the first of its copies, so that each is owned once."""
        others = (copy.parameter for copies in self._copies for copy in copies[1:])
        return not any(parameter is other for other in others)

    def loaded(self) -> None:
        """Copy new values of the parameters to those of the optimizer."""
        with torch.no_grad():
            for parameter in self._parameters:
                if id(parameter) in self._updated:
                    copy = self._updated[id(parameter)]
                    copy.copy_(parameter.detach().redistribute(placements=copy.placements))

    def before_evaluation(self) -> None:
        """Begin to gather the updated parameters."""
        self._gathered = {
            id(parameter): Moving(self._updated[id(parameter)], parameter.placements)
            for parameter in self._parameters
            if id(parameter) in self._updated
        }

    def after_evaluation(self) -> None:
        """Wait for updated parameters that nothing has waited for."""
        for parameter in self._parameters:
            self._arrived(parameter)

    def before_step(self) -> None:
        """Begin to gather the updated parameters, and set aside the gradients of earlier steps, which are summed."""
        self.before_evaluation()
        self._sums.clear()
        self._waiting.clear()
        self._before = [self.updated(parameter).grad for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = self.updated(parameter).grad = None

    def before_use(self, part: Part) -> None:
        """Wait for the parameters of a part, which is about to compute."""
        if self._gathered:
            for parameter in part.module.parameters():
                self._arrived(parameter)

    def backward_begins(self, stage: int, *, is_last: bool) -> None:
        """Reduce the gradients of a stage's layers from now on, as they are made."""
        self._is_last = is_last
        self._waiting = {
            layer: {id(parameter) for parameter in parameters}
            for layer, parameters in self._layers.items()
            if layer[0] == stage
        }

    def backward_ended(self, stage: int, *, is_last: bool) -> None:
        """Reduce those gradients of a stage that are not yet on their way; after the last backward, all of them."""
        self._waiting, self._is_last = {}, is_last
        for layer in reversed(self._layers):
            if layer[0] == stage:
                self._reduce(layer)

    def _made(self, layer: _Layer, parameter: Tensor) -> None:
        """Note that the gradient of a parameter is there."""
        waiting = self._waiting.get(layer)
        if waiting is not None:
            waiting.discard(id(parameter))
            if not waiting:
                del self._waiting[layer]
                self._reduce(layer)

    def _reduce(self, layer: _Layer) -> None:
        """Begin to move a layer's gradients to where they are summed, after the last backward to where they are used.

        Those that are summed as they come stay where they are until then.
        """
        for parameter in self._layers[layer]:
            gradient, wanted = parameter.grad, self._summed_at.get(id(parameter))
            if isinstance(gradient, DTensor) and (self._is_last or wanted is not None):
                total = self._sums.setdefault(id(parameter), GradientSum())
                if wanted is not None:
                    total.add(gradient, summed_at(gradient, wanted))
                else:
                    total.add(gradient, self.updated(parameter).placements)
                parameter.grad = None
                if self._is_last:
                    total.bring_to(self.updated(parameter).placements)

    def _arrived(self, parameter: nn.Parameter) -> None:
        moving = self._gathered.pop(id(parameter), None)
        if moving is not None:
            with torch.no_grad():
                parameter.copy_(moving.arrived())

    def after_step(self) -> None:
        """Sum the gradients of the step, and wait for those that are on their way."""
        self.after_evaluation()
        for parameter in self._parameters:
            if id(parameter) not in self._sums and isinstance(parameter.grad, DTensor):
                target = parameter if id(parameter) in self._shared else self.updated(parameter)
                parameter.grad = parameter.grad.redistribute(placements=target.placements)
        for copies in self._copies:
            self._sum(copies)
        for parameter, before in zip(self._parameters, self._before, strict=True):
            copy = self.updated(parameter)
            gradient = self._summed(parameter, copy)
            if copy is not parameter:
                parameter.grad = None
            if before is not None:
                gradient = before if gradient is None else before.add_(gradient)
            copy.grad = gradient
        self._before = []

    def _summed(self, parameter: nn.Parameter, copy: nn.Parameter) -> Tensor | None:
        """Return the gradient of the step, placed as the parameter that the optimizer updates."""
        if id(parameter) in self._sums:
            return self._sums.pop(id(parameter)).arrived()
        gradient = parameter.grad
        if gradient is None or copy is parameter:
            return gradient
        return gradient.redistribute(placements=copy.placements)

    def _sum(self, copies: Sequence[_Copy]) -> None:
        """Add the gradients of all copies, on every rank in the same order, so that copies stay equal."""
        own = next((copy.parameter for copy in copies if copy.parameter is not None), None)
        local = None if own is None else _local_gradient(own)
        parts = []
        for source in copies:
            for target in copies:
                if source is target:
                    if source.parameter is not None:
                        parts.append(local)
                    continue
                plan = plan_resharding(source.layout, target.layout, self._plan.cluster)
                like = local if local is not None else torch.empty(0)
                arrived = reshard(
                    plan, local if source.parameter is not None else None, dtype=like.dtype, device=like.device,
                    group=self._pipeline,
                )  # fmt: skip
                if arrived is not None:
                    parts.append(arrived)
        if own is not None:
            total = torch.stack([part for part in parts if part is not None]).sum(dim=0)
            own.grad = DTensor.from_local(total, own.device_mesh, own.placements)


def _placed(parameter: nn.Parameter, placement: Sequence[int]) -> nn.Parameter:
    """Return a copy with another placement, for the optimizer to update."""
    copy = parameter.detach().redistribute(placements=torch_placements(placement)).clone()
    return nn.Parameter(copy, requires_grad=parameter.requires_grad)


def _local_gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(local_part(parameter)) if parameter.grad is None else local_part(parameter.grad)


def _copies(
    names: Sequence[str], stages: Sequence[StageParts], plan: MeshPlan, own: Mapping[str, nn.Parameter]
) -> list[_Copy]:
    """Return a copy for each rank that has some of the names, with the placement of its first one."""
    ranks: dict[int, tuple[int, str]] = {}
    for stage, name in _homes(names, stages):
        ranks.setdefault(stage.rank, (stage.index, name))
    copies = []
    for index, name in ranks.values():
        on_mesh = plan.stages[index]
        shape = next(tuple(parameter_of(name, part).shape) for part in stages[index].parts if name in names_of(part))
        layout = TensorLayout(
            shape=shape,
            item_bytes=1,
            mesh=on_mesh.mesh,
            placement=tuple(on_mesh.parameters[name]),
            devices=on_mesh.devices,
        )
        copies.append(_Copy(layout=layout, parameter=own.get(name) if name in own else None))
    return copies


def _homes(names: Sequence[str], stages: Sequence[StageParts]) -> Iterator[tuple[StageParts, str]]:
    for stage in stages:
        held = {name for part in stage.parts for name in names_of(part)}
        for name in names:
            if name in held:
                yield stage, name
