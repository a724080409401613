"""Differences from the unsplit model are found and named."""

import torch
from torch import nn

from evenflow_torch.run.measure.verify import gradient_error, loss_error


def test_a_wrong_gradient_is_found_and_named() -> None:
    def parameter(*values: float) -> nn.Parameter:
        made = nn.Parameter(torch.zeros(len(values)))
        made.grad = torch.tensor(values)
        return made

    expected = {"a.weight": parameter(1.0, 2.0), "b.weight": parameter(4.0), "b.bias": parameter(0.5)}
    right = {name: one.grad for name, one in expected.items()}
    assert gradient_error(right, expected) == (0.0, "")
    assert gradient_error(right | {"a.weight": torch.tensor([1.0, 2.5])}, expected) == (0.25, "a.weight")
    assert gradient_error({"a.weight": right["a.weight"]}, expected) == (float("inf"), "b.weight")
    assert gradient_error(right | {"b.weight": None}, expected) == (float("inf"), "b.weight")
    assert gradient_error(right | {"a.weight": torch.tensor([float("nan"), 0.0])}, expected) == (
        float("inf"),
        "a.weight",
    )
    # Relative to the module: the bias of keys has a gradient of rounding errors.
    assert gradient_error(right | {"b.bias": torch.tensor([1.5])}, expected) == (0.25, "b.bias")
    assert loss_error([2.0, 3.0], [2.0, 4.0]) == 0.25
    assert loss_error([float("nan"), 3.0], [2.0, 3.0]) == float("inf")
