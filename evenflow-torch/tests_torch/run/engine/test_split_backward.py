"""Weight gradients that are left for later are the ordinary ones."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from evenflow_torch.run.engine.split_backward import WeightGradients


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_deferred_weight_gradients_are_the_ordinary_ones(recompute: bool, frozen: bool) -> None:
    def gradients(defer: bool) -> dict[str, Any]:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 2, bias=False)).double()
        model[3].weight.requires_grad_(not frozen)
        waiting = WeightGradients()
        if defer:
            waiting.defer(model)
        hidden = torch.randn(2, 5, 3, dtype=torch.float64, requires_grad=True)
        runs: list[None] = []
        model[2].register_forward_hook(lambda *_: runs.append(None))
        for _ in range(2):
            output = checkpoint(model, hidden, use_reentrant=False) if recompute else model(hidden)
            before = None if model[0].weight.grad is None else model[0].weight.grad.clone()
            output.square().sum().backward()
            if defer:
                now = model[0].weight.grad
                assert now is None if before is None else torch.equal(now, before), "left for later"
                waiting.take()()
        assert len(runs) == (4 if recompute else 2), "recomputed once a backward"
        return {"input": hidden.grad, **{name: one.grad for name, one in model.named_parameters()}}

    plain, deferred = gradients(False), gradients(True)
    for name, gradient in plain.items():
        if gradient is None:
            assert deferred[name] is None
        else:
            torch.testing.assert_close(deferred[name], gradient, rtol=1e-14, atol=1e-14)
