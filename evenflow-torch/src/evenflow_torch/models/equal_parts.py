"""Tells which modules of a model are equal but for the values of their parameters and their own number in the model.

Equal modules cost the same, so that one of them is measured or traced for all. Compared are the classes of a module and
of all modules in it, the attributes of each, and the shapes of parameters, buffers and inputs:

    attribute                                     compared by
    flag, number, text, nothing                   value; the layer's own number, by its name, may go on with the layers
    list, tuple, dict                             what is in it
    function, class, partial                      name
    tensor                                        shape and type
    any other object, such as a configuration     class

torch is imported at the top: import this module only where a module is at hand.
"""

import functools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from evenflow_torch.models.parts import Part

_OWN_NUMBER = re.compile(r"(?!num|n_|max)(.*_)?(idx|index|id|number|no|place|position|layer|block|depth)(_.*)?")
"""Names of attributes that may hold a layer's own number in the model, such as ``layer_idx``."""
_BOOKKEEPING = frozenset(vars(nn.Module())) - {"training"}
"""Attributes in which torch keeps parameters, modules and hooks."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fingerprint:
    """What tells a module from others."""

    parts: tuple[object, ...]
    """Classes and attributes of a module and those in it."""
    numbers: tuple[int, ...]
    """Whole numbers of theirs that may be the place of the module in a model."""
    shapes: tuple[object, ...]
    """Names, shapes and types of parameters and buffers."""


def fingerprint(module: nn.Module) -> Fingerprint:
    """Return classes, attributes and shapes of a module and all that is in it."""
    parts: list[object] = []
    numbers: list[int] = []
    for name, inner in module.named_modules():
        described: dict[str, object] = {}
        for key, value in vars(inner).items():
            if key in _BOOKKEEPING:
                continue
            if type(value) is int and _OWN_NUMBER.fullmatch(key.lower()):
                described[key] = int
                numbers.append(value)
            else:
                described[key] = _described(value)
        parts.append((name, type(inner), inner.extra_repr(), tuple(sorted(described.items()))))
    tensors = (*module.named_parameters(), *module.named_buffers())
    shapes = tuple((name, tuple(tensor.shape), tensor.dtype, tensor.requires_grad) for name, tensor in tensors)
    return Fingerprint(parts=tuple(parts), numbers=tuple(numbers), shapes=shapes)


def _described(value: object, above: tuple[int, ...] = ()) -> object:
    """Return what of an attribute is compared; `above` are the containers around it, by identity."""
    if id(value) in above:
        return "inside of itself"
    inside = (*above, id(value))
    if value is None or isinstance(value, bool | int | float | str | torch.dtype | torch.device):
        return type(value), repr(value)
    if isinstance(value, torch.Tensor):
        return tuple(value.shape), value.dtype
    if isinstance(value, functools.partial):
        return "partial", _described((value.func, value.args, value.keywords), inside)
    if isinstance(value, list | tuple):
        return type(value), tuple(_described(item, inside) for item in value)
    if isinstance(value, dict):
        return type(value), tuple((repr(key), _described(item, inside)) for key, item in value.items())
    name = getattr(value, "__qualname__", None)
    return type(value) if name is None else (getattr(value, "__module__", ""), name)


def are_equal(first: Fingerprint, second: Fingerprint, *, distance: int) -> bool:
    """Whether two modules are equal but for values and for their own number, where one is `distance` places behind."""
    if first.parts != second.parts or first.shapes != second.shapes:
        return False
    different = {pair for pair in zip(first.numbers, second.numbers, strict=True) if pair[0] != pair[1]}
    return not different or (len(different) == 1 and all(after - before == distance for before, after in different))


def kinds_of(parts: Sequence[Part]) -> tuple[tuple[Part, ...], tuple[int, ...]]:
    """Return the first part of each kind, and the kind of each part.

    Parts of a kind are equal but for the values of parameters and for their own number in the model.
    """
    known: list[tuple[int, Fingerprint, object]] = []
    kinds: list[Part] = []
    order = []
    for position, part in enumerate(parts):
        own, inputs = fingerprint(part.module), _shapes_of_inputs(part)
        same = _kind(known, position, own, inputs)
        order.append(len(kinds) if same is None else same)
        if same is None:
            known.append((position, own, inputs))
            kinds.append(part)
    return tuple(kinds), tuple(order)


def _kind(
    known: Sequence[tuple[int, Fingerprint, object]], position: int, own: Fingerprint, inputs: object
) -> int | None:
    """Return the kind among those known that a part at `position` is of."""
    for kind, (first, other, other_inputs) in enumerate(known):
        if inputs == other_inputs and are_equal(other, own, distance=position - first):
            return kind
    return None


def _shapes_of_inputs(part: Part) -> object:
    def shape_and_type(leaf: Any) -> Any:
        return (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf

    return repr(tree_map(shape_and_type, (part.inputs, dict(part.named_inputs))))
