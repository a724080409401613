"""Models as people write them, none of which evenflow knows: small, in float64."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

VOCABULARY, WIDTH, LENGTH = 24, 8, 5


class Block(nn.Module):
    """Attention with a mask from outside, and a product, under dropout."""

    def __init__(self, dropout: float) -> None:
        super().__init__()
        self.norm, self.qkv, self.out = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down, self.drop = nn.Linear(WIDTH, 16), nn.Linear(16, WIDTH), nn.Dropout(dropout)

    def forward(self, hidden: Tensor, bias: Tensor) -> Tensor:
        parts = self.qkv(self.norm(hidden)).unflatten(-1, (3, 2, WIDTH // 2)).permute(2, 0, 3, 1, 4)
        taken = functional.scaled_dot_product_attention(*parts, attn_mask=bias)
        hidden = hidden + self.drop(self.out(taken.transpose(1, 2).flatten(2)))
        return hidden + self.down(functional.gelu(self.up(hidden)))


class Gpt(nn.Module):
    """With tied embeddings; a mask, positions and labels may come with the batch, with labels it returns a loss."""

    def __init__(self, layers: int, dropout: float = 0.0, *, frozen: int = 0) -> None:
        super().__init__()
        torch.manual_seed(7)
        self.tokens, self.positions = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(16, WIDTH)
        self.blocks = nn.ModuleList(Block(dropout) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.head.weight = self.tokens.weight
        self.register_buffer("seen", torch.zeros(3))  # in checkpoints, but in no forward
        for block in self.blocks[:frozen]:
            block.requires_grad_(False)
        self.double()

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        position_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> Any:
        length = input_ids.shape[1]
        if position_ids is None:
            position_ids = torch.arange(length, device=input_ids.device)[None]
        bias = torch.zeros(length, length, dtype=torch.float64, device=input_ids.device)
        bias = bias.masked_fill(torch.ones_like(bias).triu(1).bool(), -1e9)[None, None]
        if attention_mask is not None:
            bias = bias + (1.0 - attention_mask.double())[:, None, None, :] * -1e9
        hidden = self.tokens(input_ids) + self.positions(position_ids)
        for block in self.blocks:
            hidden = block(hidden, bias)
        logits = self.head(self.norm(hidden))
        if labels is None:
            return {"logits": logits, "hidden": hidden}
        return {"loss": functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


class Translator(nn.Module):
    """An encoder whose result every layer of a decoder takes."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        torch.manual_seed(8)
        self.source, self.target = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(VOCABULARY, WIDTH)
        self.encoder = nn.ModuleList(
            nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True) for _ in range(layers)
        )
        self.decoder = nn.ModuleList(
            nn.TransformerDecoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True) for _ in range(layers)
        )
        self.head = nn.Linear(WIDTH, VOCABULARY)
        self.double()

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory = self.source(source)
        for layer in self.encoder:
            memory = layer(memory)
        hidden = self.target(target)
        for layer in self.decoder:
            hidden = layer(hidden, memory)
        result: Tensor = self.head(hidden)
        return result


class First(nn.Module):
    """Hands over two tensors of other types: numbers, and who may be looked at."""

    def __init__(self) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, WIDTH)

    def forward(self, input_ids: Tensor) -> tuple[Tensor, Tensor]:
        return self.tokens(input_ids), input_ids % 3 > 0


class Middle(nn.Module):
    """Takes and hands over both, and a scale that comes with the batch."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)

    def forward(self, hidden: Tensor, counts: Tensor, scale: Tensor) -> tuple[Tensor, Tensor]:
        return hidden + torch.tanh(self.linear(hidden)) * counts[..., None] * scale[:, None, None], counts


class Last(nn.Module):
    """Takes both, and hands over one."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, hidden: Tensor, counts: Tensor) -> Tensor:
        result: Tensor = self.out(hidden * counts[..., None])
        return result


class Tuples(nn.Module):
    """Modules that hand over tuples, under names of its own."""

    def __init__(self, layers: int) -> None:
        super().__init__()
        torch.manual_seed(9)
        self.first, self.last = First(), Last()
        self.inner = nn.ModuleDict({f"at{index}": Middle() for index in range(layers)})
        self.double()

    def in_order(self) -> list[nn.Module]:
        return [self.first, *self.inner.values(), self.last]

    def forward(self, input_ids: Tensor, scale: Tensor) -> Tensor:
        hidden, counts = self.first(input_ids)
        for layer in self.inner.values():
            hidden, counts = layer(hidden, counts, scale)
        result: Tensor = self.last(hidden, counts)
        return result


def drawn(seed: int, *shape: int) -> Tensor:
    return torch.randint(VOCABULARY, shape, generator=torch.Generator().manual_seed(seed))
