"""Operators that every device runs on its own part, by the ordinary kernel, where the split allows it.

DTensor has no rule for some of them, rules for others that gather samples, and kernels whose results lie in memory in
an order that depends on the sizes of the parts, which views behind them do not expect.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.distributed.tensor.experimental import implicit_replication
from torch.nn import functional
from torch.overrides import TorchFunctionMode

from evenflow_torch.models.experts.library import as_one_operator
from evenflow_torch.run.mesh.attention.distributed import attention
from evenflow_torch.run.mesh.attention.multi_head import multi_head_attention
from evenflow_torch.run.mesh.convolution import KERNELS
from evenflow_torch.run.mesh.dropout import DROPS, dropped
from evenflow_torch.run.mesh.linear import linear
from evenflow_torch.run.mesh.local_parts import replicated
from evenflow_torch.run.mesh.mesh_experts import compute_experts
from evenflow_torch.run.mesh.normalization import batch_norm, group_norm
from evenflow_torch.run.mesh.views import view

_LOCAL: dict[Any, Callable[..., Any]] = {
    functional.scaled_dot_product_attention: attention,
    functional.multi_head_attention_forward: multi_head_attention,
    functional.linear: linear,
    functional.batch_norm: batch_norm,
    functional.group_norm: group_norm,
    **{drop: partial(dropped, drop) for drop in DROPS},
    **{kernel: partial(local, kernel) for kernel, local in KERNELS.items()},
    **{make: partial(view, make) for make in (Tensor.view, Tensor.reshape, Tensor.unflatten, torch.reshape)},
}


@contextmanager
def on_mesh() -> Iterator[None]:
    """Let modules compute with DTensors inside; tensors that they make themselves are the same on all devices."""
    with implicit_replication(), as_one_operator(compute_experts), _LocalOperators():
        yield


class _LocalOperators(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        keywords = kwargs or {}
        local = _LOCAL.get(func)
        if local is None:
            # The backward comes later and takes no tensor that is not distributed.
            return func(*_alike(args), **keywords)
        everything = _alike((*args, *keywords.values()))
        if not any(isinstance(argument, DTensor) for argument in everything):
            return func(*args, **keywords)
        return local(*everything[: len(args)], **dict(zip(keywords, everything[len(args) :], strict=True)))


def _alike(tensors: Sequence[Any]) -> tuple[Any, ...]:
    """Return the tensors with all of them distributed if any is."""
    mesh = next((value.device_mesh for value in tensors if isinstance(value, DTensor)), None)
    return tuple(
        replicated(value, mesh)
        if mesh is not None and isinstance(value, Tensor) and not isinstance(value, DTensor)
        else value
        for value in tensors
    )
