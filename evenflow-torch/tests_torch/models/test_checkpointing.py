"""Layers under a recompute kind."""

import pytest
import torch
from torch import nn

from evenflow.model import COMM, FULL, NONE, SELECT
from evenflow_torch.models.checkpointing import offered_kinds, recomputed_modules, recomputing
from tests_torch.models.layers import GptLayer


@pytest.mark.parametrize(
    ("layer", "kinds"),
    [
        (GptLayer(16, 2), ("none", "comm", "full")),
        (nn.Linear(4, 4), ("none", "full")),
        (nn.TransformerEncoderLayer(8, 2), ("none", "comm", "select", "both", "full")),
    ],
)
def test_kinds_that_change_something_are_offered(layer: nn.Module, kinds: tuple[str, ...]) -> None:
    assert offered_kinds(layer) == kinds


def test_patterns_of_names_choose_the_modules() -> None:
    layer = nn.ModuleDict({"self_attn": nn.ModuleDict({"q_norm": nn.LayerNorm(2)}), "norm": nn.LayerNorm(2)})
    inner, outer = layer["self_attn"]["q_norm"], layer["norm"]
    assert recomputed_modules(layer, SELECT) == [layer["self_attn"]]
    assert recomputed_modules(layer, COMM) == [inner, outer]
    assert recomputed_modules(layer, FULL) == [layer]
    assert recomputed_modules(layer, NONE) == []
    assert recomputed_modules(layer, SELECT, {"select": ("no*",)}) == [outer]


class _Counted(nn.Linear):
    runs = 0

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        self.runs += 1
        return super().forward(hidden)


@pytest.mark.parametrize(("kind", "runs"), [(NONE, 1), (FULL, 2)])
def test_a_layer_runs_again_in_the_backward_only_inside_the_block(kind: str, runs: int) -> None:
    layer = _Counted(3, 3)
    with recomputing(layer, kind):
        result = layer(torch.ones(1, 3))
    result.sum().backward()
    assert layer.runs == runs
    layer(torch.ones(1, 3)).sum().backward()
    assert layer.runs == runs + 1
    assert "forward" not in vars(layer)
