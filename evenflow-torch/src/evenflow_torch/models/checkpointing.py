"""Layers under a recompute kind: the parts that `evenflow.model.recompute_parts` names run under a checkpoint.

A kind may also be a set of modules of the layer, by their names joined with ``+``.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

from torch import nn
from torch.utils.checkpoint import checkpoint

from evenflow.model import FULL, KNOWN_KINDS, NONE, OFFLOAD, RECOMPUTE_PARTS, is_kind_name, recomputed_parts
from evenflow_torch.models.exported.traced_part import TracedPart

Patterns = Mapping[str, Sequence[str]]
"""For each recompute kind, glob patterns of names within a layer, as in `RECOMPUTE_PARTS`."""


def offered_kinds(layer: nn.Module) -> tuple[str, ...]:
    """Return the kinds that change something in this layer, and ``none``; one that acts as another does is left out."""
    offered: dict[tuple[str, ...], str] = {}
    for kind in RECOMPUTE_PARTS:
        names = names_of_kind(layer, kind)
        if names or kind == NONE:
            offered.setdefault(names, kind)
    return tuple(offered.values())


def modules_of_kinds(layer: nn.Module) -> dict[str, tuple[str, ...]]:
    """Return the names of the submodules that each kind of `offered_kinds` recomputes, but for none and full."""
    return {kind: names_of_kind(layer, kind) for kind in offered_kinds(layer) if kind not in (NONE, FULL)}


def names_of_kind(layer: nn.Module, kind: str, patterns: Patterns = RECOMPUTE_PARTS) -> tuple[str, ...]:
    """Return the names of the submodules that `kind` recomputes, none of which is inside another."""
    return recomputed_parts(kind, names_in(layer), patterns)


def names_in(layer: nn.Module) -> list[str]:
    """Return the names of the modules of a layer, of which it is itself the one without a name."""
    return layer.inner_names() if isinstance(layer, TracedPart) else [name for name, _ in layer.named_modules()]


def modules_of_sets(layer: nn.Module) -> tuple[str, ...]:
    """Return the names of the modules of a layer that may be in a set, those with others inside before these.

    A container, which only holds others, never runs; a name that a kind has already would mean that kind.
    """
    return tuple(
        name
        for name, module in layer.named_modules()
        if name and is_kind_name(name) and name not in (NONE, OFFLOAD, *KNOWN_KINDS) and _runs(module)
    )


def recomputed_modules(layer: nn.Module, kind: str, patterns: Patterns = RECOMPUTE_PARTS) -> list[nn.Module]:
    """Return the submodules that `kind` recomputes, none of which is inside another."""
    names = names_of_kind(layer, kind, patterns)
    if isinstance(layer, TracedPart):
        return [layer.inner_module(name) for name in names]
    return [layer.get_submodule(name) for name in names]


def under_checkpoint(forward: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """Return what computes `forward` and, in the backward, computes it again; `options` are those of `checkpoint`."""
    return partial(checkpoint, forward, use_reentrant=False, **options)


@contextmanager
def recomputing(layer: nn.Module, kind: str) -> Iterator[None]:
    """While the block runs, forwards of `layer` recompute as `kind` says; the layer is afterwards as it was."""
    modules = recomputed_modules(layer, kind)
    for module in modules:
        module.forward = under_checkpoint(module.forward, preserve_rng_state=False)
    try:
        yield
    finally:
        for module in modules:
            del module.forward  # what the class defines shows again


def _runs(module: nn.Module) -> bool:
    return type(module).forward is not nn.Module.forward
