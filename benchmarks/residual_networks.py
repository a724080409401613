"""Residual networks as rows of blocks: ResNet, arXiv:1512.03385, and wide ones, arXiv:1605.07146."""

from collections.abc import Callable, Sequence

import torch
from torch import nn


def _normalized(before: int, behind: int, size: int, stride: int = 1) -> nn.Sequential:
    """Return a convolution with batch norm, padded so that only the stride makes pictures smaller."""
    return nn.Sequential(
        nn.Conv2d(before, behind, size, stride, size // 2, bias=False),
        nn.BatchNorm2d(behind),
    )


class Residual(nn.Module):
    """Convolutions with what comes in beside them, through a convolution of size 1 where the shape changes."""

    def __init__(self, before: int, behind: int, stride: int, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner
        same = before == behind and stride == 1
        self.shortcut = nn.Identity() if same else _normalized(before, behind, 1, stride)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.inner(pictures) + self.shortcut(pictures))


class Basic(Residual):
    """Two convolutions of size 3."""

    def __init__(self, before: int, channels: int, stride: int) -> None:
        inner = nn.Sequential(_normalized(before, channels, 3, stride), nn.ReLU(), _normalized(channels, channels, 3))
        super().__init__(before, channels, stride, inner)
        self.channels = channels


class Bottleneck(Residual):
    """Convolutions of size 1, 3 and 1; the middle one gives `width_factor` times as many channels."""

    def __init__(self, before: int, channels: int, stride: int, *, width_factor: int = 1) -> None:
        middle, behind = channels * width_factor, 4 * channels
        inner = nn.Sequential(
            _normalized(before, channels, 1),
            nn.ReLU(),
            _normalized(channels, middle, 3, stride),
            nn.ReLU(),
            _normalized(middle, behind, 1),
        )
        super().__init__(before, behind, stride, inner)
        self.channels = behind


class ResidualNetwork(nn.Module):
    """Groups of so many blocks; every group has twice the channels of the one before."""

    def __init__(
        self,
        groups: Sequence[int],
        block: Callable[[int, int, int], Basic | Bottleneck],
        *,
        channels: int,
        classes: int,
    ) -> None:
        super().__init__()
        self.head = nn.Sequential(_normalized(3, channels, 7, 2), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        blocks: list[nn.Module] = []
        before = channels
        for group, count in enumerate(groups):
            for place in range(count):
                made = block(before, channels * 2**group, 2 if group and not place else 1)
                blocks.append(made)
                before = made.channels
        self.blocks = nn.Sequential(*blocks)
        self.tail = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(before, classes))

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        scores: torch.Tensor = self.tail(self.blocks(self.head(pictures)))
        return scores
