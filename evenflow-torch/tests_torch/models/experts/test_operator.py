"""The operator of experts beside a plain loop over tokens and experts, and beside transformers."""

import pytest
import torch
from torch import Tensor, nn
from transformers.activations import ACT2FN
from transformers.integrations.moe import use_experts_implementation

from evenflow_torch.models.experts.gates import name_of
from evenflow_torch.models.experts.library import as_one_operator
from evenflow_torch.models.experts.operator import experts

TOKENS, HIDDEN, WIDTH, EXPERTS, CHOSEN = 11, 6, 10, 5, 3


class Config:
    _experts_implementation = "eager"


def made(*, has_gate: bool, has_bias: bool, is_transposed: bool, is_concatenated: bool, function: str) -> nn.Module:
    """An experts module with all its properties, as those of transformers are made."""

    class Experts(nn.Module):
        def __init__(self, config: Config) -> None:
            super().__init__()
            self.act_fn = ACT2FN[function]
            self.limit = 0.5
            rows = WIDTH * (2 if has_gate else 1)
            shapes = {("gate_up_proj" if has_gate else "up_proj"): (rows, HIDDEN), "down_proj": (HIDDEN, WIDTH)}
            for name, shape in shapes.items():
                size = shape[::-1] if is_transposed else shape
                setattr(self, name, nn.Parameter(torch.randn(EXPERTS, *size, dtype=torch.float64)))
                if has_bias:
                    bias = torch.randn(EXPERTS, shape[0], dtype=torch.float64)
                    setattr(self, f"{name}_bias", nn.Parameter(bias))
            if not is_concatenated:
                self._apply_gate = self.alternating

        def alternating(self, both: Tensor) -> Tensor:
            return (both[..., 1::2] + self.limit) * self.act_fn(both[..., ::2])

        def forward(self, hidden: Tensor, index: Tensor, weights: Tensor) -> Tensor:
            """One token and one expert after the other."""
            results = []
            for token in range(len(hidden)):
                total = torch.zeros(HIDDEN, dtype=hidden.dtype)
                for expert, weight in zip(index[token].tolist(), weights[token], strict=True):
                    if expert == EXPERTS:
                        continue
                    up, down = (
                        getattr(self, name)[expert] for name in ("gate_up_proj" if has_gate else "up_proj", "down_proj")
                    )
                    up, down = (up.T, down.T) if is_transposed else (up, down)
                    first = up @ hidden[token]
                    if has_bias:
                        first = first + (self.gate_up_proj_bias if has_gate else self.up_proj_bias)[expert]
                    if not has_gate:
                        inside = self.act_fn(first)
                    elif is_concatenated:
                        inside = self.act_fn(first[:WIDTH]) * first[WIDTH:]
                    else:
                        inside = self.alternating(first)
                    total = total + weight * (down @ inside + (self.down_proj_bias[expert] if has_bias else 0))
                results.append(total)
            return torch.stack(results)

    torch.manual_seed(1)
    kind = use_experts_implementation(
        Experts,
        has_gate=has_gate,
        has_bias=has_bias,
        is_transposed=is_transposed,
        is_concatenated=is_concatenated,
    )
    return kind(Config())


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize("is_transposed", [False, True])
@pytest.mark.parametrize(
    ("has_gate", "is_concatenated", "function"),
    [(True, True, "silu"), (True, False, "sigmoid"), (False, True, "relu2"), (True, True, "gelu")],
)
def test_results_and_gradients_are_those_of_a_plain_loop(
    has_gate: bool, has_bias: bool, is_transposed: bool, is_concatenated: bool, function: str
) -> None:
    module = made(
        has_gate=has_gate,
        has_bias=has_bias,
        is_transposed=is_transposed,
        is_concatenated=is_concatenated,
        function=function,
    )
    hidden = torch.randn(TOKENS, HIDDEN, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(TOKENS, CHOSEN, dtype=torch.float64).requires_grad_()
    index = torch.stack([torch.randperm(EXPERTS - 1)[:CHOSEN] for _ in range(TOKENS)])  # the last has no tokens
    index[0, 0] = EXPERTS  # and one choice is no expert
    factor = torch.randn(TOKENS, HIDDEN, dtype=torch.float64)
    leaves = (hidden, weights, *module.parameters())
    given = module(hidden, index, weights)
    wanted = torch.autograd.grad((given * factor).sum(), leaves)
    with as_one_operator():
        result = module(hidden, index, weights)
    assert "experts" in type(result.grad_fn).__name__.lower()
    torch.testing.assert_close(result, given, rtol=1e-12, atol=1e-12)
    found = torch.autograd.grad((result * factor).sum(), leaves)
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=1e-12)


def test_traces_know_its_shapes_and_gradients() -> None:
    module = made(has_gate=True, has_bias=True, is_transposed=False, is_concatenated=True, function="silu")
    gate = name_of(module)
    up = module.gate_up_proj.detach().unflatten(1, (2, -1)).requires_grad_()
    up_bias = module.gate_up_proj_bias.detach().unflatten(1, (2, -1)).requires_grad_()
    given = (torch.randn(4, HIDDEN, dtype=torch.float64, requires_grad=True), torch.tensor([[0, 1]] * 4))
    weights = torch.rand(4, 2, dtype=torch.float64, requires_grad=True)
    arguments = (*given, weights, up, up_bias, module.down_proj, module.down_proj_bias, gate, False)
    torch.library.opcheck(experts, arguments)
