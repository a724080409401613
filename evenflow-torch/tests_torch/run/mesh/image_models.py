"""A vision transformer and a residual network, small, as rows of modules."""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from evenflow.cluster import REPLICATE, MeshPlan, StageOnMesh, TensorLayout
from evenflow.model import Plan
from evenflow_torch.run import pipeline
from evenflow_torch.run.measure.verify import gathered_gradients
from tests_torch.run.cases import Answer
from tests_torch.run.mesh.mesh_models import cluster

SAMPLES, SIDE, WIDTH, CLASSES = 8, 8, 16, 10


class Patches(nn.Module):
    """Pictures to a row of positions, the first one for the class."""

    def __init__(self) -> None:
        super().__init__()
        self.convolution = nn.Conv2d(3, WIDTH, 2, 2)
        self.first = nn.Parameter(torch.randn(1, 1, WIDTH))

    def forward(self, pictures: Tensor) -> Tensor:
        rows = self.convolution(pictures).flatten(2).transpose(1, 2)
        return torch.cat([self.first.expand(rows.shape[0], -1, -1), rows], dim=1)


class Block(nn.Module):
    """A block of a vision transformer; torch's attention takes the positions first."""

    def __init__(self) -> None:
        super().__init__()
        self.before = nn.LayerNorm(WIDTH)
        self.attention = nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.after = nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 32), nn.GELU(), nn.Linear(32, WIDTH))

    def forward(self, hidden: Tensor) -> Tensor:
        normed = self.before(hidden)
        hidden = hidden + self.attention(normed, normed, normed, need_weights=False)[0]
        result: Tensor = hidden + self.mlp(self.after(hidden))
        return result


class First(nn.Module):
    """The class from the first position."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, CLASSES)

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = self.linear(hidden[:, 0])
        return result


class Residual(nn.Module):
    """Two convolutions with their norms, one of groups."""

    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = (nn.Conv2d(WIDTH, WIDTH, 3, padding=1, bias=False) for _ in range(2))
        self.norm, self.other = nn.BatchNorm2d(WIDTH), nn.GroupNorm(4, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = functional.relu(hidden + self.other(self.two(functional.relu(self.norm(self.one(hidden))))))
        return result


class Pooled(nn.Module):
    """The class from the mean of all places."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, CLASSES)

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = self.linear(functional.adaptive_avg_pool2d(hidden, 1).flatten(1))
        return result


def transformer() -> nn.Sequential:
    torch.manual_seed(3)
    return nn.Sequential(Patches(), Block(), Block(), First()).double()


def residual_network() -> nn.Sequential:
    torch.manual_seed(3)
    stem = nn.Sequential(nn.Conv2d(3, WIDTH, 3, padding=1), nn.BatchNorm2d(WIDTH), nn.ReLU(), nn.MaxPool2d(2))
    return nn.Sequential(stem, Residual(), Residual(), Pooled()).double()


MODELS = {"transformer": transformer, "residual network": residual_network}


def pictures(count: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(4)
    images = torch.randn(count, 3, SIDE, SIDE, generator=generator, dtype=torch.float64)
    return images, torch.randint(CLASSES, (count,), generator=generator)


def data_parallel(model: nn.Sequential, num_devices: int) -> MeshPlan:
    """One stage, its samples split over all devices."""
    layout = TensorLayout(
        shape=(SAMPLES, 3, SIDE, SIDE),
        item_bytes=8,
        mesh=(num_devices,),
        placement=(0,),
        devices=tuple(range(num_devices)),
    )
    parameters = {name: (REPLICATE,) for name, _ in model.named_parameters()}
    stage = StageOnMesh(rank=0, input=layout, output=None, parameters=parameters)
    return MeshPlan(cluster=cluster(num_devices), stages=(stage,))


def image_case(name: str, plan: Plan, where: MeshPlan | None, rank: int, *, num_devices: int = 4) -> Answer:
    """One step against a single process, which runs the samples of each device apart: batch norm sees the same then."""
    make = MODELS[name]
    data = pictures(SAMPLES * plan.num_microbatches)
    placed = where or data_parallel(make(), num_devices)
    pipe = pipeline(plan, make(), functional.cross_entropy, data, mesh_plan=placed)
    last = pipe.step(data)
    whole: Any = make()
    parts = plan.num_microbatches * (num_devices if where is None else 1)
    expected = 0.0
    for images, classes in zip(*(one.chunk(parts) for one in data), strict=True):
        loss = functional.cross_entropy(whole(images), classes) / parts
        loss.backward()
        expected += float(loss.detach())
    gradients = gathered_gradients(pipe) or {}
    errors = [
        float((own - (wanted := whole.get_parameter(one).grad)).abs().max() / wanted.abs().max())
        for one, own in gradients.items()
        if whole.get_parameter(one).grad.abs().max() > 1e-12
    ]
    return Answer(
        error=max(errors, default=0.0),
        loss_error=None if last is None else abs(float(last.detach()) / expected - 1),
        names=tuple(gradients),
    )
