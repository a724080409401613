"""Finds equal layers of a module, takes out all but one of each run, and marks the one that stays in the trace.

    list of the module      A A A A B B      (A, B: kinds of layers)
    runs                    A x 4, B x 2
    traced                  A       B        each between markers, times 4 and times 2

torch is imported at the top: import this module only where a module is at hand.
"""

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from evenflow_torch.models.equal_parts import are_equal, fingerprint
from evenflow_torch.models.made_tensors import tensors_in

Flow = tuple[tuple[int, int], ...]
"""Pairs of an output of a layer and an input of the next one that are the same tensor, by position among tensors."""


@dataclass(frozen=True, slots=True, kw_only=True)
class EqualLayers:
    """A run of neighbouring layers in one list that differ only in the values of their parameters."""

    path: str
    """Path of the list, such as ``model.layers``."""
    first: int
    count: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Mark:
    """A mark in the trace where a tensor, or with `backward` its gradient, enters or leaves a run's layer."""

    run: int
    entering: bool
    position: int
    backward: bool = False

    def text(self) -> str:
        """The mark as text, the form in which it passes through the trace."""
        return f"{self.run} {int(self.entering)} {self.position} {int(self.backward)}"

    @staticmethod
    def parse(text: str) -> "Mark":
        """Read a mark from its `text`."""
        run, entering, position, backward = (int(word) for word in text.split())
        return Mark(run=run, entering=bool(entering), position=position, backward=bool(backward))


@functools.cache
def marker() -> Any:
    """The operator that carries marks: the identity, also for gradients. Registered with torch at the first call."""

    def same(tensor: torch.Tensor, text: str) -> torch.Tensor:
        return tensor.clone()

    def remember(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.text = inputs[1]

    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        return mark(gradient, replace(Mark.parse(ctx.text), backward=True).text()), None

    mark = torch.library.custom_op("evenflow::mark", same, mutates_args=())
    mark.register_fake(lambda tensor, text: torch.empty_like(tensor))
    mark.register_autograd(backward, setup_context=remember)
    return torch.ops.evenflow.mark.default


def find_equal_layers(module: nn.Module) -> tuple[EqualLayers, ...]:
    """Find runs of two or more equal layers in the module's lists; lists inside of a layer are left as they are."""
    runs: list[EqualLayers] = []

    def visit(path: str, part: nn.Module) -> None:
        runs_here = list(_runs_of_list(path, part)) if isinstance(part, nn.ModuleList | nn.Sequential) else []
        runs.extend(runs_here)
        if not runs_here:
            for name, child in part.named_children():
                visit(_join(path, name), child)

    visit("", module)
    return tuple(runs)


def _join(path: str, name: str | int) -> str:
    return f"{path}.{name}" if path else str(name)


def _runs_of_list(path: str, layers: nn.Module) -> Iterator[EqualLayers]:
    prints = [fingerprint(layer) for layer in layers.children()]
    first = 0
    for position in range(1, len(prints) + 1):
        if position == len(prints) or not are_equal(prints[position - 1], prints[position], distance=1):
            if position - first > 1 and prints[first].shapes:
                yield EqualLayers(path=path, first=first, count=position - first)
            first = position


def flows(
    clone: Callable[[dict[int, int]], nn.Module], runs: tuple[EqualLayers, ...], call: Callable[[nn.Module], Any]
) -> tuple[Flow, ...]:
    """Return for each run the tensors that one layer hands to the next, seen in a forward with two layers of each.

    `clone` makes the module with so many layers of each run, by the run's index; `call` runs it.
    """
    module = clone(dict.fromkeys(range(len(runs)), 2))
    outputs: dict[int, list[Any]] = {}
    seen: dict[int, Flow] = {}

    def before(run: int, args: Any, kwargs: Any) -> None:
        inputs = tensors_in((args, kwargs))
        seen[run] = tuple(
            (i, j) for i, handed in enumerate(outputs.get(run, ())) for j, taken in enumerate(inputs) if handed is taken
        )

    for index, run in enumerate(runs):
        layers = list(module.get_submodule(run.path)._modules.values())
        pair = layers[_kept_position(runs, index, 2) :][:2]
        assert pair[0] is not None
        assert pair[1] is not None
        pair[0].register_forward_hook(lambda _, __, output, index=index: outputs.__setitem__(index, tensors_in(output)))
        pair[1].register_forward_pre_hook(
            lambda _, args, kwargs, index=index: before(index, args, kwargs),
            with_kwargs=True,
        )
    call(module)
    return tuple(seen.get(index, ()) for index in range(len(runs)))


def _kept_position(runs: tuple[EqualLayers, ...], index: int, kept: int) -> int:
    """Return where the run's first layer stands in its list after the earlier runs of that list were shortened."""
    run = runs[index]
    return run.first - sum(earlier.count - kept for earlier in runs[:index] if earlier.path == run.path)


def mark_layers(module: nn.Module, runs: tuple[EqualLayers, ...]) -> None:
    """Wrap the single layer that stands for each run; `module` is our own clone."""
    for index, run in enumerate(runs):
        layers = list(module.get_submodule(run.path)._modules.values())
        layer = layers[_kept_position(runs, index, 1)]
        assert layer is not None
        layer.forward = functools.partial(_marked, layer.forward, index)


def _marked(forward: Callable[..., Any], run: int, *args: Any, **kwargs: Any) -> Any:
    args, kwargs = _mark_all((args, kwargs), run, entering=True)
    return _mark_all(forward(*args, **kwargs), run, entering=False)


def _mark_all(tree: Any, run: int, *, entering: bool) -> Any:
    place = iter(range(len(tensors_in(tree))))
    operator = marker()

    def mark(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        return operator(leaf, Mark(run=run, entering=entering, position=next(place)).text())

    return tree_map(mark, tree)


def _own_list(value: Any, tensor: Callable[[Any], Any]) -> Any:
    """Copy a list of parameters, such as recurrent layers keep, because the tracer replaces its items."""
    is_list = isinstance(value, list) and all(isinstance(item, torch.Tensor) for item in value)
    return [tensor(item) for item in value] if is_list else value


def clone_module(
    module: nn.Module, runs: tuple[EqualLayers, ...], kept: dict[int, int], tensor: Callable[[Any], Any]
) -> nn.Module:
    """Return a copy with `tensor` applied to every parameter and buffer, and only `kept` layers of each run.

    The user's module is not touched, and no data is copied.
    """
    dropped = {
        _join(run.path, run.first + offset)
        for index, run in enumerate(runs)
        for offset in range(kept.get(index, run.count), run.count)
    }
    clones: dict[int, nn.Module] = {}

    def visit(path: str, part: nn.Module) -> nn.Module:
        if id(part) in clones:
            return clones[id(part)]
        clone = object.__new__(type(part))  # `copy.copy` refuses parametrized modules
        clones[id(part)] = clone
        clone.__dict__.update((key, _own_list(value, tensor)) for key, value in vars(part).items())
        clone._parameters = {name: tensor(parameter) for name, parameter in part._parameters.items()}
        clone._buffers = {name: tensor(buffer) for name, buffer in part._buffers.items()}
        clone._modules = {}
        for position, (name, child) in enumerate(part._modules.items()):
            if child is None:
                clone._modules[name] = None
            elif _join(path, position) not in dropped:
                clone._modules[name] = visit(_join(path, name), child)
        return clone

    return visit("", module)
