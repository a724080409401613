"""Gradients of work that is done again are set apart from the others."""

import pytest
import torch
from torch import nn

from evenflow_torch.run.aa.restored_state import set_apart


@pytest.mark.parametrize("had", [False, True])
def test_gradients_set_apart_are_added_where_they_belong(had: bool) -> None:
    parameter = nn.Parameter(torch.ones(2))
    frozen = nn.Parameter(torch.ones(1))
    parameter.grad = torch.full((2,), 5.0) if had else None
    before = parameter.grad
    gradients: dict[str, torch.Tensor] = {}
    with set_apart({"a": parameter, "b": frozen}, gradients):
        (3 * parameter).sum().backward()
    assert gradients["a"].tolist() == [3.0, 3.0]
    assert list(gradients) == ["a"]
    assert parameter.grad.tolist() == [8.0 if had else 3.0] * 2
    assert before is None or parameter.grad is before
    with set_apart({"a": parameter, "b": frozen}, gradients, merge=False):
        (4 * parameter).sum().backward()
    assert gradients["a"].tolist() == [4.0, 4.0]
    assert parameter.grad.tolist() == [8.0 if had else 3.0] * 2
