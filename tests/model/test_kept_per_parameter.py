"""What training keeps for a parameter."""

import pytest

from evenflow.errors import InputError
from evenflow.model.kept_per_parameter import OPTIMIZERS, KeptBytes, kept_bytes, rest_of


@pytest.mark.parametrize(
    ("weight", "gradient", "expected"),
    [
        (2, None, {"adam": 2 + 4 + 12, "torch-adam": 8, "sgd": 4}),
        (2, 2, {"adam": 2 + 2 + 16, "torch-adam": 8, "sgd": 4}),
        (4, None, {"adam": 4 + 4 + 8, "torch-adam": 16, "sgd": 8}),
        (4, 2, {"adam": 4 + 2 + 12, "torch-adam": 16, "sgd": 8}),
        (8, None, {"adam": 32, "torch-adam": 32, "sgd": 16}),
    ],
)
def test_bytes_of_a_parameter(weight: int, gradient: int | None, expected: dict[str, int]) -> None:
    totals = {name: kept_bytes(name, weight_bytes=weight, gradient_bytes=gradient).total for name in OPTIMIZERS}
    assert totals == expected


def test_weight_gradient_and_state_are_told_apart() -> None:
    assert kept_bytes("adam", weight_bytes=2) == KeptBytes(weight=2, gradient=4, state=12)


def test_an_unknown_optimizer_is_refused() -> None:
    with pytest.raises(InputError, match="optimizer must be one of adam, torch-adam, sgd, got 'lion'"):
        kept_bytes("lion", weight_bytes=4)


def test_bytes_in_all_hold_weight_and_gradient() -> None:
    assert rest_of(16, 2) == 12
    assert rest_of(8, 4) == 0
    with pytest.raises(InputError, match="must be at least the 8 of a weight and its gradient, got 7"):
        rest_of(7, 4)
