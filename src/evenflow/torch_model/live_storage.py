"""The operators that a piece of a model runs, and the storages that stay alive.

A storage is counted from the operator that makes it until nothing refers to it any more. So what autograd saved, what a
checkpoint keeps and what a view holds are all seen, on real and on fake tensors alike.
"""

import weakref
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from evenflow.torch_model.operator_costs import moved_bytes, operator_flops


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedOperator:
    """One operator that did work; views do none and are not recorded."""

    name: str
    flops: int
    moved_bytes: int
    dtype: str
    """The number format of the first result, such as ``bfloat16``."""
    reads: frozenset[int]
    """Numbers of the storages that it read, as `StorageLog.number` gives them."""
    writes: frozenset[int]
    """Numbers of the storages that it wrote."""


class StorageLog(TorchDispatchMode):
    """A record of operators, and of the storages that they make, while it is active.

    `given` tensors (parameters, masks) are known by a number but not counted.
    """

    def __init__(self, given: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()
        self.operators: list[ExecutedOperator] = []
        self.live_bytes = 0
        self.peak_bytes = 0
        self._known: dict[int, tuple[int, weakref.ref[Any]]] = {}
        """Number of a living storage by the address of its Python object."""
        self._sizes: dict[int, int] = {}
        self._count = 0
        for tensor in given:
            self._add(tensor.untyped_storage(), 0)
        self.given = frozenset(number for number, _ in self._known.values())

    def number(self, tensor: torch.Tensor) -> int:
        """Return the number of the tensor's storage, which it keeps for life and no other gets; count a new one."""
        storage = tensor.untyped_storage()
        known = self._known.get(id(storage))
        return known[0] if known else self._add(storage, storage.nbytes())

    def size_bytes(self, number: int) -> int:
        """Return the size of a counted storage, dead or alive; zero for a given one."""
        return self._sizes[number]

    def _add(self, storage: Any, size_bytes: int) -> int:
        number, self._count = self._count, self._count + 1
        address = id(storage)

        def free(_reference: object) -> None:
            del self._known[address]
            self.live_bytes -= size_bytes

        self._known[address] = (number, weakref.ref(storage, free))
        self._sizes[number] = size_bytes
        self.live_bytes += size_bytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        return number

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and record it."""
        kwargs = kwargs or {}
        inputs = _tensors((args, kwargs))
        reads = frozenset(self.number(tensor) for tensor in inputs)
        result = func(*args, **kwargs)
        outputs = _tensors(result)
        writes = frozenset(self.number(tensor) for tensor in outputs)
        if writes and (func._schema.is_mutable or writes - reads):
            self.operators.append(
                ExecutedOperator(
                    name=str(func),
                    flops=operator_flops(func, args, kwargs, result),
                    moved_bytes=moved_bytes(func, inputs, outputs),
                    dtype=str(outputs[0].dtype).removeprefix("torch."),
                    reads=reads,
                    writes=writes,
                )
            )
        return result


def _tensors(values: object) -> list[torch.Tensor]:
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, torch.Tensor)]
