"""Parts that cost the same, and parts that do not."""

import torch
from torch import nn

from evenflow_torch.profile import profile


def test_layers_that_differ_in_an_attribute_are_told_apart() -> None:
    class Repeated(nn.Linear):
        def __init__(self, times: int) -> None:
            super().__init__(64, 64)
            self.times = times

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for _ in range(self.times):
                x = super().forward(x)
            return x

    network = profile([Repeated(1), Repeated(2), Repeated(2)], torch.zeros(64, 64), accelerator="a100")
    assert [run.count for run in network.runs] == [1, 2]
    assert network.layers[1].forward_ns > network.layers[0].forward_ns
