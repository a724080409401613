"""The inputs that a decoder gives its layers: masks, rotary embeddings, positions, by the kind of layer.

The decoder's own forward runs once, with stand-ins for its layers that only note what they are given.

    embed_tokens -> note[0] -> note[1] -> ... -> note[n - 1]
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn


@dataclass(frozen=True, slots=True, kw_only=True)
class LayerInputs:
    """The inputs of one layer."""

    hidden: Tensor
    others: tuple[Any, ...]
    """Further positional inputs."""
    named: Mapping[str, Any]


def layer_inputs(base: Any, **model_input: Tensor) -> list[LayerInputs]:
    """Return the inputs of each layer of `base`, a decoder without its head.

    `model_input` is the one input of `base`: ``input_ids``, or ``inputs_embeds``.

    The parameters of the layers are not read, so they may be on the meta device where the input is not. The empty cache
    is there so that nothing asks for values of positions, which the meta device has not; the layers go without.
    """
    from transformers import DynamicCache

    notes = [_Note(layer) for layer in base.layers]
    (tensor,) = model_input.values()
    with _replaced(base, notes, tensor.device), torch.no_grad():
        base(**model_input, past_key_values=DynamicCache(), use_cache=False)
    return [note.noted for note in notes]


class _Note(nn.Module):
    """A stand-in for a module, with its attributes: hands over its input as it is, and notes everything it is given."""

    noted: LayerInputs

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.__dict__["_module"] = module  # not as a submodule: nothing of it is to be moved or called

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_module"], name)

    def forward(self, hidden: Tensor, *others: Any, **named: Any) -> Tensor:
        without_cache = {"past_key_values": None} if "past_key_values" in named else {}
        self.noted = LayerInputs(hidden=hidden, others=others, named={**named, **without_cache})
        return hidden


@contextmanager
def _replaced(base: Any, notes: list[_Note], device: torch.device) -> Iterator[None]:
    """Put `notes` in place of the layers and the norm while the block runs.

    On a real device the rotary embedding is a new one, since that of a model on the meta device has no values.
    """
    before = dict(base._modules)
    base.layers, base.norm = nn.ModuleList(notes), _Note(base.norm)
    if "rotary_emb" in before and device.type != "meta":
        base.rotary_emb = type(base.rotary_emb)(config=base.config).to(device)
    try:
        yield
    finally:
        base._modules.update(before)
