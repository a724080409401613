"""Parameters that several stages share, such as tied embeddings: one copy per rank, gradients summed over the ranks."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn

from evenflow_torch.models.parts import Part
from evenflow_torch.run.engine.spread_tensors import local_part
from evenflow_torch.run.engine.stages import StageParts


class SharedParameters:
    """Keeps the copies of shared parameters equal.

    A rank that holds several of the names holds one parameter for them. Where the names are on several ranks, each has
    a copy, which begins with the value on the first of them and gets the sum of all gradients; equal optimizers then
    keep the copies equal. Where replicas share parameters, each has its part of all copies.
    """

    def __init__(
        self,
        shared: Sequence[Sequence[str]],
        stages: Sequence[StageParts],
        rank: int,
        pipeline: dist.ProcessGroup,
    ) -> None:
        """`pipeline` has the processes of the ranks, in order."""
        self._copies: list[_Copy] = []
        self._before: list[Tensor | None] = []
        ranks_of: dict[str, set[int]] = {}
        for stage in stages:
            for name in (name for part in stage.parts for name in names_of(part)):
                ranks_of.setdefault(name, set()).add(stage.rank)
        own = {name: part for stage in stages if stage.rank == rank for part in stage.parts for name in names_of(part)}
        share(shared, own)
        for names in shared:
            ranks = sorted(set().union(*(ranks_of[name] for name in names)))
            held = [name for name in names if name in own]
            if len(ranks) > 1 and held:
                processes = [dist.get_global_rank(pipeline, peer) for peer in ranks]
                group = dist.new_group(processes, use_local_synchronization=True)
                copy = _Copy(name=held[0], part=own[held[0]], group=group, is_first=rank == ranks[0])
                dist.broadcast(copy.parameter.data, group_src=0, group=group)
                self._copies.append(copy)

    def is_owned(self, parameter: nn.Parameter) -> bool:
        """Return whether a parameter is this rank's own, or the first of its copies, so that each is owned once."""
        return all(copy.is_first or copy.parameter is not parameter for copy in self._copies)

    def updated(self, parameter: nn.Parameter) -> nn.Parameter:
        """Return the parameter that the optimizer updates for `parameter`: itself."""
        return parameter

    def loaded(self) -> None:
        """Do nothing about new values of the parameters."""

    def before_evaluation(self) -> None:
        """Do nothing: every copy has its value."""

    def after_evaluation(self) -> None:
        """Do nothing, as before it."""

    def before_step(self) -> None:
        """Set aside the gradients of earlier steps, which have been summed already."""
        self._before = []
        for copy in self._copies:
            self._before.append(copy.parameter.grad)
            copy.parameter.grad = None

    def after_step(self) -> None:
        """Sum the gradients of the step over the ranks."""
        for copy, before in zip(self._copies, self._before, strict=True):
            parameter = copy.parameter
            gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
            dist.all_reduce(local_part(gradient), group=copy.group)
            parameter.grad = gradient if before is None else before.add_(gradient)
        self._before = []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """A parameter of this rank that others have copies of."""

    name: str
    part: Part
    group: dist.ProcessGroup
    """Processes of the ranks that have a copy, this one's pipeline alone."""
    is_first: bool
    """Whether this rank is the first of them."""

    @property
    def parameter(self) -> nn.Parameter:
        """The parameter as it is now: replicas that come to share it replace it."""
        return parameter_of(self.name, self.part)


def names_of(part: Part) -> list[str]:
    """Return the names of a part's parameters in the unsplit model, all of them where they share one."""
    return [name for name, _ in part.module.named_parameters(prefix=part.path, remove_duplicate=False)]


def repeated_names(stages: Sequence[StageParts], rank: int) -> frozenset[str]:
    """Return the names of parameters on a rank that the rank of an earlier stage has too."""
    first: dict[str, int] = {}
    for stage in stages:
        for part in stage.parts:
            for name in names_of(part):
                first.setdefault(name, stage.rank)
    own = {name for stage in stages if stage.rank == rank for part in stage.parts for name in names_of(part)}
    return frozenset(name for name in own if first[name] != rank)


def share(shared: Sequence[Sequence[str]], homes: Mapping[str, Part]) -> None:
    """Make shared names on this rank one parameter again; `homes` has the part of every name on this rank."""
    for names in shared:
        held = [name for name in names if name in homes]
        for name in held[1:]:
            path, _, last = _inside(name, homes[name]).rpartition(".")
            setattr(homes[name].module.get_submodule(path), last, parameter_of(held[0], homes[held[0]]))


def parameter_of(name: str, part: Part) -> nn.Parameter:
    """Return a parameter of a part by its name in the unsplit model."""
    return part.module.get_parameter(_inside(name, part))


def _inside(name: str, part: Part) -> str:
    """Return the name in a part of what has this name in the unsplit model."""
    return name.removeprefix(f"{part.path}.") if part.path else name
