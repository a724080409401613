"""A layer under a recompute kind: the parts that `evenflow.model.recompute_parts` names run under a checkpoint."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from evenflow.model import NONE
from evenflow.model.recompute_parts import RECOMPUTE_PARTS, recomputed_parts


def offered_kinds(layer: nn.Module) -> tuple[str, ...]:
    """The kinds that change something in this layer, and ``none``; one that acts as another does is left out."""
    offered: dict[tuple[str, ...], str] = {}
    for kind in RECOMPUTE_PARTS:
        parts = parts_of(layer, kind)
        if parts or kind == NONE:
            offered.setdefault(parts, kind)
    return tuple(offered.values())


def parts_of(layer: nn.Module, kind: str) -> tuple[str, ...]:
    """Names of the submodules that `kind` recomputes."""
    return recomputed_parts(kind, (name for name, _ in layer.named_modules()))


@contextmanager
def recomputing(layer: nn.Module, kind: str) -> Iterator[None]:
    """While the block runs, forwards of `layer` recompute as `kind` says; the layer is afterwards as it was."""
    parts = [layer.get_submodule(name) for name in parts_of(layer, kind)]
    for part in parts:
        part.forward = _checkpointed(part.forward)
    try:
        yield
    finally:
        for part in parts:
            del part.forward  # what the class defines shows again


def _checkpointed(forward: Any) -> Any:
    def run(*args: Any, **kwargs: Any) -> Any:
        return checkpoint(forward, *args, use_reentrant=False, preserve_rng_state=False, **kwargs)

    return run
