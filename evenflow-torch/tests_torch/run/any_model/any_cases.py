"""Models of any form in pipelines, against the same models in one process."""

from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn import functional

from evenflow import auto
from evenflow.model import Plan
from evenflow_torch.run import Pipeline, as_row, pipeline
from evenflow_torch.run.replicas.replicas import replicas_of
from tests_torch.run.any_model.own_models import LENGTH, Gpt, Translator, Tuples, drawn
from tests_torch.run.cases import Answer
from tests_torch.run.replicas.loop_cases import gradient_error, relative
from tests_torch.run.replicas.replica_cases import Mesh, device_mesh, whole

Form = Callable[[int, int], tuple[Any, Any]]
"""Inputs and targets of so many samples of a length."""


def loss_fn(output: Any, target: Tensor) -> Tensor:
    return functional.cross_entropy(output.flatten(0, -2), target.flatten())


def masked(samples: int, length: int) -> tuple[dict[str, Tensor], Tensor]:
    """A mask of every sample, and positions of one row for all."""
    mask = (drawn(1, samples, length) % 4 > 0).long()
    mask[:, 0] = 1
    positions = torch.arange(length).flip(0)[None]
    inputs = {"input_ids": drawn(2, samples, length), "attention_mask": mask, "position_ids": positions}
    return inputs, drawn(3, samples, length)


def labelled(samples: int, length: int) -> tuple[dict[str, Tensor], None]:
    """No targets: the model returns the loss."""
    inputs, labels = masked(samples, length)
    return {**inputs, "labels": labels}, None


def pairs(samples: int, length: int) -> tuple[tuple[Tensor, Tensor], Tensor]:
    return (drawn(4, samples, length + 2), drawn(5, samples, length)), drawn(6, samples, length)


def scaled(samples: int, length: int) -> tuple[dict[str, Tensor], Tensor]:
    scale = torch.linspace(0.5, 1.5, samples, dtype=torch.float64)
    return {"input_ids": drawn(7, samples, length), "scale": scale}, drawn(8, samples, length)


def outcome(model: nn.Module, inputs: Any, targets: Any) -> Tensor:
    """The loss of the whole batch in one process."""
    output = model(**inputs) if isinstance(inputs, dict) else model(*inputs)
    if targets is None:
        loss: Tensor = output["loss"]
        return loss
    return loss_fn(output["logits"] if isinstance(output, dict) else output, targets)


def trained(pipe: Pipeline, model: nn.Module, form: Form, sizes: list[tuple[int, int]], own: Any) -> Answer:
    """Steps and evaluations of several shapes, against one process."""
    errors = []
    for samples, length in sizes:
        inputs, targets = form(samples, length)
        expected = outcome(model, inputs, targets)
        expected.backward()
        given = own(inputs if targets is None else (inputs, targets))
        errors += relative(pipe.step(given), expected.detach())
        errors += relative(pipe.evaluate(given), expected.detach())
    state = pipe.state_dict()
    same = all(torch.equal(whole(value), model.state_dict()[name]) for name, value in state.items())
    return Answer(
        error=gradient_error(pipe, model), loss_error=max(errors, default=0.0), names=tuple(state), found=same
    )


def gpt_case(plan: Plan, form: Form, rank: int, **options: Any) -> Answer:
    """An unmodified module; the last shapes are others."""
    samples = 2 * plan.num_microbatches
    inputs, targets = form(samples, LENGTH)
    has_loss = targets is not None
    pipe = pipeline(
        plan, Gpt(plan.num_layers, **options), loss_fn if has_loss else None, (inputs, targets) if has_loss else inputs
    )
    sizes = [(samples, LENGTH), (samples, LENGTH), (2 * samples, LENGTH - 1)]
    return trained(pipe, Gpt(plan.num_layers, **options), form, sizes, lambda batch: batch)


