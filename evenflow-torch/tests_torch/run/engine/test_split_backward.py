"""Weight gradients that are left for later are the ordinary ones."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from evenflow.errors import InputError
from evenflow_torch.run.engine.split_backward import WeightGradients
from tests_torch.run.engine.split_cases import MODULES, SIZE, module


@pytest.mark.parametrize("recompute", [False, True])
@pytest.mark.parametrize("frozen", [False, True])
def test_deferred_weight_gradients_are_the_ordinary_ones(recompute: bool, frozen: bool) -> None:
    def gradients(defer: bool) -> dict[str, Any]:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Tanh(), nn.Linear(4, 2, bias=False)).double()
        model[3].weight.requires_grad_(not frozen)
        waiting = WeightGradients()
        if defer:
            assert waiting.defer([model]) == ()
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
        return {"input": hidden.grad, **{name: parameter.grad for name, parameter in model.named_parameters()}}

    _same(gradients(False), gradients(True))


@given(
    st.lists(st.sampled_from(sorted(MODULES)), min_size=1, max_size=4),
    st.sampled_from(["none", "before", "after"]),
    st.booleans(),
    st.sampled_from([(3,), (2, 3)]),
    st.integers(min_value=0, max_value=9),
)
def test_gradients_and_hooks_of_any_modules_are_those_of_whole_backwards(
    names: Sequence[str], hooks: str, recompute: bool, shape: tuple[int, ...], seed: int
) -> None:
    """With hooks on all parameters from before the split, from after it, or only those that modules bring."""
    whole = _trained(names, seed, shape, hooks=hooks, recompute=recompute, split=False)
    _same(whole, _trained(names, seed, shape, hooks=hooks, recompute=recompute, split=True))


def _hook(model: nn.Module, calls: dict[str, list[Any]]) -> None:
    for name, parameter in model.named_parameters():
        calls[f"{name}, hook"], calls[f"{name}, hook behind"] = [], []
        if parameter.requires_grad:
            parameter.register_hook(lambda gradient, name=name: calls[f"{name}, hook"].append(gradient.clone()))
            parameter.register_post_accumulate_grad_hook(
                lambda parameter, name=name: calls[f"{name}, hook behind"].append(parameter.grad.clone())
            )


def _trained(
    names: Sequence[str], seed: int, shape: tuple[int, ...], *, hooks: str, recompute: bool, split: bool
) -> dict[str, Any]:
    """Gradients, buffers and the calls of hooks after two steps of two microbatches."""
    model = nn.Sequential(*(module(name, seed + index) for index, name in enumerate(names)))
    calls: dict[str, list[Any]] = {}
    if hooks == "before":
        _hook(model, calls)
    waiting = WeightGradients()
    if split:
        waiting.defer([model])
    if hooks == "after":
        _hook(model, calls)
    torch.manual_seed(seed)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    inputs = []
    for _ in range(2):
        later = []
        for _ in range(2):
            hidden = torch.randn(*shape, SIZE, dtype=torch.float64, requires_grad=True)
            inputs.append(hidden)
            output = checkpoint(model, hidden, use_reentrant=False) if recompute else model(hidden)
            waiting.check_forward("stage 0")
            output.square().sum().backward()
            later.append(waiting.take())
        for run in later:
            run()
        gradients = {name: parameter.grad for name, parameter in model.named_parameters()}
        optimizer.step()
        optimizer.zero_grad()
    buffers = dict(model.named_buffers())
    by_name = {f"{name} {index}": call for name, made in calls.items() for index, call in enumerate(made)}
    return {**{str(index): hidden.grad for index, hidden in enumerate(inputs)}, **gradients, **buffers, **by_name}


def test_linear_layers_that_cannot_wait_are_named() -> None:
    modules = [nn.Sequential(module(name, 1)) for name in sorted(MODULES)]
    named = {sorted(MODULES)[position] for position, _ in WeightGradients().defer(modules)}
    made_anew = {"weight norm", "weight norm of old", "spectral norm", "orthogonal", "parametrized bias"}
    with_hooks = {"gradient hook", "hook that is not linear", "hook behind the sum"}
    assert named == {*made_anew, *with_hooks, "tied to a table"}


def test_a_gradient_inside_the_forward_is_refused() -> None:
    class Inner(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(SIZE, SIZE)

        def forward(self, hidden: Tensor) -> Tensor:
            (gradient,) = torch.autograd.grad(self.layer(hidden).sum(), hidden)
            return self.layer(hidden) + gradient

    waiting, model = WeightGradients(), Inner()
    waiting.defer([model])
    model(torch.ones(1, SIZE, requires_grad=True))
    message = "stage 3 must not pass through a linear layer whose weight gradient waits, got 'a gradient that"
    with pytest.raises(InputError, match=message):
        waiting.check_forward("stage 3")


def _same(expected: dict[str, Any], actual: dict[str, Any]) -> None:
    assert actual.keys() == expected.keys()
    for name, gradient in expected.items():
        if gradient is None:
            assert actual[name] is None, name
        else:
            torch.testing.assert_close(
                actual[name], gradient, rtol=1e-12, atol=1e-14, msg=lambda text, name=name: f"{name}: {text}"
            )
