"""Parameters that are kept split and used whole (ZeRO-3): gathered for a layer while the one beside it computes.

    forward     layer 0      layer 1      layer 2       each layer's gather runs beside the layer before it, and what
      gather 1    | gather 2   |                        was gathered is freed behind the layer
    backward    layer 2      layer 1      layer 0       and the same the other way round
      gather 1    | gather 0   |

The graph of a forward keeps no gathered parameter: where it would save a view of one, it keeps only where in it the
view lies, and the backward takes the view of what has been gathered again. [FSDP, arXiv:2304.11277, §3.3, §4.2]
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard

from evenflow.cluster import REPLICATED
from evenflow.model import NONE, OFFLOAD
from evenflow_torch.models.parts import Part
from evenflow_torch.run.engine.spread_tensors import local_part, spreading, storage_address
from evenflow_torch.run.engine.stages import StageModule, StageParts
from evenflow_torch.run.mesh.moving import Gather, Moving, gathering


class GatheredParameter:
    """A parameter that the modules of one layer have split, or whole along some axes while the layer computes."""

    def __init__(self, split: nn.Parameter, placements: Sequence[Placement]) -> None:
        self.split = split
        self.placements = list(placements)
        self.places: list[tuple[nn.Module, str]] = []
        """Modules that have it, and the name they have for it."""
        self.is_read_again = False
        """Whether the backward needs it."""
        self._moving: Gather | Moving | None = None
        self._whole: DTensor | None = None

    @property
    def local(self) -> Tensor | None:
        """This device's copy of the whole parameter; None while it is not gathered."""
        return None if self._whole is None else local_part(self._whole)

    def begin(self) -> None:
        """Begin to gather the whole parameter."""
        if self._moving is None and self._whole is None:
            self._moving = gathering(self.split, self.placements)

    def use(self) -> None:
        """Wait for the whole parameter and give it to the modules; its gradient goes to the split one."""
        self.begin()
        if self._moving is not None:
            self._whole, self._moving = self._moving.arrived(), None
        with torch.enable_grad():
            whole = _Whole.apply(self.split, self._whole)
        for module, name in self.places:
            module._parameters[name] = whole

    def free(self) -> None:
        """Give the split parameter back to the modules, and drop the whole one."""
        for module, name in self.places:
            module._parameters[name] = self.split
        self._whole = None

    def leave(self) -> None:
        """Free the whole parameter, even while it is still being gathered."""
        if self._moving is not None:
            self._moving.arrived()
            self._moving = None
        self.free()


class _Whole(torch.autograd.Function):
    """The whole parameter, whose gradient goes to the split one as it comes, often a partial sum."""

    @staticmethod
    def forward(context: Any, _split: Tensor, whole: Tensor) -> Tensor:
        context.set_materialize_grads(False)
        return whole.detach()

    @staticmethod
    def backward(_context: Any, *gradients: Any) -> Any:
        return gradients[0], None


@dataclass(frozen=True, slots=True)
class _View:
    """Where a tensor that the backward needs lies in a gathered parameter."""

    parameter: GatheredParameter
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int
    spread: Callable[[Tensor], Tensor]
    """Makes of this device's part what was saved."""

    def again(self) -> Tensor:
        """Return the tensor as it was, as a view of the parameter that is gathered now."""
        if self.parameter.local is None:
            self.parameter.use()
        assert self.parameter.local is not None
        with torch.no_grad():
            return self.spread(self.parameter.local.as_strided(self.size, self.stride, self.offset))


