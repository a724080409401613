"""Experts of transformers, whose models ask a registry for the function that computes them."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from torch import Tensor

from evenflow_torch.models.experts.gates import name_of
from evenflow_torch.models.experts.operator import experts


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenExperts:
    """What an experts module of transformers has and is called with, as it lays it out."""

    hidden: Tensor
    """[tokens, hidden]"""
    index: Tensor
    """[tokens, k]: the experts of every token"""
    weights: Tensor
    """[tokens, k]"""
    up: Tensor
    """[experts, inner, hidden], or [experts, hidden, inner] where transposed."""
    up_bias: Tensor | None
    """[experts, inner]"""
    down: Tensor
    down_bias: Tensor | None
    """As `products.Matrices` has them."""
    halves: tuple[int, ...]
    """The shape of inner, with -1 for the width."""
    gate: str
    transposed: bool

    def unflattened(self, up: Tensor, up_bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """Return the first matrix and its bias, or a device's part of them, in the shape of `products.Matrices`."""
        bias = None if up_bias is None else up_bias.unflatten(1, self.halves)
        return up.unflatten(2 if self.transposed else 1, self.halves), bias


Compute = Callable[[Any, GivenExperts], Tensor]
"""From an experts module and what it is given to its result."""


def run_operator(_module: Any, inputs: GivenExperts) -> Tensor:
    """Compute experts as one operator."""
    up, up_bias = inputs.unflattened(inputs.up, inputs.up_bias)
    result: Tensor = experts(
        inputs.hidden,
        inputs.index,
        inputs.weights,
        up,
        up_bias,
        inputs.down,
        inputs.down_bias,
        inputs.gate,
        inputs.transposed,
    )[0]
    return result


@contextmanager
def as_one_operator(compute: Compute = run_operator) -> Iterator[None]:
    """Let models of transformers compute the experts of a layer by `compute`, whatever they are set to."""
    library = sys.modules.get("transformers.integrations.moe")
    if library is None:  # no such model
        yield
        return
    functions = library.ALL_EXPERTS_FUNCTIONS
    names = (*functions, "eager", None)
    before = {name: functions[name] for name in names if name in functions}
    for name in names:
        functions[name] = partial(experts_of, compute)
    try:
        yield
    finally:
        for name in names:
            if name in before:
                functions[name] = before[name]
            else:
                del functions[name]


def is_experts(module: Any) -> bool:
    """Whether a module is that of experts, as models of transformers have it."""
    return hasattr(module, "is_transposed") and hasattr(module, "has_gate")


def first_matrix(module: Any) -> str:
    """Return the name of the matrices of the first product of an experts module."""
    return "gate_up_proj" if module.has_gate else "up_proj"


def has_plain_gate(module: Any) -> bool:
    """Whether nothing in an experts module but its matrices and their biases has parameters."""
    return not module.has_post_expert_norm and name_of(module) is not None


def experts_of(compute: Compute, module: Any, hidden: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """Return what an experts module makes of its tokens by `compute`, or by itself where its gate has parameters."""
    gate = name_of(module) if has_plain_gate(module) else None
    if gate is None:
        from transformers.integrations.moe import grouped_mm_experts_forward

        result: Tensor = grouped_mm_experts_forward(module, hidden, index, weights)
        return result
    first = first_matrix(module)
    halves = ((2, -1) if module.is_concatenated else (-1, 2)) if module.has_gate else (-1,)
    inputs = GivenExperts(
        hidden=hidden,
        index=index,
        weights=weights,
        up=getattr(module, first),
        up_bias=getattr(module, f"{first}_bias") if module.has_bias else None,
        down=module.down_proj,
        down_bias=module.down_proj_bias if module.has_bias else None,
        halves=halves,
        gate=gate,
        transposed=module.is_transposed,
    )
    return compute(module, inputs)
