"""A model as a row of layers: head, body, tail; and which of them are equal.

torch is imported at the top: import this only where a module is at hand.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_map

from evenflow.auto.trace.captured_layers import LayerKind
from evenflow.auto.trace.equal_layers import Fingerprint, are_equal, fingerprint
from evenflow.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelLayer:
    """One layer of the row, with one microbatch for all devices of a stage; tensors may be on the meta device."""

    name: str
    module: nn.Module
    inputs: tuple[Any, ...]
    """Positional; the first is what the layer before hands over."""
    named_inputs: Mapping[str, Any] = field(default_factory=dict)
    path: str = ""
    """Of the module in the whole model, which the names of its parameters begin with."""
    paths: Mapping[str, str] = field(default_factory=dict)
    """For modules gathered from several places: path in the whole model by name of the submodule."""
    names: Mapping[str, str] = field(default_factory=dict)
    """Of parameters in the whole model by name in the module, where these are not the path and that."""

    @property
    def modules(self) -> tuple[str, ...]:
        """Paths in the whole model."""
        return tuple(self.paths.values()) or (self.path,)

    def full_name(self, parameter: str) -> str:
        """A parameter's name in the whole model."""
        if parameter in self.names:
            return self.names[parameter]
        for inside, path in self.paths.items():
            if parameter.startswith(f"{inside}."):
                return path + parameter[len(inside) :]
        return f"{self.path}.{parameter}" if self.path else parameter


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRow:
    """A model that is cut between the layers of its body; head and tail go with the first and the last of them."""

    name: str
    body: tuple[ModelLayer, ...]
    head: ModelLayer | None = None
    tail: ModelLayer | None = None

    def __post_init__(self) -> None:
        if not self.body:
            raise InputError(value=0, rule="a model has at least one layer", place=self.name)

    @property
    def layers(self) -> tuple[ModelLayer, ...]:
        """All of them in order."""
        return tuple(one for one in (self.head, *self.body, self.tail) if one is not None)


def is_row(model: "nn.Module | Sequence[nn.Module]") -> bool:
    """Whether `model_row` takes it: layers in order. In an ``nn.Sequential`` each has something to train."""
    if isinstance(model, nn.Sequential):
        return all(any(one.requires_grad for one in layer.parameters()) for layer in model)
    return not isinstance(model, nn.Module) or isinstance(model, nn.ModuleList)


def model_row(
    layers: "nn.Module | Sequence[nn.Module]",
    example_input: torch.Tensor,
    *,
    head: nn.Module | None = None,
    tail: nn.Module | None = None,
    name: str = "model",
) -> ModelRow:
    """The row of a ``Sequential``, ``ModuleList`` or list of layers, each of which takes what the one before gives.

    `head` takes `example_input`; without it the first layer does. What layers hand on is found by running them on
    the meta device. Raises InputError for layers that cannot run so.
    """
    if not isinstance(example_input, torch.Tensor):
        raise InputError(
            value=type(example_input).__name__, rule="layers in a row take one tensor", place="example_batch"
        )
    named = list(layers.named_children()) if isinstance(layers, nn.Module) else list(enumerate(layers))
    modules = [("head", head), *((str(key), layer) for key, layer in named), ("tail", tail)]
    row: dict[str, ModelLayer | None] = {"head": None, "tail": None}
    value = torch.empty_like(example_input, device="meta")
    for key, module in modules:
        if module is not None:
            row[key] = ModelLayer(name=f"{type(module).__name__}.{key}", module=module, inputs=(value,), path=key)
            value = value if key == "tail" else _result(key, module, value)
    body = tuple(layer for key, layer in row.items() if key not in ("head", "tail") and layer is not None)
    return ModelRow(name=name, head=row["head"], body=body, tail=row["tail"])


def _result(key: str, module: nn.Module, value: torch.Tensor) -> torch.Tensor:
    """What a layer hands on, without computing it."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    try:
        with torch.no_grad():
            meta = {name: torch.empty_like(tensor, device="meta") for name, tensor in tensors.items()}
            result = torch.func.functional_call(module, meta, (value,), tie_weights=False)
    except Exception as error:  # noqa: BLE001 - whatever a user's module finds wrong
        reason = " ".join(str(error).split())[:300]
        rule = f"a layer takes what the one before gives, on the meta device, but: {reason}"
        raise InputError(value=type(module).__name__, rule=rule, place=f"layer {key}") from None
    while isinstance(result, tuple | list):
        result = result[0]
    if not isinstance(result, torch.Tensor):
        raise InputError(value=type(result).__name__, rule="a layer hands on a tensor", place=f"layer {key}")
    return result


def kinds_of(layers: Sequence[ModelLayer]) -> tuple[tuple[LayerKind, ...], tuple[int, ...]]:
    """The kinds of layers, and the kind of each layer: equal but for values and its own number."""
    known: list[tuple[int, Fingerprint, object]] = []
    kinds: list[LayerKind] = []
    order = []
    for position, layer in enumerate(layers):
        found, inputs = fingerprint(layer.module), _described(layer)
        for kind, (first, other, other_inputs) in enumerate(known):
            if inputs == other_inputs and any(
                are_equal(other, found, first - shift, position - shift) for shift in (0, 1)
            ):
                order.append(kind)
                break
        else:
            order.append(len(kinds))
            known.append((position, found, inputs))
            kinds.append(
                LayerKind(
                    name=layer.name, module=layer.module, example_input=layer.inputs, named_inputs=layer.named_inputs
                )
            )
    return tuple(kinds), tuple(order)


def _described(layer: ModelLayer) -> object:
    """Shapes and types of a layer's inputs."""

    def words(leaf: Any) -> Any:
        return (tuple(leaf.shape), leaf.dtype) if isinstance(leaf, torch.Tensor) else leaf

    return repr(tree_map(words, (layer.inputs, dict(layer.named_inputs))))
