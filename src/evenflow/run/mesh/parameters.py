"""Gradients of parameters on several devices: partial sums added, also over stages that share a parameter."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from evenflow.cluster import Layout, MeshPlan, plan_resharding
from evenflow.run.engine.shared_parameters import names_of, parameter_of, share
from evenflow.run.engine.stages import StageParts
from evenflow.run.mesh.exchange import reshard
from evenflow.run.mesh.stage_modules import placements


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """A shared parameter on the devices of one rank of the pipeline."""

    layout: Layout
    parameter: nn.Parameter | None
    """The parameter if this device has it, else None."""


class MeshParameters:
    """Sums gradients around a step, as `evenflow.run.engine.shared_parameters.SharedParameters`.

    During a step gradients stay partial sums over the devices that had other samples, and are summed once after it.
    Where the plan splits a parameter's update further than the parameter, the optimizer gets a copy that is split so:
    its gradient arrives by a reduce-scatter, and the parameter is gathered from it before the next step.
    [ZeRO, arXiv:1910.02054, §5] Copies of a shared parameter on other ranks exchange their gradients part by part. They
    begin equal.
    """

    def __init__(
        self, shared: Sequence[Sequence[str]], stages: Sequence[StageParts], plan: MeshPlan, rank: int
    ) -> None:
        self._plan = plan
        own = {name: part for stage in stages if stage.rank == rank for part in stage.parts for name in names_of(part)}
        share(shared, own)
        parameters = {name: parameter_of(name, part) for name, part in own.items()}
        self._parameters = list({id(parameter): parameter for parameter in parameters.values()}.values())
        self._updated = {
            id(parameters[name]): _placed(parameters[name], placement)
            for where in plan.stages
            for name, placement in where.updates.items()
            if where.rank == rank and name in parameters
        }
        self._copies = [copies for names in shared if len(copies := _copies(names, stages, plan, parameters)) > 1]
        self._before: list[Tensor | None] = []

    def updated(self, parameter: nn.Parameter) -> nn.Parameter:
        """Return the parameter that the optimizer updates for `parameter`: itself or a copy that is split further."""
        return self._updated.get(id(parameter), parameter)

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

    def before_step(self) -> None:
        """Gather what was updated; set aside the gradients of earlier steps, which have been summed already."""
        with torch.no_grad():
            for parameter in self._parameters:
                if id(parameter) in self._updated:
                    parameter.copy_(self._updated[id(parameter)].detach().redistribute(placements=parameter.placements))
        self._before = [self.updated(parameter).grad for parameter in self._parameters]
        for parameter in self._parameters:
            parameter.grad = self.updated(parameter).grad = None

    def after_step(self) -> None:
        """Sum the gradients of the step."""
        shared = {id(copy.parameter) for copies in self._copies for copy in copies}
        for parameter in self._parameters:
            if isinstance(parameter.grad, DTensor):
                target = parameter if id(parameter) in shared else self.updated(parameter)
                parameter.grad = parameter.grad.redistribute(placements=target.placements)
        for copies in self._copies:
            self._sum(copies)
        for parameter, before in zip(self._parameters, self._before, strict=True):
            copy, gradient = self.updated(parameter), parameter.grad
            if copy is not parameter:
                parameter.grad = None
                gradient = None if gradient is None else gradient.redistribute(placements=copy.placements)
            if before is not None:
                gradient = before if gradient is None else before.add_(gradient)
            copy.grad = gradient
        self._before = []

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
                    plan, local if source.parameter is not None else None, dtype=like.dtype, device=like.device
                )
                if arrived is not None:
                    parts.append(arrived)
        if own is not None:
            total = torch.stack([part for part in parts if part is not None]).sum(dim=0)
            own.grad = DTensor.from_local(total, own.device_mesh, own.placements)


def _placed(parameter: nn.Parameter, placement: Sequence[int]) -> nn.Parameter:
    """Return a copy with another placement, for the optimizer to update."""
    copy = parameter.detach().redistribute(placements=placements(placement)).clone()
    return nn.Parameter(copy, requires_grad=parameter.requires_grad)


def _local_gradient(parameter: nn.Parameter) -> Tensor:
    gradient = parameter.grad
    if gradient is None:
        return torch.zeros_like(parameter.detach().to_local())
    local: Tensor = gradient.to_local()
    return local


def _copies(
    names: Sequence[str], stages: Sequence[StageParts], plan: MeshPlan, own: Mapping[str, nn.Parameter]
) -> list[_Copy]:
    """Return a copy for each rank that has some of the names, with the placement of its first one."""
    ranks: dict[int, tuple[int, str]] = {}
    for stage, name in _homes(names, stages):
        ranks.setdefault(stage.rank, (stage.index, name))
    copies = []
    for index, name in ranks.values():
        where = plan.stages[index]
        shape = next(tuple(parameter_of(name, part).shape) for part in stages[index].parts if name in names_of(part))
        layout = Layout(
            shape=shape, item_bytes=1, mesh=where.mesh, placement=tuple(where.parameters[name]), devices=where.devices
        )
        copies.append(_Copy(layout=layout, parameter=own.get(name) if name in own else None))
    return copies


def _homes(names: Sequence[str], stages: Sequence[StageParts]) -> Iterator[tuple[StageParts, str]]:
    for stage in stages:
        held = {name for part in stage.parts for name in names_of(part)}
        for name in names:
            if name in held:
                yield stage, name
