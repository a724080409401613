"""Updates of the optimizer done twice: each time those of some parameters, in turn until all have been.

A copy of the optimizer updates copies of the parameters, made before the step with their gradients and state. So
nothing of the training changes. It holds for optimizers that update each parameter by itself, as those of torch.optim
do.
"""

import copy
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn

from evenflow_torch.run.aa.bits import num_different

UPDATE_STEPS = 16
"""Most steps with checks until every parameter's update has been done again."""


def update_slices(sizes: Sequence[int]) -> list[list[int]]:
    """Return which of the parameters of these sizes are done again in which turn, about as much in each.

    >>> update_slices([5, 1, 1])
    [[0], [1], [2]]
    """
    slices: list[list[int]] = [[] for _ in range(min(UPDATE_STEPS, len(sizes)))]
    filled = [0] * len(slices)
    for index in sorted(range(len(sizes)), key=lambda index: -sizes[index]):
        emptiest = filled.index(min(filled))
        slices[emptiest].append(index)
        filled[emptiest] += max(1, sizes[index])
    return slices


class UpdateCheck:
    """The update of some parameters, done again by `compare` after the optimizer's own step."""

    def __init__(self, optimizer: torch.optim.Optimizer, parameters: Sequence[tuple[str, nn.Parameter]]) -> None:
        self._optimizer = optimizer
        self.parameters = [(name, parameter) for name, parameter in parameters if parameter.grad is not None]
        self._copies = {id(parameter): _copied(parameter) for _, parameter in self.parameters}
        self._states = {
            id(parameter): {name: _copied_value(value) for name, value in optimizer.state.get(parameter, {}).items()}
            for _, parameter in self.parameters
        }

    def compare(self) -> list[tuple[str, Tensor]]:
        """Update the copies; return each tensor's name and how many of its numbers differ."""
        again = copy.copy(self._optimizer)
        again.state = defaultdict(dict)
        again.param_groups = []
        for group in self._optimizer.param_groups:
            own = [self._copies[id(one)] for one in group["params"] if id(one) in self._copies]
            if own:
                again.param_groups.append({**group, "params": own})
        for key, second in self._copies.items():
            if self._states[key]:
                again.state[second] = self._states[key]
        again.step()
        compared = []
        for name, parameter in self.parameters:
            second = self._copies[id(parameter)]
            compared.append((name, num_different(parameter.detach(), second.detach())))
            for entry, value in self._optimizer.state.get(parameter, {}).items():
                if isinstance(value, Tensor):
                    compared.append((f"{name}, {entry}", num_different(value, again.state[second][entry])))
        return compared


def _copied(parameter: nn.Parameter) -> nn.Parameter:
    result = nn.Parameter(parameter.detach().clone())
    assert parameter.grad is not None
    result.grad = parameter.grad.detach().clone()
    return result


def _copied_value(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else copy.deepcopy(value)
