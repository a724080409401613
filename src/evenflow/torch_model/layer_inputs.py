"""What a decoder gives its layers: masks, rotary embeddings, positions, different for layers of different kinds.

The decoder's own forward says it: it runs once, with stand-ins for its layers that only note what they are given.

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
    """What one layer is given."""

    hidden: Tensor
    others: tuple[Any, ...]
    """Further positional inputs."""
    named: Mapping[str, Any]


def layer_inputs(base: Any, **given: Tensor) -> list[LayerInputs]:
    """Return what each layer of `base`, a decoder without its head, gets when `base` is `given` ``input_ids`` or
    ``inputs_embeds``.

    The layers' parameters are not read and may be on the meta device, wherever the input is. The empty cache is there
    so that nothing asks for values of positions, which the meta device has not; the layers go without.
    """
    from transformers import DynamicCache

    notes = [_Note(layer) for layer in base.layers]
    (tensor,) = given.values()
    with _replaced(base, notes, tensor.device), torch.no_grad():
        base(**given, past_key_values=DynamicCache(), use_cache=False)
    return [note.given for note in notes]


class _Note(nn.Module):
    """Stands for a module, whose attributes it shows: hands on its input, and notes what comes with it."""

    given: LayerInputs

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.__dict__["_module"] = module  # not as a submodule: nothing of it is to be moved or called

    def __getattr__(self, name: str) -> Any:
        return getattr(self.__dict__["_module"], name)

    def forward(self, hidden: Tensor, *others: Any, **named: Any) -> Tensor:
        without_cache = {"past_key_values": None} if "past_key_values" in named else {}
        self.given = LayerInputs(hidden=hidden, others=others, named={**named, **without_cache})
        return hidden


@contextmanager
def _replaced(base: Any, notes: list[_Note], device: torch.device) -> Iterator[None]:
    """Layers and norm that only note, and on a real device a rotary embedding with values, which the model's own may
    not have.
    """
    before = dict(base._modules)
    base.layers, base.norm = nn.ModuleList(notes), _Note(base.norm)
    if "rotary_emb" in before and device.type != "meta":
        base.rotary_emb = type(base.rotary_emb)(config=base.config).to(device)
    try:
        yield
    finally:
        base._modules.update(before)
