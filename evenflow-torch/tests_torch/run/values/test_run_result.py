"""A verification agrees only within its tolerance."""

import pytest

from evenflow_torch.run.values.run_result import Verification


@pytest.mark.parametrize(
    ("loss_error", "gradient_error", "agrees"),
    [(0.0, 0.0, True), (1e-3, 1e-3, True), (2e-3, 0.0, False), (0.0, 2e-3, False), (float("nan"), 0.0, False)],
)
def test_both_errors_must_be_within_the_tolerance(loss_error: float, gradient_error: float, agrees: bool) -> None:
    found = Verification(loss_error=loss_error, gradient_error=gradient_error, worst_parameter="weight", tolerance=1e-3)
    assert found.agrees == agrees
