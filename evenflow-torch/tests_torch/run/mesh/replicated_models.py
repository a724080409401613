"""Replicas of a plan whose stages lie on several devices, and what the unsplit model computes of all their samples."""

import tempfile
from dataclasses import replace
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

from evenflow.model import Plan
from evenflow_torch.models.rows import as_row
from evenflow_torch.run import Pipeline, pipeline
from evenflow_torch.run.measure.verify import Unsplit
from tests_torch.run.cases import NUM_STEPS, Answer
from tests_torch.run.mesh.mesh_models import On, batch, dropping_model, loss_fn, mesh_plan
from tests_torch.run.replicas.replica_cases import norm_errors, own_samples, whole

REPLICAS = 2


def made(plan: Plan, ranks: tuple[On, ...], order: tuple[str, str]) -> tuple[Pipeline, Any, Any]:
    """Return a pipeline of a model with dropout, the samples of all replicas, and those of this one."""
    devices = sum(len(where.devices) for where in ranks)
    sizes = {"pp": devices, "dp_replicate": REPLICAS}
    mesh = init_device_mesh("cpu", tuple(sizes[name] for name in order), mesh_dim_names=order)
    data = batch(replace(plan, num_microbatches=REPLICAS * plan.num_microbatches))
    own = own_samples(data, mesh)
    layered = as_row(dropping_model(plan))
    pipe = pipeline(plan, layered, loss_fn, own, mesh=mesh, mesh_plan=mesh_plan(plan, layered, ranks), seed=5)
    return pipe, data, own


def steps_case(plan: Plan, ranks: tuple[On, ...], order: tuple[str, str], rank: int) -> Answer:
    """Steps whose gradients accumulate, and their norm, against the unsplit model's of all samples."""
    pipe, data, own = made(plan, ranks, order)
    losses = [pipe.step(own) for _ in range(NUM_STEPS)]
    reference = Unsplit(as_row(dropping_model(plan)), loss_fn, partial(torch.optim.SGD, lr=0.0), seed=5)
    gradients = {name: torch.zeros_like(parameter) for name, parameter in reference.parameters.items()}
    expected = torch.zeros(())
    for _ in range(NUM_STEPS):
        expected = reference.step(*data, REPLICAS * plan.num_microbatches)
        for name, parameter in reference.parameters.items():
            gradients[name] += parameter.grad
    errors = [
        float((whole(parameter.grad) - gradients[name]).abs().max() / gradients[name].abs().max())
        for name, parameter in pipe.named_parameters()
    ]
    errors += norm_errors(pipe, list(gradients.values()))
    last = losses[-1]
    return Answer(error=max(errors), loss_error=None if last is None else abs(float(last / expected) - 1))


def saved_case(plan: Plan, ranks: tuple[On, ...], order: tuple[str, str], rank: int) -> Answer:
    """Steps, a checkpoint, and steps from it with replicas that lie otherwise: as if nothing had happened."""
    folder: list[Any] = [tempfile.mkdtemp() if rank == 0 else None]
    dist.broadcast_object_list(folder)
    pipes = [made(plan, ranks, names) for names in (order, order[::-1])]
    optimizers = [torch.optim.AdamW(pipe.parameters(), lr=0.01) for pipe, *_ in pipes]

    def train(place: int) -> None:
        pipe, _data, own = pipes[place]
        for _ in range(2):
            optimizers[place].zero_grad()
            pipe.step(own)
            optimizers[place].step()

    train(0)
    pipes[0][0].save(folder[0], optimizers[0])
    train(0)
    pipes[1][0].load(folder[0], optimizers[1])
    train(1)
    states = [{name: whole(value) for name, value in pipe.state_dict().items()} for pipe, *_ in pipes]
    every: list[Any] = [None] * dist.get_world_size()
    dist.all_gather_object(every, states)
    first, second = ({k: v for of_rank in every for k, v in of_rank[place].items()} for place in range(2))
    error = max(float((first[name] - second[name]).abs().max()) for name in first)
    return Answer(error=error, found=len(second))
