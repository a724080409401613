"""Meters of memory: bytes of tensors that live on a device, and their highest number."""

from collections.abc import Iterable
from types import TracebackType
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor

from evenflow_torch.models.live_storage import LiveStorages
from evenflow_torch.run.engine.spread_tensors import local_part
from evenflow_torch.run.engine.torch_names import TorchDispatchMode, tree_leaves


class MemoryMeter(Protocol):
    """A meter that counts inside a ``with`` block."""

    def live_bytes(self) -> int:
        """Return the bytes that live now."""

    def peak_bytes(self) -> int:
        """Return the highest number of bytes since the last reset."""

    def reset_peak(self) -> None:
        """Forget the highest number."""

    def __enter__(self) -> Any:
        """Begin to count."""

    def __exit__(self, kind: Any, error: Any, trace: Any) -> Any:
        """Count no longer."""


def memory_meter(device: torch.device, tensors: Iterable[Tensor]) -> MemoryMeter:
    """Return the meter of a device. `tensors` live already; on a GPU its allocator knows of them."""
    return GpuMeter(device) if device.type == "cuda" else StorageMeter(tensors)


class GpuMeter:
    """A meter of the memory that a GPU's caching allocator has given out."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def live_bytes(self) -> int:
        """See `MemoryMeter`."""
        return int(torch.cuda.memory_allocated(self._device))

    def peak_bytes(self) -> int:
        """See `MemoryMeter`."""
        return int(torch.cuda.max_memory_allocated(self._device))

    def reset_peak(self) -> None:
        """See `MemoryMeter`."""
        torch.cuda.reset_peak_memory_stats(self._device)

    def __enter__(self) -> "GpuMeter":
        self.reset_peak()
        return self

    def __exit__(self, kind: Any, error: Any, trace: TracebackType | None) -> None:
        """Undo nothing."""


class StorageMeter(TorchDispatchMode):
    """A meter of the storages that operators have made and that still live. It slows every operator down."""

    def __init__(self, tensors: Iterable[Tensor]) -> None:
        super().__init__()
        self._storages = LiveStorages()
        for tensor in tensors:
            self._storages.number(local_part(tensor))

    def live_bytes(self) -> int:
        """See `MemoryMeter`."""
        return self._storages.live_bytes

    def peak_bytes(self) -> int:
        """See `MemoryMeter`."""
        return self._storages.peak_bytes

    def reset_peak(self) -> None:
        """See `MemoryMeter`."""
        self._storages.reset_peak()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # it does its work on local tensors, which come here then
        result = func(*args, **(kwargs or {}))
        for value in tree_leaves(result):
            if isinstance(value, Tensor) and value.device.type != "meta":
                self._storages.number(value)
        return result
