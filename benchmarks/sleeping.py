"""Layers that sleep instead of computing, so that more ranks than cores can be timed, and a model made of them."""

import time
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from evenflow_torch.run.engine.runtime_stage import RuntimeStage

_NS_PER_S = 1_000_000_000


class SleepingLayer(nn.Module):
    """A layer that returns its input after a while; it has a weight, so that there is something to train."""

    def __init__(self, *, forward_ns: int, input_ns: int, weight_ns: int) -> None:
        super().__init__()
        self.forward_ns, self.input_ns, self.weight_ns = forward_ns, input_ns, weight_ns
        self.weight = nn.Parameter(torch.zeros(1))
        self.is_split = False
        """Whether the weight gradient is computed later."""
        self.is_awake = False
        """Whether the layer takes no time, for a step that warms up."""

    def forward(self, hidden: Tensor) -> Tensor:
        output: Tensor = _Sleep.apply(hidden, self.weight, self)
        return output

    def sleep(self, time_ns: int) -> None:
        if not self.is_awake:
            time.sleep(time_ns / _NS_PER_S)


class _Sleep(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, hidden: Tensor, weight: Tensor, layer: SleepingLayer) -> Tensor:
        context.layer = layer
        if hidden.device.type != "meta":
            layer.sleep(layer.forward_ns)
        return hidden.clone()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        layer = context.layer
        layer.sleep(layer.input_ns if layer.is_split else layer.input_ns + layer.weight_ns)
        return gradients[0], torch.zeros_like(layer.weight), None


def leave_weights_for_later(stage: RuntimeStage) -> None:
    """Sleep for the weight gradients of a split backward when it is their turn."""
    if stage.dw_builder is None:
        return
    layers = [part.module for part in stage.submod.parts]
    for layer in layers:
        layer.is_split = True

    def take() -> Callable[[], None]:
        return partial(_sleep_for_weights, layers)

    stage.dw_builder = take


def _sleep_for_weights(layers: list[SleepingLayer]) -> None:
    for layer in layers:
        layer.sleep(layer.weight_ns)
