"""A layer of every rank done again by the next rank: there a fault is seen that comes out alike on its own device.

    rank 0   layer, input  ->  rank 1   layer, input  ->  rank 2   layer, input  ->  rank 0

Where there are replicas, the next one with the same stages takes turns with the next rank: it has a layer like each.
Where a rank has several devices, these do a layer together, each with its parts of the tensors, and so do those of the
next rank, or of the replica: the devices at the same place of both meshes are neighbours.

The next rank puts the parameters that it gets into the place of those of a layer of its own that is built alike. Both
do a forward on the input that the layer had in the step, and a backward with the output in place of the gradient, and
compare checksums of the results and of the output in the step. A faulty rank differs from both of its neighbours.
"""

import pickle
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor, Replicate
from torch.func import functional_call
from torch.utils._pytree import tree_map

from evenflow_torch.models.parts import Part
from evenflow_torch.run.aa.bits import checksum
from evenflow_torch.run.aa.shares import how_it_lies, on_own_mesh, rings_of, without_mesh
from evenflow_torch.run.assembly.pipeline import Pipeline
from evenflow_torch.run.engine.runtime_stage import RuntimeStage
from evenflow_torch.run.engine.spread_tensors import local_part
from evenflow_torch.run.mesh.local_operators import on_mesh
from evenflow_torch.run.mesh.stage_modules import MeshStageModule
from evenflow_torch.run.replicas.gathered_again import whole

NEIGHBOUR_PERIOD = 16
"""Steps with checks from one exchange to the next, where nothing is suspected."""


@dataclass(slots=True)
class _Call:
    """A layer's forward in the step, as the next rank is to do it again."""

    name: str
    step: int
    microbatch: int
    build: str
    splits: bool
    tensors: dict[str, Tensor]
    arguments: tuple[Any, ...]
    named: dict[str, Any]
    random_state: Tensor
    sums: list[int]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """A layer of the rank before that was done again here."""

    rank: int
    layer: str
    microbatch: int
    differs: bool | None
    """None where this rank has no layer that is built alike."""


class NeighbourCheck:
    """Takes the call of one layer of this rank in a step, and compares it with the neighbours afterwards."""

    def __init__(self, pipe: Pipeline) -> None:
        self._pipe = pipe
        self._parts: list[tuple[RuntimeStage, Part]] = [
            (stage, part) for stage in pipe.stages for part in stage.submod.parts
        ]
        self._num_microbatches = pipe.schedule.num_microbatches
        self._builds = {id(part.module): _build(part.module) for _, part in self._parts}
        if pipe.mesh_plan is not None:
            for stage, part in self._parts:
                self._builds[id(part.module)] += how_it_lies(pipe.mesh_plan, stage.stage_index, part)
        self._rings = rings_of(pipe.replicas, pipe.schedule.num_ranks, pipe.mesh_plan)
        """Processes in a row, of which each does layers of the one before again; the two take turns."""
        self._ring: Sequence[int] = ()
        """That of the exchange that comes next."""
        self.computing: tuple[int, int] | None = None
        """Stage and microbatch of the forward that runs; layers are also called to learn shapes, and to recompute."""
        self._handle: Any = None
        self._call: _Call | None = None
        self._output: Tensor | None = None
        own = torch.tensor([len(self._parts)], device=pipe.stages[0].device)
        dist.all_reduce(own, op=dist.ReduceOp.MAX)
        self.num_turns = int(own) * len(self._rings)
        """Exchanges until every layer of every rank has been done again; none where no other process has one alike."""

    @property
    def layers(self) -> list[str]:
        """Names of this rank's layers."""
        return [part.path or part.name for _, part in self._parts]

    def listen(self, number: int, step: int) -> None:
        """Keep the call of the layer and microbatch whose turn it is, in the step that follows."""
        turn, place = divmod(number, len(self._rings))
        self._ring = self._rings[place]
        stage, part = self._parts[turn % len(self._parts)]
        microbatch = turn // len(self._parts) % self._num_microbatches
        cuda = stage.device.type == "cuda"
        taken: list[tuple[Tensor, dict[str, Tensor]]] = []

        def before(module: nn.Module, _arguments: Any) -> None:
            if self.computing == (stage.stage_index, microbatch) and not taken:
                state = torch.cuda.get_rng_state(stage.device) if cuda else torch.get_rng_state()
                taken.append((state, _tensors(module)))

        def after(module: nn.Module, arguments: Any, named: Any, output: Any) -> None:
            if not taken or self._call is not None:
                return
            state, tensors = taken[0]
            self._output = local_part(first_tensor(output)).detach().clone()
            self._call = _Call(
                name=part.path or part.name, step=step, microbatch=microbatch, build=self._builds[id(module)],
                splits=stage.dw_builder is not None, tensors=tensors, arguments=tree_map(_kept, arguments),
                named=tree_map(_kept, dict(named)), random_state=state, sums=[],
            )  # fmt: skip

        first = part.module.register_forward_pre_hook(before, prepend=True)
        last = part.module.register_forward_hook(after, with_kwargs=True)
        self._handle = (part.module, first, last)

    def compare(self) -> Compared | None:
        """Give the call to the next rank and do that of the rank before again; every rank calls it after the step."""
        module, *handles = self._handle
        for handle in handles:
            handle.remove()
        call, output = self._call, self._output
        self._call = self._output = None
        if call is not None and output is not None:
            call.sums = [int(checksum(output)), *self._again(module, call, has_backward=not call.splits)]
        received = _exchanged(_packed(call), self._ring)
        if received is None:
            return None
        before, (name, packed) = self._ring[self._ring.index(dist.get_rank()) - 1], received
        if packed is None:
            return Compared(rank=before, layer=name, microbatch=0, differs=None)
        other: _Call = pickle.loads(packed)
        alike = [(stage.dw_builder is not None, part.module) for stage, part in self._parts
                 if self._builds[id(part.module)] == other.build]  # fmt: skip
        differs = None
        if alike:
            splits, own = min(alike, key=lambda one: one[0])
            again = self._again(own, other, has_backward=not (splits or other.splits))
            again.insert(0, again[0])
            differs = other.sums[: len(again)] != again
        return Compared(rank=before, layer=other.name, microbatch=other.microbatch, differs=differs)

    def _again(self, module: nn.Module, call: _Call, *, has_backward: bool) -> list[int]:
        """Do a call again in a layer of this rank; all replicas do so at the same place."""
        stage = next(stage for stage, part in self._parts if part.module is module)
        if isinstance(stage.submod, MeshStageModule):
            call.tensors, call.arguments, call.named = on_own_mesh(
                (call.tensors, call.arguments, call.named), stage.submod.mesh
            )
            with on_mesh():
                return _sums(module, call, has_backward=has_backward)
        with whole(stage, self._pipe.runtime):
            return _sums(module, call, has_backward=has_backward)


