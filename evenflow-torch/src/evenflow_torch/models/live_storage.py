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

from evenflow.cluster import OperatorCost
from evenflow_torch.models.experts.costs import is_of_experts, working_bytes
from evenflow_torch.models.made_tensors import tensors_in
from evenflow_torch.models.operator_costs import operator_cost


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutedOperator:
    """One operator that did work; views do none and are not recorded."""

    name: str
    cost: OperatorCost
    reads: frozenset[int]
    """Numbers of the storages that it read, as `LiveStorages.number` gives them."""
    writes: frozenset[int]
    """Numbers of the storages that it wrote."""


class LiveStorages:
    """A count of the bytes of storages that are alive, each once, however many tensors share it."""

    def __init__(self) -> None:
        self.live_bytes = 0
        self.peak_bytes = 0
        """The highest number of live bytes since the last `reset_peak`."""
        self._known: dict[int, tuple[int, weakref.ref[Any]]] = {}
        """Number of a living storage by the address of its Python object, which it keeps for life."""
        self._sizes: list[int] = []

    def number(self, tensor: torch.Tensor) -> int:
        """Return the number of the tensor's storage, which no other storage ever gets; count a new one."""
        storage = tensor.untyped_storage()
        known = self._known.get(id(storage))
        return known[0] if known else self._add(storage, storage.nbytes())

    def give(self, tensor: torch.Tensor) -> int:
        """Return the number of a storage that is known from now on, but not counted."""
        return self._add(tensor.untyped_storage(), 0)

    def size_bytes(self, number: int) -> int:
        """Return the size of a counted storage, dead or alive; zero for a given one."""
        return self._sizes[number]

    def living(self) -> frozenset[int]:
        """Return the numbers of the storages that are alive."""
        return frozenset(number for number, _reference in self._known.values())

    def reset_peak(self) -> None:
        """Forget the highest number."""
        self.peak_bytes = self.live_bytes

    def _add(self, storage: Any, size_bytes: int) -> int:
        number, address = len(self._sizes), id(storage)

        def free(_reference: object) -> None:
            del self._known[address]
            self.live_bytes -= size_bytes

        self._known[address] = (number, weakref.ref(storage, free))
        self._sizes.append(size_bytes)
        self.live_bytes += size_bytes
        self.peak_bytes = max(self.peak_bytes, self.live_bytes)
        return number


class StorageLog(TorchDispatchMode):
    """A record of operators, and of the storages that they make, while it is active.

    `known` tensors (parameters, masks) are known by a number but not counted.
    """

    def __init__(self, known: Iterable[torch.Tensor] = ()) -> None:
        super().__init__()
        self.operators: list[ExecutedOperator] = []
        self.storages = LiveStorages()
        self.known = frozenset(self.storages.give(tensor) for tensor in known)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and record it."""
        kwargs = kwargs or {}
        inputs = tensors_in((args, kwargs))
        reads = frozenset(self.storages.number(tensor) for tensor in inputs)
        result = func(*args, **kwargs)
        outputs = tensors_in(result)
        writes = frozenset(self.storages.number(tensor) for tensor in outputs)
        if is_of_experts(func):
            inside = working_bytes(func, args, outputs)
            self.storages.peak_bytes = max(self.storages.peak_bytes, self.storages.live_bytes + inside)
        if writes and (func._schema.is_mutable or writes - reads):
            self.operators.append(
                ExecutedOperator(
                    name=str(func),
                    cost=operator_cost(func, args, kwargs, inputs=inputs, outputs=outputs),
                    reads=reads,
                    writes=writes,
                )
            )
        return result
