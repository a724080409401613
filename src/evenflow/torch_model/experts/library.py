"""Experts of transformers, whose models ask a registry for the function that computes them."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import Tensor

from evenflow.torch_model.experts.gates import name_of
from evenflow.torch_model.experts.operator import experts


@contextmanager
def as_one_operator() -> Iterator[None]:
    """Let models of transformers compute the experts of a layer as one operator, whatever they are set to."""
    library = sys.modules.get("transformers.integrations.moe")
    if library is None:  # no such model
        yield
        return
    functions = library.ALL_EXPERTS_FUNCTIONS
    names = (*functions, "eager", None)
    before = {name: functions[name] for name in names if name in functions}
    for name in names:
        functions[name] = experts_of
    try:
        yield
    finally:
        for name in names:
            if name in before:
                functions[name] = before[name]
            else:
                del functions[name]


def experts_of(module: Any, hidden: Tensor, index: Tensor, weights: Tensor) -> Tensor:
    """Compute an experts module of transformers for tokens [tokens, hidden], experts and their weights [tokens, k]."""
    gate = None if module.has_post_expert_norm else name_of(module)
    if gate is None:  # parameters beside the matrices
        from transformers.integrations.moe import grouped_mm_experts_forward

        return grouped_mm_experts_forward(module, hidden, index, weights)
    up = module.gate_up_proj if module.has_gate else module.up_proj
    up_bias = (module.gate_up_proj_bias if module.has_gate else module.up_proj_bias) if module.has_bias else None
    if module.has_gate:
        halves = (2, -1) if module.is_concatenated else (-1, 2)
        up = up.unflatten(2 if module.is_transposed else 1, halves)
        up_bias = None if up_bias is None else up_bias.unflatten(1, halves)
    down_bias = module.down_proj_bias if module.has_bias else None
    result: Tensor = experts(
        hidden, index, weights, up, up_bias, module.down_proj, down_bias, gate, module.is_transposed
    )[0]
    return result
