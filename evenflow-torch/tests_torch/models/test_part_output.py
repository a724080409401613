"""What a part hands over, without computing it."""

import pytest
import torch
from torch import Tensor, nn

from evenflow.errors import InputError
from evenflow_torch.models.part_output import part_output
from evenflow_torch.models.parts import Part


class Positions(nn.Module):
    """Adds positions that it makes by itself, as GPT does, and counts its calls."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(16, 4)
        self.scale = torch.tensor(0.5)
        self.calls = 0

    def forward(self, hidden: Tensor, shift: int = 0) -> Tensor:
        self.calls += 1
        positions = torch.arange(hidden.shape[1]) + shift
        return (hidden + self.table(positions)) * self.scale


class Masked(nn.Linear):
    """Hides what a mask says, and returns the mask too."""

    def forward(self, hidden: Tensor, *, mask: Tensor) -> tuple[Tensor, Tensor]:
        return super().forward(hidden).masked_fill(mask, 0.0), mask


def part(module: nn.Module) -> Part:
    return Part(name="layer", module=module)


@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_a_part_that_makes_tensors_by_itself(device: str) -> None:
    module = Positions()
    output = part_output(part(module), torch.zeros(2, 8, 4, device=device), {"shift": 3})
    assert (output.shape, output.dtype, output.device.type) == ((2, 8, 4), torch.float32, "meta")
    assert module.calls == 0, "a copy ran"


def test_all_that_a_part_returns_is_there() -> None:
    mask = torch.zeros(2, 1, dtype=torch.bool)
    output, same = part_output(part(Masked(4, 6)), torch.zeros(2, 4), {"mask": mask})
    assert (output.shape, same.shape, same.dtype) == ((2, 6), (2, 1), torch.bool)
    assert same.is_meta


def test_nothing_is_computed() -> None:
    wide = nn.Linear(10**6, 10**6, device="meta")
    assert part_output(part(wide), torch.empty(10**6, 10**6, device="meta"), {}).shape == (10**6, 10**6)


def test_random_numbers_are_left_alone() -> None:
    before = torch.get_rng_state()
    part_output(part(nn.Dropout(0.5)), torch.zeros(4, 4), {})
    assert torch.equal(torch.get_rng_state(), before)


def test_a_part_that_decides_by_values_is_refused() -> None:
    class Decides(nn.Linear):
        def forward(self, hidden: Tensor) -> Tensor:
            return hidden if bool(hidden.sum() > 0) else super().forward(hidden)

    with pytest.raises(InputError, match="layer must run on tensors whose shapes are known"):
        part_output(part(Decides(2, 2)), torch.zeros(1, 2), {})
