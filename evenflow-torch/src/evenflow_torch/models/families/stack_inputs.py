"""What a stack of layers gives each of its layers beside hidden states: masks, rotary embeddings, biases of positions.

The stack's own forward runs once, with stand-ins for everything in it; those of the layers note what they are given.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from evenflow_torch.models.families.row_modules import own_parameters
from evenflow_torch.models.families.table import LayerStack

_CACHES = ("cache", "past_key_values", "layer_past")
"""What the cache of keys and values is called: the first since transformers 5.24."""


def stack_inputs(base: Any, stack: LayerStack, hidden: Tensor, **others: Tensor) -> list[Mapping[str, Any]]:
    """Return what each layer of `base`, which has the structure of `stack`, takes beside `hidden`, all by keyword.

    `others` are what `base` itself takes beside hidden states, such as those of an encoder. No parameter is read, so
    they may be on the meta device where `hidden` is not. Sequences are of equal length, so nothing is padded.
    """
    from transformers import DynamicCache  # ranks that train modules of their own start without it

    container, _, last = stack.layers.rpartition(".")
    # A mask that is complete is handed on as it is. Without one, some would make one and look at its values, which the
    # meta device has not, to find that it hides nothing: then their layers get none.
    nothing_hidden = torch.zeros((1, 1, 1, 1), device=hidden.device)
    notes = [_Note(layer, stack.results, nothing_hidden) for layer in base.get_submodule(stack.layers)]
    taken = own_parameters(base)
    # An empty cache, so that nothing asks for values of positions, which the meta device has not.
    wanted: dict[str, Any] = {**dict.fromkeys(_CACHES, DynamicCache()), "use_cache": False}
    if others:
        wanted["attention_mask"] = nothing_hidden
    options = {key: value for key, value in wanted.items() if key in taken}
    stand_ins = {name: _stand_in(base, name, child, hidden.device) for name, child in base.named_children()}
    if container:
        stand_ins.pop(container)
    with _exchanged(base, stand_ins), _exchanged(base.get_submodule(container), {last: nn.ModuleList(notes)}):
        was_training, base.training = base.training, False  # no layer is left out by chance
        try:
            with torch.no_grad():
                base(inputs_embeds=hidden, **others, **options)
        finally:
            base.training = was_training
    return [note.noted for note in notes]


class _Note(nn.Module):
    """A stand-in for a layer, with its attributes: hands on its hidden states, and notes everything it is given."""

    noted: Mapping[str, Any]

    def __init__(self, layer: nn.Module, results: int, no_mask: Tensor) -> None:
        super().__init__()
        # Not as a submodule: nothing of it is to be moved or called.
        self.__dict__.update(_layer=layer, _results=results, _no_mask=no_mask)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_layer"], name)

    def forward(self, hidden: Tensor, *others: Any, **named: Any) -> Any:
        _hidden, *names = own_parameters(self._layer)
        all_named = {**dict(zip(names, others, strict=False)), **named}
        self.noted = {
            key: None if key in _CACHES or value is self._no_mask else value for key, value in all_named.items()
        }
        return hidden if self._results == 1 else (hidden, *[None] * (self._results - 1))


class _HandOn(nn.Module):
    """A stand-in for a module that changes hidden states."""

    def forward(self, *others: Any, inputs_embeds: Tensor | None = None, **_named: Any) -> Any:
        return others[0] if inputs_embeds is None else inputs_embeds


class _Zero(nn.Module):
    """A stand-in for an embedding, whose result is added to hidden states."""

    def forward(self, *_others: Any, **_named: Any) -> Tensor:
        return torch.zeros(())


def _stand_in(base: Any, name: str, child: nn.Module, device: torch.device) -> nn.Module:
    if "rotary" in name:  # that of a model on the meta device has no values
        described = getattr(child, "config", base.config)
        return child if device.type == "meta" else type(child)(config=described).to(device)
    return _Zero() if "embed_pos" in name or isinstance(child, nn.Embedding) else _HandOn()


@contextmanager
def _exchanged(base: nn.Module, children: Mapping[str, nn.Module]) -> Iterator[None]:
    before = dict(base._modules)
    base._modules.update(children)
    try:
        yield
    finally:
        base._modules.update(before)
