"""Operations and bytes of operators, by hand."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from evenflow.torch_model.live_storage import StorageLog


def test_products_and_lookups() -> None:
    table, rows = torch.zeros(1000, 8), torch.zeros(4, dtype=torch.long)
    with StorageLog([table, rows]) as log:
        torch.zeros(3, 5) @ torch.zeros(5, 7)
        nn.functional.embedding(rows, table)
        torch.zeros(3, 5).t()[1:]
    found = {one.name: one for one in log.operators}
    assert set(found) == {"aten.zeros.default", "aten.mm.default", "aten.embedding.default"}
    product, lookup = found["aten.mm.default"], found["aten.embedding.default"]
    assert (product.cost.flops, product.cost.moved_bytes) == (2 * 3 * 5 * 7, 4 * (15 + 35 + 21))
    assert (lookup.cost.flops, lookup.cost.moved_bytes) == (0, 2 * 4 * 8 * 4 + 4 * 8)


@pytest.mark.parametrize("causal", [False, True])
def test_attention(causal: bool) -> None:
    query, key = (torch.zeros(2, 4, 16, 8, requires_grad=True) for _ in "qk")
    with StorageLog() as log:
        scaled_dot_product_attention(query, key, key, is_causal=causal).sum().backward()
    products = 2 * 4 * 16 * 16 * 8 * 2 // (2 if causal else 1)
    assert [one.cost.flops for one in log.operators if one.cost.flops] == [2 * products, 5 * products]


def test_grouped_products_in_all_three_forms() -> None:
    rows, matrices = torch.zeros(24, 16, requires_grad=True), torch.zeros(3, 16, 8, requires_grad=True)
    ends = torch.tensor([8, 16, 24], dtype=torch.int32)
    with StorageLog() as log:
        torch._grouped_mm(rows.bfloat16(), matrices.bfloat16(), offs=ends).square().sum().backward()
    assert [one.cost.flops for one in log.operators if one.cost.flops] == [2 * 24 * 16 * 8] * 3
