"""Operators that a model runs on accelerators, on the CPU."""

import pytest
import torch
from torch import nn
from torch.nn.functional import dropout, scaled_dot_product_attention

from evenflow_torch.models.accelerator_operators import AcceleratorOperators
from evenflow_torch.models.live_storage import StorageLog


def names(log: StorageLog) -> list[str]:
    return [one.name.removeprefix("aten.").partition(".")[0] for one in log.operators]


@pytest.mark.parametrize("call", [lambda x: dropout(x, 0.25), nn.Dropout(0.25), lambda x: dropout(x, p=0.25)])
def test_a_mask_has_a_byte_an_element(call) -> None:
    values = torch.ones(64, 64, dtype=torch.bfloat16)
    with AcceleratorOperators(), StorageLog() as log:
        result = call(values)
    assert names(log) == ["native_dropout"]
    assert log.operators[0].cost.tensor_bytes == (2 * 64 * 64, 2 * 64 * 64, 64 * 64)
    assert set(result.unique().tolist()) == {0.0, torch.tensor(1 / 0.75, dtype=torch.bfloat16).item()}


@pytest.mark.parametrize("options", [{"p": 0.0}, {"training": False}, {"p": 1.0}, {"inplace": True}])
def test_other_dropout_stays_as_it_is(options: dict[str, object]) -> None:
    with AcceleratorOperators(), StorageLog() as log:
        dropout(torch.ones(4), **options)
    assert "native_dropout" not in names(log)


@pytest.mark.parametrize("options", [{}, {"dropout_p": 0.5}, {"is_causal": True}, {"scale": 0.5}])
def test_attention_is_fused_with_any_dropout_and_values_of_any_width(options: dict[str, object]) -> None:
    query, key, value = (torch.randn(1, 2, 16, width) for width in (24, 24, 8))
    with AcceleratorOperators(), StorageLog() as log:
        found = scaled_dot_product_attention(query, key, value, **options)
    assert "_scaled_dot_product_flash_attention_for_cpu" in names(log)
    assert not any("softmax" in name for name in names(log))
    plain = {name: option for name, option in options.items() if name != "dropout_p"}
    torch.testing.assert_close(found, scaled_dot_product_attention(query, key, value, **plain))
