"""Operations and bytes of operators, by hand."""

import pytest
import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention

from evenflow.cluster import OperatorCost
from evenflow_torch.models.live_storage import StorageLog


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


def costs(log: StorageLog) -> dict[str, OperatorCost]:
    return {one.name.removeprefix("aten.").partition(".")[0]: one.cost for one in log.operators}


def test_the_length_of_sums() -> None:
    rows, columns = torch.zeros(3, 5, requires_grad=True), torch.zeros(5, 7, requires_grad=True)
    with StorageLog() as log:
        (rows @ columns).sum().backward()
        torch.zeros(2, 3, 4) @ torch.zeros(2, 4, 6)
        torch.addmm(torch.zeros(7), torch.zeros(3, 5), torch.zeros(5, 7))
    assert [one.cost.depth for one in log.operators if one.name == "aten.mm.default"] == [5, 3, 7]
    assert (costs(log)["bmm"].depth, costs(log)["addmm"].depth, costs(log)["sum"].depth) == (4, 5, 0)


def test_the_sums_of_groups_are_those_of_a_group() -> None:
    rows, matrices = torch.zeros(24, 16, requires_grad=True), torch.zeros(3, 16, 8, requires_grad=True)
    ends = torch.tensor([8, 16, 24], dtype=torch.int32)
    with StorageLog() as log:
        torch._grouped_mm(rows.bfloat16(), matrices.bfloat16(), offs=ends).square().sum().backward()
    assert sorted(one.cost.depth for one in log.operators if one.cost.flops) == [24 // 3, 8, 16]


def test_only_fused_attention_is_fused_attention() -> None:
    query = torch.zeros(2, 4, 16, 8)
    with StorageLog() as log:
        scaled_dot_product_attention(query, query, query)
        query @ query.mT
    (fused,) = (cost for cost in costs(log).values() if cost.is_fused_attention)
    assert (fused.depth, fused.dtype, costs(log)["bmm"].depth) == (0, "float32", 8)


def test_room_without_values_costs_nothing_and_what_is_made_like_a_tensor_does_not_read_it() -> None:
    like = torch.zeros(8, 4)
    with StorageLog([like]) as log:
        torch.empty_like(like)
        torch.ones_like(like)
        like.new_zeros(3)
        like * 2
    found = costs(log)
    assert (found["empty_like"].moved_bytes, found["empty_like"].launches) == (0, 0)
    assert (found["ones_like"].tensor_bytes, found["ones_like"].launches) == ((0, 128), 1)
    assert found["new_zeros"].tensor_bytes == (0, 12)
    assert found["mul"].tensor_bytes == (128, 128)
