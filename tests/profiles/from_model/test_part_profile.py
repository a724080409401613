"""Parts that cost the same, and parts that do not."""

import torch
from torch import nn

from evenflow.profiles.from_model import profile
from evenflow.profiles.from_model.part_profile import signature
from evenflow.torch_model.parts import Part
from tests.torch_model.layers import GptLayer


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


def test_numbers_values_and_devices_are_no_difference() -> None:
    one, two = GptLayer(16, 2), GptLayer(16, 2).to("meta")
    one.layer_idx, two.layer_idx = 0, 1
    first, second = (
        Part(name=f"layer {at}", module=layer, inputs=(torch.zeros(1, 4, 16, device=layer.ln_1.weight.device),))
        for at, layer in enumerate((one, two))
    )
    assert signature(first) == signature(second)


def test_shapes_types_and_what_is_trained_are_differences() -> None:
    def of(module: nn.Module, *shape: int) -> object:
        return signature(Part(name="x", module=module, inputs=(torch.zeros(*shape),)))

    plain = of(nn.Linear(4, 4), 2, 4)
    others = [
        of(nn.Linear(4, 4), 3, 4),
        of(nn.Linear(4, 4).double(), 2, 4),
        of(nn.Linear(4, 4).requires_grad_(False), 2, 4),
        of(nn.Sequential(nn.Linear(4, 4)), 2, 4),
        of(nn.Linear(4, 4, bias=False), 2, 4),
    ]
    assert plain == of(nn.Linear(4, 4), 2, 4)
    assert plain not in others
