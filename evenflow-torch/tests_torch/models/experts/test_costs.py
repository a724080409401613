"""The work of experts by hand; test_predicted_layers.py compares it with that of whole predicted layers."""

import pytest
import torch

from evenflow_torch.models.experts.operator import experts
from evenflow_torch.models.live_storage import StorageLog

TOKENS, HIDDEN, WIDTH, EXPERTS, CHOSEN = 24, 8, 40, 4, 2
ROWS = TOKENS * CHOSEN


def log_of(dtype: torch.dtype) -> tuple[StorageLog, int]:
    """One forward and backward without data, and the bytes that are alive between them."""
    with torch.device("meta"):
        hidden = torch.empty(TOKENS, HIDDEN, dtype=dtype, requires_grad=True)
        index = torch.empty(TOKENS, CHOSEN, dtype=torch.long)
        weights = torch.empty(TOKENS, CHOSEN, dtype=dtype, requires_grad=True)
        up = torch.empty(EXPERTS, 2, WIDTH, HIDDEN, dtype=dtype, requires_grad=True)
        down = torch.empty(EXPERTS, HIDDEN, WIDTH, dtype=dtype, requires_grad=True)
    with StorageLog((hidden, index, weights, up, down)) as log:
        result = experts(hidden, index, weights, up, None, down, None, "any", False)[0]
        alive = log.storages.live_bytes - result.untyped_storage().nbytes()
        result.backward(torch.empty_like(result))
    return log, alive


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32, torch.float64])
def test_operations_are_those_of_the_products_of_every_row(dtype: torch.dtype) -> None:
    log, alive = log_of(dtype)
    costs = {one.name: one.cost for one in log.operators if one.cost.flops}
    assert list(costs) == [
        f"evenflow.{name}.default" for name in ("experts", "experts_backward", "experts_weight_gradients")
    ]
    once = ROWS * 2 * (HIDDEN * 2 * WIDTH + WIDTH * HIDDEN)
    assert [one.flops for one in costs.values()] == [once] * 3
    size = dtype.itemsize
    assert alive == size * ROWS * (HIDDEN + 3 * WIDTH), "rows, what the gate takes, what it gives"
    forward = costs["evenflow.experts.default"]
    assert [one.depth for one in forward.parts] == [0, HIDDEN, 0, WIDTH]
    matrices = 3 * EXPERTS * HIDDEN * WIDTH
    assert sum(one.moved_bytes for one in forward.parts if one.flops) == size * (
        matrices + ROWS * (HIDDEN + 2 * WIDTH) + ROWS * (WIDTH + HIDDEN)
    )
    assert {one.dtype for one in costs.values()} == {str(dtype).removeprefix("torch.")}
    last = costs["evenflow.experts_weight_gradients.default"]
    assert {one.depth for one in last.parts} == {ROWS // EXPERTS}


def test_what_an_operator_makes_and_drops_is_at_its_peak() -> None:
    log, alive = log_of(torch.float32)
    matrices = 4 * 3 * EXPERTS * HIDDEN * WIDTH
    inside = 4 * ROWS * (2 * HIDDEN + WIDTH) + 4 * ROWS * (HIDDEN + 2 * WIDTH)
    assert log.storages.peak_bytes >= alive + max(inside, matrices)
