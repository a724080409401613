"""Operators on DTensors of a mesh of 2 x 2 against one device: results, and gradients of all tensors."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Placement, Replicate, distribute_tensor
from torch.nn import functional

from evenflow.cluster import AttentionOnMesh, RowExchange, parse_code
from evenflow_torch.run.mesh.attention.distributed import set_attention
from evenflow_torch.run.mesh.attention.row_messages import OnTheWay, RowMessages
from evenflow_torch.run.mesh.local_operators import on_mesh
from evenflow_torch.run.mesh.local_parts import torch_placements
from tests_torch.run.cases import Answer

Operator = Callable[..., Tensor]


def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value)


def causal(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True)


def masked(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    length = query.shape[2]
    mask = torch.ones(length, length, dtype=torch.bool).tril(2)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


def multi_head(hidden: Tensor, weight: Tensor, out: Tensor, *, is_causal: bool = False) -> Tensor:
    length, _, width = hidden.shape
    mask = nn.Transformer.generate_square_subsequent_mask(length, dtype=torch.float64) if is_causal else None
    result, _ = functional.multi_head_attention_forward(
        hidden, hidden, hidden, width, 4, weight, None, None, None, False, 0.0, out, None,
        need_weights=False, attn_mask=mask, is_causal=is_causal,
    )  # fmt: skip
    return result


def multi_head_causal(hidden: Tensor, weight: Tensor, out: Tensor) -> Tensor:
    return multi_head(hidden, weight, out, is_causal=True)


def convolution(images: Tensor, filters: Tensor, bias: Tensor) -> Tensor:
    return functional.conv2d(images, filters, bias, padding=1)


def bare_convolution(images: Tensor, filters: Tensor) -> Tensor:
    return functional.conv2d(images, filters)


def depthwise(images: Tensor, filters: Tensor, bias: Tensor) -> Tensor:
    return functional.conv2d(images, filters, bias, groups=images.shape[1])


def transposed(images: Tensor, filters: Tensor) -> Tensor:
    return functional.conv_transpose2d(images, filters, stride=2)


def group_norm(images: Tensor, weight: Tensor) -> Tensor:
    return functional.group_norm(images, 2, weight)


def rows(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """A product of merged rows, as torch's linear layers do it."""
    return functional.gelu(functional.linear(functional.layer_norm(hidden, hidden.shape[-1:]), weight, bias))


def thirds(hidden: Tensor, weight: Tensor) -> Tensor:
    """One product that is taken apart as queries, keys and values."""
    parts = functional.linear(hidden, weight).view(*hidden.shape[:2], 3, 2, 2).unbind(2)
    return parts[0] * parts[1] + parts[2].sigmoid()


def halves(hidden: Tensor, weight: Tensor) -> Tensor:
    """The same with as many parts as there are devices on an axis, by other names of a view."""
    return torch.reshape(functional.linear(hidden, weight).unflatten(-1, (2, 2, 3)), (*hidden.shape[:2], 12))


def product(hidden: Tensor, weight: Tensor) -> Tensor:
    return functional.linear(hidden, weight)


