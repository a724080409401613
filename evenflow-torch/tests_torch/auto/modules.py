"""Models as people write them, small; and the batches they take."""

from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.qkv, self.proj, self.heads = nn.Linear(width, 3 * width), nn.Linear(width, width), heads

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None) -> torch.Tensor:
        batch, tokens, width = x.shape
        parts = self.qkv(x).view(batch, tokens, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        found = functional.scaled_dot_product_attention(*parts, attn_mask=mask, is_causal=mask is None)
        return self.proj(found.transpose(1, 2).reshape(batch, tokens, width))


class Block(nn.Module):
    """Norms before, as in GPT-2."""

    def __init__(self, width: int, heads: int = 4) -> None:
        super().__init__()
        self.ln1, self.attn, self.ln2 = nn.LayerNorm(width), Attention(width, heads), nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))
        self.drop = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.drop(self.attn(self.ln1(x)))
        return x + self.mlp(self.ln2(x))


class Gpt(nn.Module):
    """With tied embeddings; returns what the last block gives as well."""

    def __init__(self, width: int = 32, layers: int = 3, words: int = 64) -> None:
        super().__init__()
        self.wte, self.wpe = nn.Embedding(words, width), nn.Embedding(16, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(layers))
        self.ln_f, self.head = nn.LayerNorm(width), nn.Linear(width, words, bias=False)
        self.head.weight = self.wte.weight

    def forward(self, tokens: torch.Tensor) -> dict[str, torch.Tensor]:
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return {"logits": self.head(self.ln_f(x)), "hidden": x}


class PostNormLayer(nn.Module):
    """Norms behind, as in BERT."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.attn, self.n1, self.n2 = Attention(width, 4), nn.LayerNorm(width), nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.n1(x + self.attn(x, mask))
        return self.n2(x + self.down(functional.gelu(self.up(x))))


class Encoder(nn.Module):
    """Takes a mask beside the tokens, makes another one of it, and a table that it writes to in place."""

    def __init__(self, width: int = 32, layers: int = 3) -> None:
        super().__init__()
        self.embed, self.norm, self.classify = nn.Embedding(50, width), nn.LayerNorm(width), nn.Linear(width, 2)
        self.layers = nn.ModuleList(PostNormLayer(width) for _ in range(layers))

    def forward(self, tokens: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        x = self.norm(self.embed(tokens))
        bias = torch.zeros_like(mask)
        bias[mask == 0] = -1e9
        for layer in self.layers:
            x = layer(x, bias[:, None, None, :])
        return self.classify(x[:, 0])


class Residual(nn.Module):
    def __init__(self, before: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(before, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Conv2d(before, width, 1, stride) if stride > 1 else nn.Identity()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        y += self.shortcut(x)
        return self.relu(y)


class ResNet(nn.Module):
    def __init__(self, blocks: tuple[int, ...] = (2, 3), width: int = 8) -> None:
        super().__init__()
        self.stem, self.norm = nn.Conv2d(3, width, 3, 1, 1, bias=False), nn.BatchNorm2d(width)
        stages = []
        for stage, count in enumerate(blocks):
            wide = width * 2**stage
            first = Residual(wide // 2, wide, 2) if stage else Residual(wide, wide, 1)
            stages.append(nn.Sequential(first, *(Residual(wide, wide, 1) for _ in range(count - 1))))
        self.stages, self.fc = nn.ModuleList(stages), nn.Linear(wide, 10)

    def forward(self, image: torch.Tensor) -> torch.Tensor:
        x = functional.max_pool2d(functional.relu(self.norm(self.stem(image))), 2)
        for stage in self.stages:
            x = stage(x)
        return self.fc(x.mean((2, 3)))


class SkipMlp(nn.Module):
    """One tensor crosses before `b` and before `e`, and at the last addition, but not in between."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = nn.Linear(16, 64), nn.Linear(64, 64), nn.Linear(64, 32)
        self.d, self.e = nn.Linear(32, 64), nn.Linear(64, 16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = functional.relu(self.a(x))
        y = self.d(functional.relu(self.c(torch.tanh(self.b(h)))))
        return self.e(y + h)


def batch_of(model: nn.Module) -> tuple[torch.Tensor, ...]:
    """Arguments with values, in float64 where they are numbers."""
    if isinstance(model, Encoder):
        mask = torch.ones(2, 8, dtype=torch.float64)
        mask[:, 6:] = 0
        return torch.randint(0, 50, (2, 8)), mask
    if isinstance(model, ResNet):
        return (torch.randn(2, 3, 16, 16, dtype=torch.float64),)
    if isinstance(model, SkipMlp):
        return (torch.randn(4, 16, dtype=torch.float64),)
    return (torch.randint(0, 64, (2, 8)),)


class Lone(nn.Module):
    """Calls any function with two linear layers."""

    def __init__(self, forward: Callable[..., object]) -> None:
        super().__init__()
        self.one, self.other, self._forward = nn.Linear(8, 8), nn.Linear(8, 8), forward
        self.register_buffer("seen", torch.zeros(4, 8))

    def forward(self, x: torch.Tensor) -> object:
        return self._forward(self, x)


def gated(model: Lone, x: torch.Tensor) -> torch.Tensor:
    return model.one(x) * torch.sigmoid(model.other(x)) + x
