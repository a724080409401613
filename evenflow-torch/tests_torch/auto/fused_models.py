"""Blocks with one product for queries, keys and values, taken apart by a view whose first part no devices share."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

WIDTH, HEADS, LENGTH, SAMPLES = 16, 4, 6, 4

View = Callable[..., Any]


def as_method(tensor: Tensor, *sizes: int) -> Tensor:
    return tensor.view(*sizes)


def as_operator(tensor: Tensor, *sizes: int) -> Tensor:
    """A view that no code of the runtime sees, so that it is torch's own."""
    result: Tensor = torch.ops.aten.view.default(tensor, sizes)
    return result


class Fused(nn.Module):
    """Attention and a feed-forward layer."""

    def __init__(self, view: View = as_method) -> None:
        super().__init__()
        self.view = view
        self.norm, self.qkv, self.proj = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        samples, length, width = hidden.shape
        parts = self.view(self.qkv(self.norm(hidden)), samples, length, 3, HEADS, width // HEADS)
        query, key, value = parts.permute(2, 0, 3, 1, 4).unbind(0)
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.proj(attended.transpose(1, 2).reshape(samples, length, width))
        return hidden + self.down(functional.gelu(self.up(hidden)))


def fused_model(view: View = as_method, *, num_layers: int = 2) -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(*(Fused(view) for _ in range(num_layers))).double()
