"""State that work done again must leave as it was: gradients, random numbers, buffers."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext

import torch
from torch import Tensor, nn

from evenflow_torch.run.engine.runtime_stage import RuntimeStage
from evenflow_torch.run.engine.spread_tensors import copied
from evenflow_torch.run.engine.torch_names import version_of

Gradients = dict[str, Tensor]
"""Gradients by the name of their parameter."""


def named_parameters(stage: RuntimeStage) -> Iterator[tuple[str, nn.Parameter]]:
    """Yield the parameters of a stage that are trained, under the names of the unsplit model, each once."""
    seen: set[int] = set()
    for part in stage.submod.parts:
        for name, parameter in part.module.named_parameters(prefix=part.path):
            if parameter.requires_grad and id(parameter) not in seen:
                seen.add(id(parameter))
                yield name, parameter


@contextmanager
def set_apart(
    parameters: Mapping[str, nn.Parameter], gradients: dict[str, Tensor], *, merge: bool = True
) -> Iterator[None]:
    """Put the gradients made inside into `gradients`; with `merge`, add them also where they belong."""
    before = {name: parameter.grad for name, parameter in parameters.items()}
    for parameter in parameters.values():
        parameter.grad = None
    try:
        yield
    finally:
        with torch.no_grad():
            for name, parameter in parameters.items():
                gradient, there = parameter.grad, before[name]
                parameter.grad = there
                if gradient is None:
                    continue
                gradients[name] = gradient
                if merge and there is None:
                    parameter.grad = copied(gradient)  # later ones are added to it
                elif merge:
                    there.add_(gradient)


def random_state(stage: RuntimeStage) -> Tensor:
    """Return the state of the random numbers on the device of a stage."""
    device: torch.device = stage.device
    return torch.cuda.get_rng_state(device) if device.type == "cuda" else torch.get_rng_state()


@contextmanager
def restored(stage: RuntimeStage, state: Tensor | None) -> Iterator[None]:
    """Draw random numbers from `state` inside; restore generators and buffers, so that nothing tells that it ran."""
    device: torch.device = stage.device
    buffers = [(buffer, version_of(buffer), buffer.clone()) for buffer in stage.submod.buffers()]
    forked = torch.random.fork_rng(devices=[device] if device.type == "cuda" else [])
    with forked if state is not None else nullcontext():
        if state is not None and device.type == "cuda":
            torch.cuda.set_rng_state(state, device)
        elif state is not None:
            torch.set_rng_state(state)
        yield
    for buffer, version, value in buffers:
        if version_of(buffer) != version:
            with torch.no_grad():
                buffer.copy_(value)