class GatheredLayers:
    """The layers of one stage whose parameters are gathered for their use."""

    def __init__(self, layers: Sequence[Sequence[GatheredParameter]], before_use: Sequence[Callable[[], None]]) -> None:
        """`before_use` waits for the split parameters of each layer."""
        self.layers = layers
        self._before_use = before_use
        self._here: dict[int, GatheredParameter] = {}
        """Those of the layer that computes, by the address of their storage."""

    def wrapped(self, forwards: Sequence[Callable[..., Any]]) -> list[Callable[..., Any]]:
        """Return the forwards of the layers with gathers around them, or as they are where nothing is gathered."""
        if not any(self.layers):
            return list(forwards)
        return [partial(self._forward, index, forward) for index, forward in enumerate(forwards)]

    def ended(self) -> None:
        """Free everything that is still gathered after a forward or backward of the stage."""
        self._here = {}
        for layer in self.layers:
            for parameter in layer:
                parameter.leave()

    def pack(self, tensor: Tensor) -> Any:
        """Return what the graph keeps of a tensor that it wants to save."""
        local = local_part(tensor)
        parameter = self._here.get(storage_address(local))
        if parameter is None or parameter.local is None or parameter.local.dtype != local.dtype:
            return tensor
        parameter.is_read_again = True
        return _View(parameter, tuple(local.shape), local.stride(), int(local.storage_offset()), spreading(tensor))

    def unpack(self, packed: Any) -> Tensor:
        """Return the tensor of which the graph has kept `packed`."""
        return packed.again() if isinstance(packed, _View) else packed

    def _forward(self, index: int, forward: Callable[..., Any], hidden: Tensor, **arguments: Any) -> Any:
        if torch.is_autocast_enabled(hidden.device.type):
            # A copy of another type, which the graph would keep, is better gathered where it is used.
            return forward(hidden, **arguments)
        self._begins(index, index + 1, self.layers)
        try:
            with saved_tensors_hooks(self.pack, self.unpack):
                result = forward(hidden, **arguments)
        finally:
            self._free()
        if isinstance(result, Tensor) and result.requires_grad and result is not hidden:
            result.register_hook(partial(self._backward, index))
        return result

    def _backward(self, index: int, _gradient: Tensor) -> None:
        """Change layers: autograd runs what was recorded last first, so all of the layer behind is done."""
        self._begins(
            index, index - 1, [[parameter for parameter in layer if parameter.is_read_again] for layer in self.layers]
        )

    def _free(self) -> None:
        """Free what was gathered for the layer that computed last."""
        for parameter in self._here.values():
            parameter.free()
        self._here = {}

    def _begins(self, index: int, after: int, layers: Sequence[Sequence[GatheredParameter]]) -> None:
        self._free()
        for parameter in layers[index]:  # those that no layer beside it has begun, all at once
            parameter.begin()
        for parameter in layers[index]:
            parameter.use()
            if parameter.local is not None:
                self._here[storage_address(parameter.local)] = parameter
        if 0 <= after < len(layers) and layers[after]:
            self._before_use[after]()
            for parameter in layers[after]:
                parameter.begin()


def gather_around(
    module: StageModule, stage: StageParts, gathered: Mapping[str, Sequence[int]], before_use: Callable[[Part], None]
) -> GatheredLayers:
    """Gather the parameters that `gathered` names around the layers of a stage, in place.

    `before_use` waits for the split parameters of a part.
    """
    layers = GatheredLayers(
        [gathered_parameters(part, gathered) for part in stage.parts],
        [partial(before_use, part) for part in stage.parts],
    )
    for part, parameters in zip(stage.parts, layers.layers, strict=True):
        runs_again = stage.kinds.get(part.position, NONE) not in (NONE, OFFLOAD)
        for parameter in parameters:  # what the backward reads without the graph's knowledge
            is_deferred = stage.splits_backward and any(isinstance(module, nn.Linear) for module, _ in parameter.places)
            parameter.is_read_again = runs_again or is_deferred
    module.offload.pack, module.offload.unpack = layers.pack, layers.unpack
    module.forwards = layers.wrapped(module.forwards)
    return layers


def gathered_parameters(part: Part, gathered: Mapping[str, Sequence[int]]) -> list[GatheredParameter]:
    """Return the parameters of a part that are used whole along axes that split them, as `gathered` names them."""
    by_id: dict[int, GatheredParameter] = {}
    for path, module in part.module.named_modules():
        for last, parameter in module.named_parameters(recurse=False):
            wanted = gathered.get(".".join(piece for piece in (part.path, path, last) if piece))
            if wanted is None or not isinstance(parameter, DTensor):
                continue
            placements = [
                Replicate() if isinstance(own, Shard) and used == REPLICATED else own
                for own, used in zip(parameter.placements, wanted, strict=True)
            ]
            if tuple(placements) != tuple(parameter.placements):
                gathered_parameter = by_id.setdefault(id(parameter), GatheredParameter(parameter, placements))
                gathered_parameter.places.append((module, last))
    return list(by_id.values())
