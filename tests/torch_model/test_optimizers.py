"""Memory of parameters in training, against what PyTorch keeps."""

import pytest
import torch
from torch import nn

from evenflow.errors import InputError
from evenflow.torch_model.optimizers import OPTIMIZERS, parameter_bytes, rest_of, state_bytes


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        (torch.bfloat16, {"adam": 16, "torch-adam": 8, "sgd": 4}),
        (torch.float32, {"adam": 16, "torch-adam": 16, "sgd": 8}),
    ],
)
def test_bytes_of_a_parameter(dtype: torch.dtype, expected: dict[str, int]) -> None:
    layer = nn.Linear(3, 5).to(dtype)
    assert {name: parameter_bytes(layer.parameters(), name) / 20 for name in OPTIMIZERS} == expected


def test_torch_adam_is_what_torch_keeps() -> None:
    layer = nn.Linear(3, 5, bias=False)
    optimizer = torch.optim.Adam(layer.parameters())
    layer(torch.zeros(3)).sum().backward()
    optimizer.step()
    state = optimizer.state[layer.weight]
    kept = [layer.weight, layer.weight.grad, state["exp_avg"], state["exp_avg_sq"]]
    assert sum(tensor.nbytes for tensor in kept) == parameter_bytes(layer.parameters(), "torch-adam")


def test_frozen_parameters_are_weights_alone() -> None:
    layer = nn.Linear(3, 5).requires_grad_(False)
    assert parameter_bytes(layer.parameters(), "adam") == 20 * 4


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("size", [2, 4, 8])
def test_a_parameter_is_weight_gradient_and_state(optimizer: str, size: int) -> None:
    assert state_bytes(optimizer, size) == OPTIMIZERS[optimizer](size) - 2 * size >= 0


def test_an_unknown_optimizer_is_refused() -> None:
    with pytest.raises(InputError, match="optimizer must be one of adam, torch-adam, sgd, got 'lion'"):
        state_bytes("lion", 4)


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("size", [2, 4])
def test_bytes_in_all_say_the_same_as_the_optimizer(optimizer: str, size: int) -> None:
    assert rest_of(OPTIMIZERS[optimizer](size), size) == state_bytes(optimizer, size)


def test_bytes_in_all_hold_weight_and_gradient() -> None:
    assert rest_of(8, 4) == 0
    with pytest.raises(InputError, match="must be at least the 8 of a weight and its gradient, got 7"):
        rest_of(7, 4)
