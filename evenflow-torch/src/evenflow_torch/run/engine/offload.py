"""Layers whose activations wait for the backward in the host's memory.

Where the plan says when they move, all layers of a stage move together: see `evenflow_torch.run.engine.host_traffic`.
Where it does not, they move layer by layer:

    forward     layer 0     layer 1     layer 2          every layer's activations go to the host while the next
                  |  send 0   |  send 1   | send 2       one computes
    backward    layer 2     layer 1     layer 0          and come back while the one behind it computes
         fetch 1  |  fetch 0  |

Both happen on a stream of their own where the device has streams. Parameters and buffers, and what layers are given
beside their input, such as masks, are there anyway and stay.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from evenflow_torch.models.checkpointing import under_checkpoint
from evenflow_torch.run.engine.host_traffic import Moved, View
from evenflow_torch.run.engine.spread_tensors import as_it_is, local_part, spreading, storage_address
from evenflow_torch.run.engine.torch_names import tree_leaves


class Offload:
    """The layers of one stage that offload; `begin` before every forward of the stage.

    `keeps_input` is whether the first layer keeps the input of the stage without moving it.
    """

    def __init__(self, *, keeps_input: bool = True) -> None:
        self.is_planned = False
        """Whether the plan says when they move; then what a forward keeps stays unless it is given a place."""
        self.moving: Moved | None = None
        """The place for what the next forward keeps."""
        self._keeps_input = keeps_input
        self.pack: Callable[[Tensor], Any] = as_it_is
        """What the graph keeps of parameters and buffers, and `unpack` what that stands for."""
        self.unpack: Callable[[Any], Tensor] = as_it_is
        self._newest: _Layer | None = None
        self._streams: dict[torch.device, Any] = {}

    def begin(self, hidden: Tensor) -> None:
        """Start a new microbatch with the input of the stage; layers of the one before are no longer fetched ahead."""
        self._newest = None
        if self.moving is not None:
            self.moving.begins_with(hidden, is_kept=self._keeps_input)

    @contextmanager
    def into(self, moved: Moved | None) -> Iterator[None]:
        """Give the forward inside a place for what it keeps; None: that stays."""
        self.moving = moved
        try:
            yield
        finally:
            self.moving = None

    def forward_of(self, module: nn.Module) -> Callable[..., Any]:
        """Return the forward of `module` that sends what it saves to the host."""
        return partial(self._forward, module)

    def recomputed(self, module: nn.Module, **options: Any) -> Callable[..., Any]:
        """Return the forward of `module` that runs again in the backward, and whose input waits on the host.

        `options` are those of `checkpoint`.
        """
        return partial(self._recomputed, module, options)

    def _recomputed(
        self, module: nn.Module, options: Mapping[str, Any], hidden: Tensor, *others: Tensor, **kwargs: Any
    ) -> Any:
        if not torch.is_grad_enabled():
            return module(hidden, *others, **kwargs)
        place = self._place()
        if place is None:
            return under_checkpoint(module, **options)(hidden, *others, **kwargs)
        sent, is_trained, first = place.send(hidden), hidden.requires_grad, [hidden]

        def run(_on_device: Tensor) -> Any:
            """Compute with the input, the second time with that from the host."""
            value = first.pop() if first else _back(sent).detach().requires_grad_(is_trained)
            return module(value, *others, **kwargs)

        # The empty tensor says on which device random numbers are kept; the input itself must not stay for it.
        return under_checkpoint(run, **options)(hidden.detach().new_empty(0))

    def _forward(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
        place = self._place()
        if place is None:
            return module(*args, **kwargs)
        given = [value for value in tree_leaves(kwargs) if isinstance(value, Tensor)]
        stays = {storage_address(tensor) for tensor in (*module.parameters(), *module.buffers(), *given)}

        def pack(tensor: Tensor) -> Any:
            return self.pack(tensor) if storage_address(tensor) in stays else place.send(tensor)

        def unpack(packed: Any) -> Tensor:
            return _back(packed) if isinstance(packed, _Sent | View) else self.unpack(packed)

        with saved_tensors_hooks(pack, unpack):
            return module(*args, **kwargs)

    def _place(self) -> "Moved | _Layer | None":
        """Return what takes the tensors of the next layer; None where they stay."""
        if self.is_planned:
            return self.moving
        self._newest = _Layer(self, before=self._newest)
        return self._newest

    def stream(self, device: torch.device) -> Any:
        """Return the stream for copies, None where the device has none."""
        if device.type != "cuda":
            return None
        if device not in self._streams:
            self._streams[device] = torch.cuda.Stream(device)
        return self._streams[device]


def _back(sent: "_Sent | View | Tensor") -> Tensor:
    """Return a tensor on its device."""
    return sent if isinstance(sent, Tensor) else sent.tensor()


class _Sent:
    """A tensor on the host; afterwards also on its device again."""

    def __init__(self, tensor: Tensor, layer: "_Layer", stream: Any) -> None:
        self._layer = layer
        self._spread = spreading(tensor)
        local = local_part(tensor.detach())
        self.device = local.device
        self.back: Tensor | None = None
        if stream is None:
            self.host = local.clone(memory_format=torch.preserve_format)
            return
        stream.wait_stream(torch.cuda.current_stream(self.device))
        with torch.cuda.stream(stream):
            self.host = torch.empty_strided(local.size(), local.stride(), dtype=local.dtype, pin_memory=True)
            self.host.copy_(local, non_blocking=True)
        local.record_stream(stream)

    def fetch(self, stream: Any) -> None:
        """Begin to copy the tensor back to its device."""
        if self.back is not None:
            return
        if stream is None:
            self.back = self.host
            return
        with torch.cuda.stream(stream):
            self.back = self.host.to(self.device, non_blocking=True)

    def tensor(self) -> Tensor:
        """Return the tensor on its device, and see to the layer that is needed next."""
        return self._layer.fetched(self)

    def taken(self, stream: Any) -> Tensor:
        """Return the tensor on its device, for the computation that follows."""
        self.fetch(stream)
        assert self.back is not None
        if stream is not None:
            current = torch.cuda.current_stream(self.device)
            current.wait_stream(stream)
            self.back.record_stream(current)
        local, self.back = self.back, None
        return self._spread(local)


class _Layer:
    """What one layer saved for one microbatch."""

    def __init__(self, offload: Offload, before: "_Layer | None") -> None:
        self._offload = offload
        self._before = before
        self._sent: list[_Sent] = []

    def send(self, tensor: Tensor) -> _Sent:
        sent = _Sent(tensor, self, self._offload.stream(tensor.device))
        self._sent.append(sent)
        return sent

    def fetched(self, sent: _Sent) -> Tensor:
        """Return a tensor; with the first one of a layer, those of the layer before it are on their way."""
        before, self._before = self._before, None
        result = sent.taken(self._offload.stream(sent.device))
        if before is not None:
            before.fetch()
        return result

    def fetch(self) -> None:
        for sent in self._sent:
            sent.fetch(self._offload.stream(sent.device))
