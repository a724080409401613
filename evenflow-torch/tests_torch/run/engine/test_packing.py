"""Tensors of any types that cross as one arrive as they were, and so do their gradients."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow_torch.run.engine.packing import boundary_of, packed, packing_of, tensors_in, unpacked
from tests.thoroughness import examples

TYPES = (torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.int64, torch.int32, torch.bool, torch.uint8)


@settings(max_examples=examples(60))
@given(st.lists(st.tuples(st.sampled_from(TYPES), st.lists(st.integers(0, 3), max_size=3)), min_size=1, max_size=4))
def test_what_is_packed_comes_out_again(kinds: list[tuple[torch.dtype, list[int]]]) -> None:
    generator = torch.Generator().manual_seed(len(kinds))
    tensors = [(torch.randn(shape, generator=generator) * 300).to(dtype) for dtype, shape in kinds]
    received = unpacked(packed(tensors), packing_of(tensors))
    assert [(value.dtype, value.shape) for value in received] == [(value.dtype, value.shape) for value in tensors]
    assert all(torch.equal(value, sent) for value, sent in zip(received, tensors, strict=True))
    planned = tensors_in(boundary_of(tensors, is_trained=False))
    assert [(value.dtype, value.shape) for value in planned] == [(value.dtype, value.shape) for value in tensors]


def test_gradients_flow_to_each_of_them() -> None:
    first, counts = torch.randn(2, 3, requires_grad=True), torch.tensor([7, -9])
    second = torch.randn(4, dtype=torch.float64, requires_grad=True)
    one, two, three = unpacked(packed([first, counts, second]), packing_of([first, counts, second]))
    (one.sum() * 2 + three.square().sum() + two.sum()).backward()
    assert first.grad is not None
    assert torch.equal(first.grad, torch.full((2, 3), 2.0))
    assert torch.equal(second.grad, 2 * second.detach())
