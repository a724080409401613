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

    Copies are exchanged among the processes of the pipeline: a group of some of them would hang where these have other
    numbers of groups than one another.
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
                copy = _Copy(name=held[0], part=own[held[0]], pipeline=pipeline, ranks=ranks, rank=rank)
                copy.parameter.data.copy_(copy.of_all(copy.parameter.data)[0])
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
            first, *others = copy.of_all(local_part(gradient))
            total = first.clone()
            for other in others:  # in the same order on all ranks, so that copies stay equal
                total.add_(other)
            local_part(gradient).copy_(total)
            parameter.grad = gradient if before is None else before.add_(gradient)
        self._before = []


@dataclass(frozen=True, slots=True, kw_only=True)
class _Copy:
    """A parameter of this rank that others have copies of."""

    name: str
    part: Part
    pipeline: dist.ProcessGroup
    """Processes of the ranks, in order."""
    ranks: Sequence[int]
    """Ranks that have a copy."""
    rank: int
    """This one."""

    @property
    def is_first(self) -> bool:
        """Whether this rank is the first of them."""
        return self.rank == self.ranks[0]

    def of_all(self, tensor: Tensor) -> list[Tensor]:
        """Return the tensors that all these ranks call it with, in their order."""
        own = tensor.contiguous()
        tensors = [own if peer == self.rank else torch.empty_like(own) for peer in self.ranks]
        messages = []
        for peer, received in zip(self.ranks, tensors, strict=True):
            if peer != self.rank:
                messages.append(dist.P2POp(dist.isend, own, group=self.pipeline, group_peer=peer))
                messages.append(dist.P2POp(dist.irecv, received, group=self.pipeline, group_peer=peer))
        for work in dist.batch_isend_irecv(messages):
            work.wait()
        return tensors

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
