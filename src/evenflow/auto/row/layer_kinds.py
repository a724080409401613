"""Finds the layers of a row that are equal. Imports torch: import this only where a module is at hand."""

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_map

from evenflow.auto.trace.equal_layers import Fingerprint, are_equal, fingerprint
from evenflow.torch_model.parts import Part


def kinds_of(layers: Sequence[Part]) -> tuple[tuple[Part, ...], tuple[int, ...]]:
    """Return the first layer of each kind, and the kind of each layer.

    Layers of a kind are equal but for the values of parameters and for their own number in the model, or in their part
    of it.
    """
    known: list[tuple[int, Fingerprint, object]] = []
    kinds: list[Part] = []
    order = []
    for position, layer in enumerate(layers):
        found, inputs = fingerprint(layer.module), _described(layer)
        for kind, (first, other, other_inputs) in enumerate(known):
            if inputs == other_inputs and any(
                are_equal(other, found, first - shift, position - shift) for shift in range(first + 1)
            ):
                order.append(kind)
                break
        else:
            order.append(len(kinds))
            known.append((position, found, inputs))
            kinds.append(layer)
    return tuple(kinds), tuple(order)


def _described(layer: Part) -> object:
    """Shapes and types of a layer's inputs."""

    def shape_and_type(leaf: Any) -> Any:
        return (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf

    return repr(tree_map(shape_and_type, (layer.inputs, dict(layer.named_inputs))))
