"""Modules in order as the row of a model."""

import inspect
from collections.abc import Sequence
from typing import TypeAlias

import torch
from torch import nn

from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.models.decoder_row import MODEL_TYPES, decoder_row, is_runnable_decoder
from evenflow_torch.models.families.family_row import family_of, family_row
from evenflow_torch.models.families.table import FAMILIES
from evenflow_torch.models.made_tensors import first_tensor
from evenflow_torch.models.part_output import part_output
from evenflow_torch.models.parts import ModelRow, Part, shared_names

Modules: TypeAlias = "nn.Module | Sequence[nn.Module]"


def as_row(
    model: Modules,
    *,
    head_modules: int = 0,
    tail_modules: int = 0,
    source_tokens: int = 0,
    whole: nn.Module | None = None,
) -> ModelRow:
    """Return the row of a model that runs: a language model of transformers, or modules in order.

    `head_modules` and `tail_modules` say how many modules at the beginning and end of an ``nn.Sequential``,
    ``nn.ModuleList`` or list the plan does not count as layers: embedding, norm, output. Each module takes what the one
    before hands over, one tensor or a tuple, and what its forward names of a batch that is a dict. In a list of modules
    of the model `whole`, parameters keep their names in it. A model with encoder and decoder takes tokens
    [batch, source + target], the first `source_tokens` of which are the encoder's.

    Raises:
        InputError: a model that is neither, or has no layers beside head and tail; an encoder without a source; a
            module that is none of `whole`.
    """
    if isinstance(model, nn.Module) and is_runnable_decoder(model):
        return decoder_row(model)
    family = family_of(model) if isinstance(model, nn.Module) else None
    if family is not None:
        if family.has_source and not source_tokens:
            raise InputError(
                value=source_tokens,
                rule=_("must be given for a model with encoder and decoder"),
                place="source_tokens",
                remedy=_("give the number of tokens that the encoder reads of each sequence"),
            )
        return family_row(model, family, source=source_tokens if family.has_source else 0)
    if not isinstance(model, nn.Sequential | nn.ModuleList) and not (
        isinstance(model, Sequence) and all(isinstance(module, nn.Module) for module in model)
    ):
        raise InputError(
            value=type(model).__name__,
            rule=_(
                "must be an nn.Sequential, an nn.ModuleList, a list of modules, or a language model of transformers, "
                "of type {names}",
                names=", ".join(sorted((*MODEL_TYPES, *FAMILIES))),
            ),
            place="model",
            remedy=_("write the model as modules in order, each with one tensor in and one out"),
        )
    named = _named(model) if whole is None else _named_in(whole, model)
    parts = tuple(
        Part(name=path, path=path, module=module, position=position, batch_inputs=_keywords(module))
        for position, (path, module) in enumerate(named)
    )
    end = max(head_modules, len(parts) - tail_modules)
    return ModelRow(
        head=parts[:head_modules],
        body=parts[head_modules:end],
        tail=parts[end:],
        whole=whole or (model if isinstance(model, nn.Module) else nn.ModuleList(model)),
        shared=shared_names(parts),
    )


def is_known(model: nn.Module, loss_fn: object, inputs: object) -> bool:
    """Whether `as_row` makes a row of a module that trains with `loss_fn` on `inputs`, one tensor of tokens or so.

    Other modules, and these where they take more or return their loss themselves, are cut by their operators.
    """
    if isinstance(model, nn.Sequential | nn.ModuleList):
        return True
    is_plain = loss_fn is not None and isinstance(inputs, torch.Tensor)
    return is_plain and (is_runnable_decoder(model) or family_of(model) is not None)


def is_row(model: Modules) -> bool:
    """Whether `row_with_inputs` takes `model`: layers in order, each of which, in an ``nn.Sequential``, is trained."""
    if isinstance(model, nn.Sequential):
        return all(any(parameter.requires_grad for parameter in layer.parameters()) for layer in model)
    return not isinstance(model, nn.Module) or isinstance(model, nn.ModuleList)


def row_with_inputs(
    layers: Modules,
    example_input: torch.Tensor,
    *,
    head: nn.Module | None = None,
    tail: nn.Module | None = None,
    name: str = "model",
) -> ModelRow:
    """Return the row of layers with the inputs of each, where each takes what the one before hands over.

    `head` takes `example_input`; without it the first layer does. What layers hand over is found by running copies of
    them on fake tensors, so that nothing is computed and nothing in them changes.

    Raises:
        InputError: no layers, or one that cannot run so.
    """
    if not isinstance(example_input, torch.Tensor):
        raise InputError(
            value=type(example_input).__name__, rule=_("must be one tensor for layers in a row"), place="example_batch"
        )
    value = torch.empty_like(example_input, device="meta")
    named = [*_end("head", head), *_named(layers), *_end("tail", tail)]
    first, end = int(head is not None), len(named) - (tail is not None)
    parts: list[Part] = []
    for position, (path, module) in enumerate(named):
        part_name = f"{type(module).__name__}.{path}"
        parts.append(Part(name=part_name, module=module, inputs=(value,), path=path, position=position))
        if position < end:
            value = first_tensor(part_output(parts[-1], value, {}))
    return ModelRow(name=name, head=tuple(parts[:first]), body=tuple(parts[first:end]), tail=tuple(parts[end:]))


def _named_in(whole: nn.Module, modules: Modules) -> list[tuple[str, nn.Module]]:
    """Return modules with their paths in a model."""
    paths = {module: path for path, module in whole.named_modules()}
    listed = [module for _path, module in _named(modules)]
    for place, module in enumerate(listed):
        if module not in paths:
            raise InputError(
                value=type(module).__name__,
                rule=_("must be a module of {model}", model=type(whole).__name__),
                place=_("modules, number {place}", place=place + 1),
            )
    return [(paths[module], module) for module in listed]


def _keywords(module: nn.Module) -> tuple[str, ...]:
    """Return the names of the arguments of a module's forward behind the first."""
    parameters = list(inspect.signature(module.forward).parameters.values())[1:]
    kinds = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    return tuple(parameter.name for parameter in parameters if parameter.kind in kinds)


def _end(path: str, module: nn.Module | None) -> list[tuple[str, nn.Module]]:
    return [] if module is None else [(path, module)]


def _named(modules: Modules) -> list[tuple[str, nn.Module]]:
    """Return modules in order with their paths; a module that stands in several places is listed at each."""
    if isinstance(modules, nn.Module):
        return [(path, module) for path, module in modules._modules.items() if module is not None]
    return [(str(index), module) for index, module in enumerate(modules)]
