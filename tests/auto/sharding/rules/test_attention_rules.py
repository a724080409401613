"""Attention by rows of the query: which tensors are split, and what the busiest device computes."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from evenflow.auto.sharding.rules.extra_rules import extra_rules  # noqa: E402
from evenflow.auto.trace.dtensor_adapter import Call  # noqa: E402
from evenflow.auto.trace.operator_graph import AxisRule  # noqa: E402
from evenflow.cluster import PARTIAL, REPLICATE  # noqa: E402
from tests.auto.trace.test_dtensor_adapter import attention, call  # noqa: E402

aten = torch.ops.aten
FORWARD = aten._scaled_dot_product_flash_attention_for_cpu.default
BACKWARD = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
LENGTH = 2


def of_rows(made: Call) -> AxisRule:
    rules = extra_rules(made)
    assert rules is not None
    (found,) = (one for one in rules if LENGTH in one.outputs)
    return found


def with_mask(mask: Any) -> Call:
    bare, masked = call(FORWARD, *attention(), 0.0, False), call(FORWARD, *attention(), mask)
    return Call(overload=FORWARD, arguments=bare.arguments, keywords=(("attn_mask", masked.arguments[3]),))


def test_keys_and_values_are_whole_and_their_gradients_sums() -> None:
    forward = of_rows(call(FORWARD, *attention(), 0.0, True))
    assert forward.inputs == (LENGTH, REPLICATE, REPLICATE)
    query, key, value = attention()
    made = FORWARD(query, key, value, 0.0, True)
    backward = of_rows(call(BACKWARD, query, query, key, value, *made, 0.0, True))
    assert backward.inputs == (LENGTH, LENGTH, REPLICATE, REPLICATE, LENGTH, LENGTH)
    assert backward.outputs == (LENGTH, PARTIAL, PARTIAL)


def test_a_mask_is_split_by_its_rows_where_it_has_them() -> None:
    assert of_rows(with_mask(torch.zeros(2, 1, 6, 6))).inputs[-1] == LENGTH
    assert of_rows(with_mask(torch.zeros(6, 6))).inputs[-1] == 0
    assert of_rows(with_mask(torch.zeros(2, 1, 1, 6))).inputs[-1] == REPLICATE


@pytest.mark.parametrize("parts", [2, 3, 6])
def test_the_last_rows_of_causal_attention_are_twice_an_equal_share(parts: int) -> None:
    """The runtime computes all keys up to a device's last row, for each of its rows."""
    length = 6
    own = length // parts
    computed = [own * min((device + 1) * own, length) for device in range(parts)]
    share = length * length / 2 / parts  # as the costs count it
    assert of_rows(call(FORWARD, *attention(), 0.0, True)).work == max(computed) / share
    assert of_rows(call(FORWARD, *attention(), 0.0, False)).work == 1
