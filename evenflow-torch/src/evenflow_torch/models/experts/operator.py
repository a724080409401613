"""The experts of a layer as one operator, ``evenflow::experts``, with two for its backward: gradients of its inputs,
and of the matrices, which may wait.

Shapes do not depend on values: tokens x experts for each is the number of rows, however they are dealt. So it can be
traced on tensors without data, in every number format and on every device.
"""

from typing import Any

import torch
from torch import Tensor

from evenflow_torch.models.experts import products
from evenflow_torch.models.experts.products import Matrices


@torch.library.custom_op("evenflow::experts", mutates_args=())
def experts(
    hidden: Tensor,
    index: Tensor,
    weights: Tensor,
    up: Tensor,
    up_bias: Tensor | None,
    down: Tensor,
    down_bias: Tensor | None,
    gate: str,
    transposed: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Send each token of `hidden` [tokens, hidden] to its experts `index` [tokens, k] and add up what they give.

    Results are multiplied with `weights` [tokens, k] before. The matrices are those of `products.Matrices`. An index
    that is no expert's adds nothing. Returns the result, and what the backward needs: the rows of the experts, and what
    their gate takes and gives.
    """
    matrices = Matrices(up, up_bias, down, down_bias, gate, transposed)
    order, counts = dealt(index, up.shape[0])
    rows, kept = products.forward(hidden[order // index.shape[1]], counts, matrices)
    weighed = undealt(rows, order) * weights.reshape(-1, 1)
    result = weighed.view(*index.shape, -1).sum(1).to(hidden.dtype)
    return result, kept.rows, kept.inner.contiguous(), kept.activated


@experts.register_fake
def _(hidden: Tensor, index: Tensor, _weights: Tensor, *settings: Any) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    matrices, count = Matrices(*settings), index.numel()
    shapes = (hidden.shape[1],), matrices.inner, (matrices.width,)
    return torch.empty_like(hidden), *(hidden.new_empty((count, *shape)) for shape in shapes)


@torch.library.custom_op("evenflow::experts_backward", mutates_args=())
def experts_backward(
    gradient: Tensor,
    index: Tensor,
    weights: Tensor,
    inner: Tensor,
    activated: Tensor,
    up: Tensor,
    down: Tensor,
    down_bias: Tensor | None,
    gate: str,
    transposed: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of hidden states, of weights, and of the rows' first and second product."""
    matrices = Matrices(up, None, down, down_bias, gate, transposed)
    order, counts = dealt(index, up.shape[0])
    gradients = products.input_gradients(
        gradient[order // index.shape[1]], weights.reshape(-1)[order], inner, activated, counts, matrices
    )
    of_hidden = undealt(gradients.rows, order).view(*index.shape, -1).sum(1)
    return of_hidden, undealt(gradients.weights, order).view_as(weights), gradients.inner, gradients.weighed


@experts_backward.register_fake
def _(
    gradient: Tensor, index: Tensor, weights: Tensor, inner: Tensor, *_others: Any
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    weighed = gradient.new_empty((index.numel(), gradient.shape[1]))
    return gradient.new_empty(gradient.shape), weights.new_empty(weights.shape), inner.new_empty(inner.shape), weighed


@torch.library.custom_op("evenflow::experts_weight_gradients", mutates_args=())
def experts_weight_gradients(
    index: Tensor, rows: Tensor, of_inner: Tensor, activated: Tensor, weighed: Tensor, experts: int, transposed: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the gradients of the matrix and the bias of the first product, and of the second."""
    _, counts = dealt(index, experts)
    return products.weight_gradients(rows, of_inner, activated, weighed, counts, transposed=transposed)


@experts_weight_gradients.register_fake
def _(
    index: Tensor, rows: Tensor, of_inner: Tensor, activated: Tensor, weighed: Tensor, experts: int, transposed: bool
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    hidden, width, inner = rows.shape[1], activated.shape[1], of_inner.shape[1:]
    shapes = (
        (hidden, *inner) if transposed else (*inner, hidden),
        inner,
        (width, hidden) if transposed else (hidden, width),
        (hidden,),
    )
    of_up, of_up_bias, of_down, of_down_bias = (rows.new_empty((experts, *shape)) for shape in shapes)
    return of_up, of_up_bias, of_down, of_down_bias


def _keep(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, index, weights, up, up_bias, down, down_bias, ctx.gate, ctx.transposed = inputs
    ctx.has_bias = up_bias is not None, down_bias is not None
    ctx.save_for_backward(index, weights, *output[1:], up, down, down_bias)
    ctx.set_materialize_grads(False)


def _backward(ctx: Any, gradient: Tensor | None, *_others: Tensor | None) -> tuple[Tensor | None, ...]:
    if gradient is None:
        return (None,) * 9
    index, weights, rows, inner, activated, up, down, down_bias = ctx.saved_tensors
    settings = ctx.gate, ctx.transposed
    of_hidden, of_weights, of_inner, weighed = experts_backward(
        gradient, index, weights, inner, activated, up, down, down_bias, *settings
    )
    of_up, of_up_bias, of_down, of_down_bias = experts_weight_gradients(
        index, rows, of_inner, activated, weighed, up.shape[0], ctx.transposed
    )
    biases = (
        of_bias if has_it else None for of_bias, has_it in zip((of_up_bias, of_down_bias), ctx.has_bias, strict=True)
    )
    of_up_bias, of_down_bias = biases
    return of_hidden, None, of_weights, of_up, of_up_bias, of_down, of_down_bias, None, None


experts.register_autograd(_backward, setup_context=_keep)


def dealt(index: Tensor, num_experts: int) -> tuple[Tensor, list[int]]:
    """Return the order that sorts the choices of all tokens, [tokens * k], by expert, and the rows of each expert."""
    flat = index.flatten().clamp(max=num_experts)
    return torch.argsort(flat, stable=True), torch.bincount(flat, minlength=num_experts + 1)[:num_experts].tolist()


def undealt(rows: Tensor, order: Tensor) -> Tensor:
    """Return rows that `dealt` has sorted in the order of the tokens."""
    result = torch.empty_like(rows)
    result[order] = rows
    return result
