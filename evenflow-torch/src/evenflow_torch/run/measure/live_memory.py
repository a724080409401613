"""Meters of memory: bytes of tensors that live on a device, and their highest number."""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from evenflow_torch.models.live_storage import LiveStorages
from evenflow_torch.run.engine.spread_tensors import local_part
from evenflow_torch.run.engine.torch_names import TorchDispatchMode, tree_leaves


class MemoryMeter(Protocol):
    """A count of the bytes that live; `LiveStorages` is one."""

    @property
    def live_bytes(self) -> int:
        """The bytes that live now."""

    @property
    def peak_bytes(self) -> int:
        """The highest number of bytes since the last reset."""

    def reset_peak(self) -> None:
        """Forget the highest number."""


@contextmanager
def memory_meter(device: torch.device, tensors: Iterable[Tensor]) -> Iterator[MemoryMeter]:
    """Count the memory of a device inside the block. `tensors` live already; on a GPU its allocator knows of them.

    On a CPU this slows every operator down.
    """
    if device.type == "cuda":
        meter = _GpuMeter(device)
        meter.reset_peak()
        yield meter
        return
    storages = LiveStorages()
    for tensor in tensors:
        storages.number(local_part(tensor))
    with _Storing(storages):
        yield storages


class _GpuMeter:
    """A meter of the memory that a GPU's caching allocator has given out."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    @property
    def live_bytes(self) -> int:
        return int(torch.cuda.memory_allocated(self._device))

    @property
    def peak_bytes(self) -> int:
        return int(torch.cuda.max_memory_allocated(self._device))

    def reset_peak(self) -> None:
        torch.cuda.reset_peak_memory_stats(self._device)


class _Storing(TorchDispatchMode):
    """A mode in which the storages that operators make are counted."""

    def __init__(self, storages: LiveStorages) -> None:
        super().__init__()
        self._storages = storages

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # it does its work on local tensors, which come here then
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, Tensor) and value.device.type != "meta":
                self._storages.number(value)
        return result