def _packed(call: _Call | None) -> tuple[str, bytes | None] | None:
    """Return a call with its name; None for one whose arguments cannot travel, as they hold a function or a file."""
    if call is None:
        return None
    try:
        tensors, arguments, named = without_mesh((call.tensors, call.arguments, call.named))
        return call.name, pickle.dumps(replace(call, tensors=tensors, arguments=arguments, named=named))
    except (pickle.PicklingError, TypeError, AttributeError):
        return call.name, None


def _exchanged(packed: tuple[str, bytes | None] | None, ring: Sequence[int]) -> tuple[str, bytes | None] | None:
    """Send to the next process of a ring, receive from the one before; the even ones send first."""
    received: list[Any] = [None]
    if not ring:
        return None
    place = ring.index(dist.get_rank())
    for sends in (True, False) if place % 2 == 0 else (False, True):
        if sends:
            dist.send_object_list([packed], dst=ring[(place + 1) % len(ring)])
        else:
            dist.recv_object_list(received, src=ring[place - 1])
    result: tuple[str, bytes | None] | None = received[0]
    return result


def _sums(module: nn.Module, call: _Call, *, has_backward: bool) -> list[int]:
    """Do a call again with the parameters that came with it; return checksums of output and gradients.

    Layers of stages that split backwards do none: their weight gradients would wait with those of the step.
    """
    device = next((tensor.device for tensor in module.parameters()), torch.device("cpu"))
    tensors = {name: tensor.to(device).clone() for name, tensor in call.tensors.items()}
    trained = {name for name, parameter in module.named_parameters() if parameter.requires_grad}
    has_backward = has_backward and bool(trained)
    for name in trained:
        tensors[name].requires_grad_()
    arguments = [
        value.to(device).clone().requires_grad_(value.is_floating_point()) if isinstance(value, Tensor) else value
        for value in call.arguments
    ]
    named = tree_map(lambda value: value.to(device) if isinstance(value, Tensor) else value, call.named)
    with torch.random.fork_rng(devices=[device] if device.type == "cuda" else []):
        if device.type == "cuda":
            torch.cuda.set_rng_state(call.random_state, device)
        else:
            torch.set_rng_state(call.random_state)
        with torch.enable_grad():  # as the first time: some kernels are others without
            moved = {f"layer.{name}": tensor for name, tensor in tensors.items()}
            results = functional_call(_Both(module), moved, (tuple(arguments), named, has_backward))
    return [int(checksum(result)) for result in results]


class _Both(nn.Module):
    """Forward and backward of a layer in one call, as recomputation in the backward wants the same parameters."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, arguments: tuple[Any, ...], named: dict[str, Any], has_backward: bool) -> list[Tensor]:
        output = first_tensor(self.layer(*arguments, **named))
        own = local_part(output).detach().clone()
        if isinstance(output, DTensor):  # parts of a sum are no gradient, and those of a masked one must be added
            output = output.redistribute(
                placements=[Replicate() if placement.is_partial() else placement for placement in output.placements]
            )
        if not has_backward:
            return [own]
        wanted = [value for value in (*arguments, *self.layer.parameters()) if isinstance(value, Tensor)]
        wanted = [value for value in wanted if value.requires_grad]
        gradients = torch.autograd.grad(output, wanted, output.detach(), allow_unused=True)
        return [own, *(gradient for gradient in gradients if gradient is not None)]


def _build(module: nn.Module) -> str:
    """Return what two modules have in common that compute alike with the same parameters."""
    shapes = [(name, tuple(tensor.shape), str(tensor.dtype)) for name, tensor in _tensors(module, copies=False).items()]
    frozen = [name for name, parameter in module.named_parameters() if not parameter.requires_grad]
    plain = [
        sorted(f"{name}={value}" for name, value in vars(one).items()
               if isinstance(value, bool | int | float | str) and name != "layer_idx")
        for one in module.modules()
    ]  # fmt: skip
    return str((type(module).__module__, type(module).__qualname__, str(module), shapes, frozen, plain))


def _tensors(module: nn.Module, *, copies: bool = True) -> dict[str, Tensor]:
    tensors = dict(module.named_parameters()) | dict(module.named_buffers())
    return {name: tensor.detach().clone() if copies else tensor for name, tensor in tensors.items()}


def _kept(value: Any) -> Any:
    return value.detach().clone() if isinstance(value, Tensor) else value


def first_tensor(output: Any) -> Tensor:
    """Return a layer's output, or the first tensor of it."""
    return output if isinstance(output, Tensor) else next(one for one in output if isinstance(one, Tensor))
