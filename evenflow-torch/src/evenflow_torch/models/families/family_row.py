"""Models of `FAMILIES` as rows: embeddings, layers, norm, output layer.

One tensor crosses everywhere, also in a model with encoder and decoder: the hidden states of both sequences, one behind
the other. Layers of the encoder change the first part and layers of the decoder the second, reading the first, whose
gradient comes back with that of the second.

    tokens        source | target       [batch, source + target]
    head          both embedded         [batch, source + target, width]
    encoder       changed | as it is
    decoder       read | changed
    tail                   logits       [batch, target, vocabulary]

A bias of relative positions, which the first layer of a T5 computes for all, is computed in each: its few parameters
are shared.
"""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from evenflow_torch.models.families.row_modules import BothEmbeddings, ModulePlace, embeddings, put_in_row, tied
from evenflow_torch.models.families.stack_inputs import stack_inputs
from evenflow_torch.models.families.table import FAMILIES, LayerStack, ModelFamily
from evenflow_torch.models.parts import ModelRow, Part, shared_names


def family_of(model: nn.Module) -> ModelFamily | None:
    """Return the structure of a model, where it is one of `FAMILIES`."""
    family = FAMILIES.get(getattr(getattr(model, "config", None), "model_type", ""))
    if family is None:
        return None
    try:
        for path in (*(f"{stack.path}.{stack.layers}" for stack in family.stacks), family.output):
            model.get_submodule(path)
    except AttributeError:
        return None
    return family


def family_row(model: Any, family: ModelFamily, *, source: int = 0) -> ModelRow:
    """Return the row of `model`; `source` is the number of tokens of the encoder's sequence, if it has one.

    The model still computes what it did: its modules compute their part of a row where they are given the keyword
    `place`, which the row's context does. No layer is left out by chance (layer drop).
    """
    modules: list[tuple[str, nn.Module, ModulePlace]] = []
    layers: dict[str, tuple[int, int]] = {}
    *_, last = family.stacks
    for index, stack in enumerate(family.stacks):
        base, place = model.get_submodule(stack.path), ModulePlace(source=source, is_target=stack is last)
        base.layerdrop = 0.0
        listed = base.get_submodule(stack.layers)
        _share_position_bias(listed)
        for number, layer in enumerate(listed):
            path = f"{stack.path}.{stack.layers}.{number}"
            layers[path] = index, number
            modules.append((path, layer, place))
        if stack is not last:
            modules += [(path, module, _behind(place, base)) for path, module in _modules_behind(base, stack)]
    num_body = len(modules)
    base = model.get_submodule(last.path)
    ends = [*_modules_behind(base, last), (family.output, model.get_submodule(family.output))]
    leaving = ModulePlace(source=source, leaves=True, scale=_scale(model))
    modules += [
        (path, module, (_behind(leaving, base) if path != family.output else leaving) if place == 0 else ModulePlace())
        for place, (path, module) in enumerate(ends)
    ]
    for _path, module, _place in modules:
        put_in_row(module)
    head = _head(model, family, source)
    parts = tuple(
        Part(name=path, path=path, module=module, position=position, keeps_shape=position <= num_body)
        for position, (path, module, _place) in enumerate(modules, 1)
    )
    return ModelRow(
        head=(head,),
        body=parts[:num_body],
        tail=parts[num_body:],
        whole=model,
        whole_logits=_whole_logits(model, source),
        context=_Context(model, family, source, layers, {path: place for path, _module, place in modules}),
        shared=shared_names((head, *parts)),
    )


def _head(model: Any, family: ModelFamily, source: int) -> Part:
    first, *others = family.stacks
    shells = [embeddings(model.get_submodule(stack.path), stack.layers, stack.behind) for stack in family.stacks]
    module = BothEmbeddings(*shells, source=source) if others else shells[0]
    if not others:
        return Part(name="embeddings", path=first.path, module=module, position=0)
    paths = {name: stack.path for name, stack in zip(("encoder", "decoder"), family.stacks, strict=True)}
    return Part(name="embeddings", path=first.path.rpartition(".")[0], paths=paths, module=module, position=0)


def _modules_behind(base: nn.Module, stack: LayerStack) -> list[tuple[str, nn.Module]]:
    modules = [(f"{stack.path}.{name}", base._modules.get(name)) for name in stack.behind]
    return [(path, module) for path, module in modules if module is not None]


def _behind(place: ModulePlace, base: nn.Module) -> ModulePlace:
    """Return `place` with the dropout that a stack has behind its norm, as a T5 does."""
    dropout = base._modules.get("dropout")
    return place._replace(dropout=dropout.p if isinstance(dropout, nn.Dropout) else 0.0)


def _scale(model: Any) -> float:
    """Return the factor of a decoder's result where the output layer is the embedding's, as in the first T5."""
    return model.config.d_model**-0.5 if getattr(model.config, "scale_decoder_outputs", False) else 1.0


def _share_position_bias(layers: nn.Module) -> None:
    """Let every layer compute the bias of relative positions that its first one has, where it is given none."""
    attentions: list[Any] = [
        module
        for name, module in layers.named_modules()
        if hasattr(module, "has_relative_attention_bias") and not name.endswith("EncDecAttention")
    ]
    first = next((attention for attention in attentions if attention.has_relative_attention_bias), None)
    if first is None:
        return
    for attention in attentions:
        if not attention.has_relative_attention_bias:
            attention.relative_attention_bias = tied(first.relative_attention_bias)
            attention.has_relative_attention_bias = True


def _whole_logits(model: Any, source: int) -> Any:
    """Return how the model itself, called as transformers has it, makes logits of a row's tokens."""

    def logits(tokens: Tensor) -> Tensor:
        if not source:
            return model(tokens).logits
        return model(input_ids=tokens[:, :source], decoder_input_ids=tokens[:, source:], use_cache=False).logits

    return logits


class _Context:
    """Makes what each part gets beside hidden states; masks and biases of the last shape are kept."""

    def __init__(
        self,
        model: Any,
        family: ModelFamily,
        source: int,
        layers: Mapping[str, tuple[int, int]],
        places: Mapping[str, ModulePlace],
    ) -> None:
        self._model, self._family, self._source = model, family, source
        self._layers, self._places = layers, places
        self._last: tuple[object, list[list[Mapping[str, Any]]]] = ((), [])

    def __call__(self, hidden: Tensor, part: Part) -> Mapping[str, Any]:
        if part.path not in self._places:
            return {}
        place = {"place": self._places[part.path]}
        if part.path not in self._layers:
            return place
        key = tuple(hidden.shape), hidden.dtype, hidden.device
        if self._last[0] != key:
            self._last = key, self._inputs(torch.zeros(key[0], dtype=key[1], device=key[2]))
        stack, number = self._layers[part.path]
        return {**self._last[1][stack][number], **place}

    def _inputs(self, hidden: Tensor) -> list[list[Mapping[str, Any]]]:
        stacks = [(self._model.get_submodule(stack.path), stack) for stack in self._family.stacks]
        if not self._source:
            return [stack_inputs(*stacks[0], hidden)]
        source, target = hidden[:, : self._source], hidden[:, self._source :]
        encoder, decoder = stacks
        return [stack_inputs(*encoder, source), stack_inputs(*decoder, target, encoder_hidden_states=source)]
