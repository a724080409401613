"""What waits for the backward where elementwise operators are fused."""

import torch
from torch import nn
from torch.nn.functional import dropout, silu

from evenflow_torch.models.part_trace import trace
from evenflow_torch.models.parts import Part

TOKENS, WIDTH = 128, 64
NUMBERS = TOKENS * WIDTH


def fused_numbers(module: nn.Module) -> float:
    """Numbers in 32 bits that a module keeps of its input."""
    part = Part(name="x", module=module, inputs=(torch.empty(TOKENS, WIDTH, device="meta"),))
    return trace(part, "none").fused_activation_bytes / 4


class Between(nn.Module):
    """A product, elementwise operators, and another product."""

    def __init__(self, *, drops: bool = False) -> None:
        super().__init__()
        self.first, self.second = (nn.Linear(WIDTH, WIDTH, bias=False) for _ in range(2))
        self.drops = drops

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        made = self.first(x)
        activated = silu(silu(made)).sin()
        return self.second(dropout(activated, 0.5) if self.drops else activated)


def test_only_what_products_read_and_give_is_kept() -> None:
    # The input, what the first product gives, and what the second one reads.
    assert fused_numbers(Between()) == 3 * NUMBERS


def test_what_is_random_is_kept() -> None:
    # Beside them the mask, of a byte a number.
    assert fused_numbers(Between(drops=True)) == 3.25 * NUMBERS


def test_a_result_stays_where_its_beginnings_are_larger() -> None:
    class Summed(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            made = super().forward(x)
            return (made.sum(1) ** 3).sin()

    # The input for the weight gradient; of each token the sum and its cube, smaller than what the sum was made of.
    assert fused_numbers(Summed(WIDTH, WIDTH, bias=False)) <= NUMBERS + 2 * TOKENS