def dropout_case(plan: Plan, rank: int) -> Answer:
    """Dropout is there in training, and not in evaluation."""
    batch = masked(2 * plan.num_microbatches, LENGTH)
    model = Gpt(plan.num_layers, dropout=0.5)
    pipe = pipeline(plan, Gpt(plan.num_layers, dropout=0.5), loss_fn, batch, seed=3)
    expected = outcome(model.eval(), *batch).detach()
    errors = relative(pipe.evaluate(batch), expected)
    first = pipe.step(batch)
    pipe.num_steps = 0
    again = pipe.step(batch)
    errors += relative(pipe.evaluate(batch), expected)
    found = None if first is None or again is None else (bool(first == again), bool((first - expected).abs() > 1e-3))
    return Answer(error=0.0, loss_error=max(errors, default=0.0), found=found)


def translator_case(plan: Plan, rank: int) -> Answer:
    """Two tensors cross between layers of the decoder."""
    samples = 2 * plan.num_microbatches
    pipe = pipeline(plan, Translator(plan.num_layers // 2), loss_fn, pairs(samples, LENGTH))
    return trained(
        pipe, Translator(plan.num_layers // 2), pairs, [(samples, LENGTH), (samples + 1, LENGTH)], lambda batch: batch
    )


def tuples_case(plan: Plan, rank: int) -> Answer:
    """A list of modules, which keep their names in the model."""
    samples = 2 * plan.num_microbatches
    model = Tuples(plan.num_layers)
    row = as_row(model.in_order(), head_modules=1, tail_modules=1, whole=model)
    pipe = pipeline(plan, row, loss_fn, scaled(samples, LENGTH))
    sizes = [(samples, LENGTH), (samples + 1, LENGTH + 1)]
    return trained(pipe, Tuples(plan.num_layers), scaled, sizes, lambda batch: batch)


def planned_case(rank: int) -> Answer:
    """A module on the stages that `evenflow.auto.plan` has chosen for it: two lines from the module to the pipeline."""
    samples, num_microbatches = 8, 2
    inputs, targets = masked(samples, LENGTH)
    microbatch = {name: value[: len(value) // num_microbatches or 1] for name, value in inputs.items()}
    link = auto.Link(bytes_per_s=10_000_000)
    cluster = auto.Cluster(num_nodes=1, devices_per_node=2, memory_bytes=10**9, intra=link, inter=link)
    model, alone = Gpt(3), Gpt(3)
    plans: list[Any] = [None, None]
    if rank == 0:  # two searches may find different plans
        found = auto.plan(model, microbatch, cluster, num_microbatches=num_microbatches, time_limit_s=600)
        plans = [found.simulation.plan, found.mesh_plan]
    dist.broadcast_object_list(plans)
    pipe = pipeline(plans[0], model, loss_fn, (inputs, targets), mesh_plan=plans[1])
    expected = outcome(alone, inputs, targets)
    expected.backward()
    errors = relative(pipe.step((inputs, targets)), expected.detach())
    return Answer(error=gradient_error(pipe, alone), loss_error=max(errors, default=0.0), found=plans[0].num_ranks)


def replicas_case(plan: Plan, mesh_sizes: Mesh, rank: int) -> Answer:
    """Replicas share the parameters of a model that is cut by its operators."""
    mesh = device_mesh(mesh_sizes)
    replicas = replicas_of(mesh)
    samples = 2 * plan.num_microbatches * replicas.count

    def own(batch: Any) -> Any:
        inputs, targets = batch
        mine = {
            name: value.chunk(replicas.count)[replicas.index] if len(value) == samples else value
            for name, value in inputs.items()
        }
        return mine, targets.chunk(replicas.count)[replicas.index]

    pipe = pipeline(plan, Gpt(plan.num_layers), loss_fn, own(masked(samples, LENGTH)), mesh=mesh)
    return trained(pipe, Gpt(plan.num_layers), masked, [(samples, LENGTH)], own)
