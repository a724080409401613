"""Buffers of a model of transformers that was made without its data."""

from collections.abc import Sequence

import torch

from evenflow_torch.models.parts import ModelRow, Part


def make_buffers(model: ModelRow, parts: Sequence[Part], device: torch.device) -> None:
    """Give storage and values to the buffers of modules that are in none of `parts`, such as rotary embeddings."""
    inside = {id(module) for part in parts for module in part.module.modules()}
    if not hasattr(model.whole, "_init_weights"):
        return
    for path, module in list(model.whole.named_modules()):
        if id(module) in inside or not module._buffers:
            continue
        if "rotary" in path.rpartition(".")[2]:
            model.whole.set_submodule(path, type(module)(config=model.whole.config).to(device))
            continue
        for name, buffer in module._buffers.items():
            module._buffers[name] = None if buffer is None else torch.empty_like(buffer, device=device)
        model.whole._init_weights(module)
