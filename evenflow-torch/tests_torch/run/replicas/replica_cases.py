"""Replicas of a pipeline, and what the unsplit model computes of all their samples; in float64."""

import math
from functools import partial
from typing import Any

import torch
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.tensor import DTensor

from evenflow.model import Plan
from evenflow_torch.models.rows import as_row
from evenflow_torch.run import Pipeline, pipeline
from evenflow_torch.run.measure.verify import Unsplit
from evenflow_torch.run.replicas.replicas import replicas_of
from tests_torch.run.cases import NUM_STEPS, Answer
from tests_torch.run.models import batch, llama, loss_fn

Mesh = dict[str, int]
"""Sizes of a mesh by the names of its dimensions."""


def device_mesh(sizes: Mesh) -> DeviceMesh:
    return init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))


def whole(tensor: Tensor | None) -> Tensor:
    assert tensor is not None
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor


def own_samples(data: tuple[Tensor, Tensor], mesh: DeviceMesh) -> tuple[Tensor, Tensor]:
    """The samples of one replica."""
    replicas = replicas_of(mesh)
    inputs, targets = (tensor.chunk(replicas.count)[replicas.index] for tensor in data)
    return inputs, targets


def replica_case(plan: Plan, sizes: Mesh, rank: int, **options: Any) -> Answer:
    """Steps of all replicas, whose gradients accumulate, against the unsplit model's of all samples."""
    mesh = device_mesh(sizes)
    count = mesh.size() // mesh["pp"].size()
    data = batch(plan.num_microbatches * count)
    own = own_samples(data, mesh)
    pipe = pipeline(plan, llama(plan.num_layers, **options), loss_fn, own, seed=5, mesh=mesh)
    losses = [pipe.step(own) for _ in range(NUM_STEPS)]
    unsplit = llama(plan.num_layers, **options)
    reference = Unsplit(as_row(unsplit), loss_fn, partial(torch.optim.SGD, lr=0.0), seed=5)
    gradients = {name: torch.zeros_like(parameter) for name, parameter in reference.parameters.items()}
    expected = torch.zeros(())
    for _ in range(NUM_STEPS):
        expected = reference.step(*data, plan.num_microbatches * count)
        for name, parameter in reference.parameters.items():
            gradients[name] += parameter.grad
    errors = [
        float((whole(parameter.grad) - gradients[name]).abs().max() / gradients[name].abs().max())
        for name, parameter in pipe.named_parameters()
    ]
    errors += norm_errors(pipe, [gradients[name] for name, _ in unsplit.named_parameters()])
    last = losses[-1]
    loss_error = None if last is None else abs(float(last / expected) - 1)
    share = sum(
        (parameter.to_local() if isinstance(parameter, DTensor) else parameter).numel()
        for parameter in pipe.parameters()
    ) / max(1, sum(parameter.numel() for parameter in pipe.parameters()))
    return Answer(error=max(errors), loss_error=loss_error, names=tuple(pipe.state_dict()), found=share)


def norm_errors(pipe: Pipeline, gradients: list[Tensor]) -> list[float]:
    """How far norms are from those of the unsplit model's gradients, and clipped gradients from the right ones."""
    errors = []
    for norm_type in (1.0, 2.0, math.inf):
        wanted = torch.nn.utils.get_total_norm(gradients, norm_type)
        errors.append(abs(float(pipe.clip_grad_norm_(math.inf, norm_type=norm_type) / wanted) - 1))
    before = [whole(parameter.grad).clone() for parameter in pipe.parameters()]
    norm = float(pipe.clip_grad_norm_(0.5 * float(wanted), norm_type=math.inf))
    for parameter, gradient in zip(pipe.parameters(), before, strict=True):
        errors.append(float((whole(parameter.grad) - gradient * min(1.0, 0.5 * norm / (norm + 1e-6))).abs().max()))
    return errors
