"""Layers whose costs are known by hand."""

import torch
from torch import nn
from torch.nn.functional import gelu, softmax

from evenflow_torch.models.parts import Part
from tests.networks import SMALL_LLAMA


def dropout(x: torch.Tensor) -> torch.Tensor:
    """With a mask of a byte an element, as on accelerators; the CPU's own has the elements' type."""
    return torch.native_dropout(x, 0.1, True)[0]


class GptLayer(nn.Module):
    """The layer of arXiv:2205.05198: unfused attention that keeps its scores, dropout in three places."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.ln_1, self.ln_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.query, self.key, self.value, self.out = (nn.Linear(width, width) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, sequence, width = x.shape
        normed = self.ln_1(x)
        query, key, value = (
            part(normed).view(batch, sequence, self.heads, -1).transpose(1, 2)
            for part in (self.query, self.key, self.value)
        )
        scores = dropout(softmax(query @ key.transpose(-1, -2), dim=-1))
        attention = (scores @ value).transpose(1, 2).reshape(batch, sequence, width)
        x = x + dropout(self.out(attention))
        return x + dropout(self.down(gelu(self.up(self.ln_2(x)))))


def gpt_part(*, width: int, heads: int, sequence: int, batch: int = 1, dtype: torch.dtype = torch.bfloat16) -> Part:
    with torch.device("meta"):
        layer = GptLayer(width, heads).to(dtype)
        hidden = torch.empty(batch, sequence, width, dtype=dtype)
    return Part(name="gpt", module=layer, inputs=(hidden,))


def llama_config(**sizes: object) -> dict[str, object]:
    """A small decoder's config.json, with `sizes` in place of its own."""
    return {**SMALL_LLAMA, "num_hidden_layers": 2, **sizes}
