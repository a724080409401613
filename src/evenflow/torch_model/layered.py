"""A model as a pipeline sees it: modules in a row, the body of which a plan cuts into stages."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from evenflow.errors import InputError


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One module of the row."""

    name: str
    """Its path in the unsplit model, which its names in a state_dict begin with."""
    module: nn.Module
    position: int
    """Its place in the whole row."""
    is_body: bool
    """Whether it is one of the layers that a plan counts."""
    keeps_shape: bool = False
    """Known to give what it takes in shape and type, so that nobody has to try."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LayeredModel:
    """Head, body layers and tail in order; each module takes one tensor and gives one."""

    whole: nn.Module
    """The unsplit model."""
    parts: tuple[Part, ...]
    context: "Context | None" = None
    """What a body layer takes beside its input, from an input and the layer: masks, rotary embeddings."""
    shared: tuple[tuple[str, ...], ...] = ()
    """Names of parameters that are one and the same, such as tied embeddings."""

    @property
    def num_layers(self) -> int:
        """Body layers, which a plan counts."""
        return sum(part.is_body for part in self.parts)


Context = Callable[[Tensor, Part], Mapping[str, Any]]


def as_layered(model: nn.Module | Sequence[nn.Module], *, head_modules: int = 0, tail_modules: int = 0) -> LayeredModel:
    """The row of a model: a decoder of transformers, or modules in order of which the first and last may be no layers.

    `head_modules` and `tail_modules` say how many modules at the beginning and end of an ``nn.Sequential``,
    ``nn.ModuleList`` or list the plan does not count as layers: embedding, norm, output.

    Raises:
        InputError: a model that is neither.
    """
    from evenflow.torch_model.decoders import MODEL_TYPES, as_decoder, is_decoder

    if isinstance(model, nn.Module) and is_decoder(model):
        return as_decoder(model)
    if isinstance(model, nn.Sequential | nn.ModuleList):
        named = list(model.named_children())
        whole: nn.Module = model
    elif isinstance(model, Sequence) and all(isinstance(module, nn.Module) for module in model):
        named = [(str(index), module) for index, module in enumerate(model)]
        whole = nn.ModuleList(model)
    else:
        raise InputError(
            value=type(model).__name__,
            rule="a model is an nn.Sequential, an nn.ModuleList, a list of modules, or a causal language model of "
            f"transformers, of type {', '.join(sorted(MODEL_TYPES))}",
            place="model",
            remedy="write the model as modules in order, each with one tensor in and one out",
        )
    end = len(named) - tail_modules
    parts = tuple(
        Part(name=name, module=module, position=index, is_body=head_modules <= index < end)
        for index, (name, module) in enumerate(named)
    )
    return LayeredModel(whole=whole, parts=parts, shared=shared_names(parts))


def shared_names(parts: Sequence[Part]) -> tuple[tuple[str, ...], ...]:
    """Names of parameters that are one and the same."""
    names: dict[int, list[str]] = {}
    for part in parts:
        for name, parameter in part.module.named_parameters(prefix=part.name, remove_duplicate=False):
            names.setdefault(id(parameter), []).append(name)
    return tuple(tuple(group) for group in names.values() if len(group) > 1)
