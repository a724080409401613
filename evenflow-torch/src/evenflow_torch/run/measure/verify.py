"""Training of the unsplit model in one process, to compare losses and gradients with."""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

from evenflow.cluster import MeshPlan
from evenflow_torch.models.experts.capacity import limit_experts
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.run.assembly.pipeline import Pipeline
from evenflow_torch.run.engine.runtime import LossFunction
from evenflow_torch.run.engine.seeds import seed_of

Optimizer = Callable[[list[nn.Parameter]], torch.optim.Optimizer]


class Unsplit:
    """An unsplit model, trained in transformers' own forward with the random numbers of the pipeline."""

    def __init__(self, model: ModelRow, loss_fn: LossFunction, optimizer: Optimizer, *, seed: int) -> None:
        self._logits = model.whole_logits or (lambda tokens: model.whole(tokens, use_cache=False).logits)
        self._loss_fn = loss_fn
        self._seed = seed
        self._step = self._microbatch = 0
        self.parameters = dict(model.whole.named_parameters(remove_duplicate=False))
        self.optimizer = optimizer(list(model.whole.parameters()))
        for part in model.parts:
            part.module.register_forward_pre_hook(self._seeds(part.position))

    def step(self, inputs: Tensor, targets: Tensor, num_microbatches: int) -> Tensor:
        """Run forward and backward of a batch; gradients are left in the parameters. Return the loss."""
        losses = []
        self.optimizer.zero_grad()
        for index, (part, target) in enumerate(
            zip(inputs.chunk(num_microbatches), targets.chunk(num_microbatches), strict=True)
        ):
            self._microbatch = index
            output = self._logits(part)
            loss = self._loss_fn(output, target)
            (loss / num_microbatches).backward()
            losses.append(loss.detach())
        self._step += 1
        return torch.stack(losses).mean()

    def _seeds(self, position: int) -> Callable[..., None]:
        def seed(_module: nn.Module, _arguments: Any) -> None:
            torch.manual_seed(seed_of(self._seed, self._step, self._microbatch, position))

        return seed


def limit_as_planned(model: ModelRow, plan: MeshPlan) -> None:
    """Let the experts of an unsplit model drop the same tokens as those of `plan`, where each device routes its own."""
    if plan.expert_capacity is None:
        return
    for stage in plan.stages:
        for name, groups in stage.token_groups().items():
            limit_experts(model.whole.get_submodule(name), plan.expert_capacity, groups)


def gathered_gradients(pipeline: Pipeline) -> dict[str, Tensor] | None:
    """Return all gradients of the pipeline by unsplit name on rank 0, None on others; every rank calls it."""
    own = {name: _whole(parameter.grad) for name, parameter in pipeline.named_parameters()}
    everything: list[Any] | None = [None] * dist.get_world_size() if dist.get_rank() == 0 else None
    dist.gather_object(own, everything)
    if everything is None:
        return None
    return {name: gradient for part in everything for name, gradient in part.items()}


def _whole(gradient: Tensor | None) -> Tensor | None:
    """Return a gradient put together from its parts on several devices, each of which calls it."""
    if isinstance(gradient, DTensor):
        gradient = gradient.full_tensor()
    return None if gradient is None else gradient.cpu()


def gradient_error(gradients: Mapping[str, Tensor | None], expected: Mapping[str, nn.Parameter]) -> tuple[float, str]:
    """Return the largest error of a gradient, and its parameter.

    An error is relative to the largest expected gradient of the parameter's module: that of a bias of keys is zero but
    for rounding, since attention does not depend on it. Infinite where a gradient is missing or not finite.
    """
    compared = {id(expected[name]) for name in gradients}
    for name, parameter in expected.items():
        if id(parameter) not in compared and parameter.grad is not None:
            return math.inf, name
    worst, worst_name = 0.0, ""
    largest: dict[str, float] = {}
    for name, parameter in expected.items():
        module = name.rpartition(".")[0]
        if parameter.grad is not None:
            largest[module] = max(largest.get(module, 0.0), float(parameter.grad.abs().max()))
    for name, gradient in gradients.items():
        error = _error(gradient, expected[name].grad, largest.get(name.rpartition(".")[0], 0.0))
        if not error <= worst:
            worst, worst_name = error, name
    return worst, worst_name


def loss_error(losses: Sequence[float], expected: Sequence[float]) -> float:
    """Return the largest relative error of a loss; infinite where one is not finite."""
    pairs = zip(losses, expected, strict=True)
    return max(_finite(abs(loss - right) / (abs(right) or 1.0)) for loss, right in pairs)


def _error(gradient: Tensor | None, right: Tensor | None, largest: float) -> float:
    if gradient is None or right is None:
        return 0.0 if gradient is right else math.inf
    return _finite(float((gradient - right.cpu()).abs().max()) / (largest or 1.0))


def _finite(error: float) -> float:
    """Return infinity for NaN, so that no other error hides it."""
    return math.inf if math.isnan(error) else error