def biased_product(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return functional.linear(hidden, weight, bias)


HEADS = [(4, 4, 8, 2)] * 3
WIDE = [(8, 4, 8), (24, 8), (8, 8)]
LAYER = [(4, 4, 8), (12, 8), (12,)]
IMAGES = (8, 8, 6, 6)
CASES: dict[str, tuple[Operator, Sequence[tuple[int, ...]], Sequence[str], str]] = {
    "rows of the query and batch": (attention, HEADS, ["S(0) S(2)"] * 3, "S(0) S(2)"),
    "rows of the query on two axes": (causal, HEADS, ["S(2) S(2)"] * 3, "S(2) S(2)"),
    "causal rows and heads": (causal, HEADS, ["S(2) S(1)"] * 3, "S(2) S(1)"),
    "rows with a mask": (masked, HEADS, ["S(1) S(2)"] * 3, "S(1) S(2)"),
    "keys that lie otherwise": (causal, HEADS, ["S(2) R", "R R", "R S(1)"], "S(2) R"),
    "multi-head rows and batch": (multi_head, WIDE, ["S(0) S(1)", "R S(0)", "R R"], "S(0) S(1)"),
    "multi-head causal rows": (multi_head_causal, WIDE, ["S(0) S(0)", "R R", "S(0) R"], "S(0) S(0)"),
    "convolution of samples": (convolution, [IMAGES, (12, 8, 3, 3), (12,)], ["S(0) S(0)", "R R", "R R"], "S(0) S(0)"),
    "channels that come out": (convolution, [IMAGES, (12, 8, 3, 3), (12,)], ["S(0) R", "R S(0)", "R R"], "S(0) S(1)"),
    "channels that go in": (bare_convolution, [IMAGES, (12, 8, 3, 3)], ["S(0) S(1)", "R S(1)"], "S(0) P"),
    "channels each": (depthwise, [IMAGES, (16, 1, 3, 3), (16,)], ["S(0) S(1)", "R S(0)", "R R"], "S(0) S(1)"),
    "transposed": (transposed, [IMAGES, (8, 4, 2, 2)], ["S(0) S(1)", "R S(0)"], "S(0) R"),
    "group norm": (group_norm, [IMAGES, (8,)], ["S(0) S(1)", "R S(0)"], "S(0) R"),
    "outputs and rows": (biased_product, LAYER, ["S(1) R", "R S(0)", "R S(0)"], "S(1) S(2)"),
    "outputs and a bias that is whole": (biased_product, LAYER, ["S(1) R", "R S(0)", "R R"], "S(1) S(2)"),
    "outputs on two axes": (biased_product, LAYER, ["R R", "S(0) S(0)", "S(0) S(0)"], "S(2) S(2)"),
    "inputs and rows": (biased_product, LAYER, ["S(2) S(0)", "S(1) R", "R R"], "P S(0)"),
    "inputs on two axes": (biased_product, LAYER, ["S(2) S(2)", "S(1) S(1)", "R R"], "P P"),
    "inputs and outputs": (biased_product, LAYER, ["S(2) R", "S(1) S(0)", "R S(0)"], "P S(2)"),
    "rows on two axes": (product, LAYER[:2], ["S(1) S(1)", "R R"], "S(1) S(1)"),
    "rows that do not come out even": (
        biased_product,
        [(3, 5, 8), *LAYER[1:]],
        ["S(0) S(1)", "R R", "R R"],
        "S(0) S(1)",
    ),
    "one row": (biased_product, [(8,), *LAYER[1:]], ["S(0) R", "S(1) S(0)", "R S(0)"], "P S(0)"),
    "thirds of columns": (thirds, [(4, 8, 6), (12, 6)], ["S(0) R", "R S(0)"], "S(0) R"),
    "thirds of columns on two axes": (thirds, [(4, 8, 6), (12, 6)], ["R R", "S(0) S(0)"], "R R"),
    "halves of columns": (halves, [(4, 8, 6), (12, 6)], ["S(1) R", "R S(0)"], "S(1) S(2)"),
    "merged rows": (rows, [(4, 8, 6), (10, 6), (10,)], ["S(1) S(0)", "R R", "R R"], "S(1) S(0)"),
}


class _Attention(nn.Module):
    """A module whose attention is planned."""

    def __init__(self, operator: Operator) -> None:
        super().__init__()
        self.operator = operator

    def forward(self, *tensors: Tensor) -> Tensor:
        return self.operator(*tensors)


def few_heads(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    return functional.scaled_dot_product_attention(query, key, value, is_causal=True, enable_gqa=True)


def biased(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """A mask that is added, of which a row and all of the last columns are hidden."""
    generator = torch.Generator().manual_seed(3)
    bias = torch.randn(query.shape[0], 1, query.shape[2], key.shape[2], generator=generator, dtype=query.dtype)
    bias[..., -key.shape[2] // 4 :] = -torch.inf
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=bias, scale=0.3)


def padded(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """A mask with one row for all."""
    mask = torch.arange(key.shape[2]).expand(query.shape[0], 1, 1, -1) < torch.tensor([3, 1, 12, 16]).view(4, 1, 1, 1)
    return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)


GATHERED, BALANCED, RING = RowExchange
LONG = [(4, 4, 16, 2)] * 3
ROW_CASES: dict[str, tuple[Operator, Sequence[tuple[int, ...]], tuple[int, ...], str, tuple[RowExchange, ...]]] = {
    "ring": (attention, LONG, (2, 2), "S(0) S(2)", (RING, RING)),
    "ring of four": (attention, LONG, (4,), "S(2)", (RING, RING)),
    "causal ring": (causal, LONG, (2, 2), "S(2) S(1)", (RING, RING)),
    "causal ring of four": (causal, LONG, (4,), "S(2)", (RING, RING)),
    "odd halves": (causal, [(2, 2, 12, 4)] * 3, (4,), "S(2)", (RING, BALANCED)),
    "one row each": (causal, [(2, 2, 4, 4)] * 3, (4,), "S(2)", (BALANCED, RING)),
    "balanced": (causal, LONG, (4,), "S(2)", (BALANCED, BALANCED)),
    "balanced and heads": (causal, LONG, (2, 2), "S(1) S(2)", (BALANCED, BALANCED)),
    "gathered, then ring": (causal, LONG, (4,), "S(2)", (GATHERED, RING)),
    "ring, then gathered": (causal, LONG, (4,), "S(2)", (RING, GATHERED)),
    "few heads": (few_heads, [LONG[0], (4, 2, 16, 2), (4, 2, 16, 2)], (4,), "S(2)", (RING, RING)),
    "few heads, balanced": (few_heads, [LONG[0], (4, 2, 16, 2), (4, 2, 16, 2)], (4,), "S(2)", (BALANCED, BALANCED)),
    "a narrow value": (causal, [LONG[0], LONG[0], (4, 4, 16, 3)], (4,), "S(2)", (RING, RING)),
    "other keys": (attention, [(4, 4, 8, 2), *LONG[:2]], (4,), "S(2)", (RING, RING)),
    "added mask": (biased, LONG, (2, 2), "S(0) S(2)", (RING, RING)),
    "mask of rows": (masked, LONG, (4,), "S(2)", (RING, RING)),
    "mask of columns": (padded, LONG, (4,), "S(2)", (RING, GATHERED)),
    "heads as planned": (causal, LONG, (4,), "S(1)", (GATHERED, GATHERED)),
    "rows on two axes": (causal, LONG, (2, 2), "S(2) S(2)", (RING, RING)),
}


def row_case(name: str, rank: int) -> Answer:
    """Attention of tensors that are split by rows, as it is planned; `found` are the placements of the result."""
    operator, shapes, sizes, planned, (rows, backward_rows) = ROW_CASES[name]
    mesh = init_device_mesh("cpu", sizes)
    module = _Attention(operator)
    placement = tuple(parse_code(axis)[0] for axis in planned.split())
    how = AttentionOnMesh(placement=placement, rows=rows, backward_rows=backward_rows)
    set_attention(module, how)
    codes = [planned.replace("S(1)", "S(2)") if name == "heads as planned" else planned] * 3
    sent: list[int] = []
    to_next = RowMessages.to_next

    def counted(messages: RowMessages, tensors: Sequence[Tensor]) -> OnTheWay:
        sent.append(len(tensors))
        return to_next(messages, tensors)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(RowMessages, "to_next", counted)
        answer = _compared(operator, module, mesh, shapes, codes)
    return replace(answer, found=(answer.found, len(sent)))


def local_case(name: str, rank: int) -> Answer:
    """Run one case; `found` are the placements of the result."""
    operator, shapes, codes, _ = CASES[name]
    return _compared(operator, operator, init_device_mesh("cpu", (2, 2)), shapes, codes)


def _compared(
    operator: Operator, module: Operator, mesh: DeviceMesh, shapes: Sequence[tuple[int, ...]], codes: Sequence[str]
) -> Answer:
    """Compare an operator on one device with a module that calls it on all."""
    generator = torch.Generator().manual_seed(5)
    tensors = [torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes]
    alone = [tensor.clone().requires_grad_() for tensor in tensors]
    parts = [
        distribute_tensor(tensor, mesh, _placements(code), src_data_rank=None).requires_grad_()
        for tensor, code in zip(tensors, codes, strict=True)
    ]
    expected = operator(*alone)
    expected.pow(2).sum().backward()
    with on_mesh():
        result = module(*parts)
    assert isinstance(result, DTensor)
    placed = result.placements
    result.redistribute(placements=[Replicate()] * mesh.ndim).pow(2).sum().backward()
    pairs: list[tuple[Any, Any]] = [(result.full_tensor(), expected)]
    pairs += [(one.grad.full_tensor(), other.grad) for one, other in zip(parts, alone, strict=True)]  # type: ignore[union-attr]
    return Answer(error=max(_error(*pair) for pair in pairs), found=[str(one) for one in placed])


def expected_placements(name: str) -> list[str]:
    """The placements of a case's result, as torch writes them."""
    return [str(one) for one in _placements(CASES[name][3])]


def _placements(code: str) -> list[Placement]:
    return [Partial() if where == "P" else torch_placements(parse_code(where))[0] for where in code.split()]


def _error(own: Tensor, wanted: Tensor) -> float:
    return float((own - wanted).abs().max() / wanted.abs().max())
