"""Two-level plans of models of images beside data parallelism and the other plain plans, all with the same costs.

Sizes: ViT-L/16 of An Image is Worth 16x16 Words, arXiv:2010.11929, table 1, and ResNet-34 of arXiv:1512.03385, table 1.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import nn

from benchmarks.auto import FAST, SLOW
from benchmarks.residual_networks import Basic, ResidualNetwork
from benchmarks.table import aligned
from evenflow.predict.training import Sharding
from evenflow.units import milliseconds
from evenflow_torch.auto import Cluster, plan
from evenflow_torch.auto.sharding.ways import AxisRole, PlainWay
from evenflow_torch.auto.stages.two_level_plan import PlainGrid

CLUSTER = Cluster(num_nodes=1, devices_per_node=4, memory_bytes=16 * 2**30, intra=FAST, inter=SLOW)


class VisionBlock(nn.Module):
    """An encoder layer that normalizes first, with the attention of torch."""

    def __init__(self, width: int, heads: int, hidden: int) -> None:
        super().__init__()
        self.before, self.between = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, hidden), nn.GELU(), nn.Linear(hidden, width))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        inner = self.before(tokens)
        tokens = tokens + self.attention(inner, inner, inner, need_weights=False)[0]
        out: torch.Tensor = tokens + self.mlp(self.between(tokens))
        return out


class VisionTransformer(nn.Module):
    """ViT-L/16 for pictures of 224 x 224: 196 patches and a token for the class."""

    def __init__(self, width: int = 1024, layers: int = 24, heads: int = 16, hidden: int = 4096) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.of_class, self.positions = nn.Parameter(torch.zeros(1, 1, width)), nn.Parameter(torch.zeros(1, 197, width))
        self.blocks = nn.Sequential(*(VisionBlock(width, heads, hidden) for _ in range(layers)))
        self.norm, self.classes = nn.LayerNorm(width), nn.Linear(width, 1000)

    def forward(self, pictures: torch.Tensor) -> torch.Tensor:
        patches = self.patches(pictures).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.of_class.expand(patches.shape[0], -1, -1), patches], dim=1) + self.positions
        scores: torch.Tensor = self.classes(self.norm(self.blocks(tokens))[:, 0])
        return scores


def resnet_34() -> nn.Module:
    """Return ResNet-34."""
    return ResidualNetwork((3, 4, 6, 3), Basic, channels=64, classes=1000)


MODELS: dict[str, Callable[[], nn.Module]] = {"ViT-L": VisionTransformer, "ResNet-34": resnet_34}
PICTURES = (16, 64)
"""Pictures of a microbatch."""


@dataclass(frozen=True, slots=True)
class Row:
    name: str
    pictures: int
    data: PlainGrid
    """Data parallelism over all devices that shares nothing out; it may not fit."""
    plain: PlainGrid | None
    """The best plain plan; None where none fits."""
    free_ns: int
    """The best of the stages that were chosen freely."""
    answer_ns: int


def measure(name: str, pictures: int, *, time_limit_s: float) -> Row:
    """Plan a model with everything as it is by default, on four devices of a node."""
    with torch.device("meta"):
        model, batch = MODELS[name](), torch.zeros(pictures, 3, 224, 224)
    found = plan(model, batch, CLUSTER, time_limit_s=time_limit_s)
    free = replace(found.search, grids=()).shortest
    assert free is not None
    return Row(
        name=name,
        pictures=pictures,
        data=next(grid for grid in found.search.grids if grid.num_stages == 1 and _is_data(grid)),
        plain=min((grid for grid in found.search.grids if grid.plan), key=_ns, default=None),
        free_ns=free.timeline.makespan_ns,
        answer_ns=int(found.simulation.makespan_ns),
    )


def _is_data(grid: PlainGrid) -> bool:
    way = grid.sharding.way
    return isinstance(way, PlainWay) and set(way.roles) == {AxisRole.DATA} and way.sharding is Sharding.NOTHING


def _ns(grid: PlainGrid) -> int:
    assert grid.plan is not None
    return grid.plan.timeline.makespan_ns


def report(rows: list[Row]) -> str:
    """Return the table, in milliseconds of a step."""
    return aligned(
        ["model", "pictures", "data parallel", "best plain", "stages chosen freely", "answer", "best plain is"],
        [
            [
                row.name,
                str(row.pictures),
                f"{milliseconds(_ns(row.data)):,.1f}" if row.data.plan else "does not fit",
                f"{milliseconds(_ns(row.plain)):,.1f}" if row.plain else "none fits",
                f"{milliseconds(row.free_ns):,.1f}",
                f"{milliseconds(row.answer_ns):,.1f}",
                row.plain.name if row.plain else "",
            ]
            for row in rows
        ],
    )
