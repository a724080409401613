"""Activation checkpointing by layer for torchtitan from 0.3 on: each layer under the recompute kind of its plan.

A configuration names it as it names torchtitan's own policies:

    from evenflow.adapters.torchtitan import recompute_layers

    config.activation_checkpoint = recompute_layers({"full": [0, 1, 8], "select": [2, 9]})

After the cut, layers are still named by their place in the whole network, so one policy serves all stages. Which
sub-modules a kind computes again is said in `evenflow.model.recompute_parts`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, KNOWN_KINDS, recomputed_parts


def recompute_layers(layers: Mapping[str, Sequence[int]]) -> Any:
    """Return the configuration of a policy under which these layers of the network recompute, by kind.

    Raises:
        InputError: a kind that is not known, or a layer that is under two.
    """
    seen: set[int] = set()
    for kind, indices in layers.items():
        if kind not in KNOWN_KINDS:
            rule = _("must have kinds that can run: {names}", names=", ".join(KNOWN_KINDS))
            raise InputError(value=kind, rule=rule, place="recompute_layers")
        twice = sorted(seen.intersection(indices))
        if twice:
            rule = _("must be under one kind each")
            raise InputError(value=twice, rule=rule, place=_("recompute_layers, layers"))
        seen.update(indices)
    return _policy_class().Config(layers={kind: list(indices) for kind, indices in layers.items()})


@cache
def _policy_class() -> Any:
    from torchtitan.distributed.activation_checkpoint import FullAC

    class PlannedAC(FullAC):  # type: ignore[misc, unused-ignore]
        """Checkpoints of whole layers, or of their parts, as a plan says."""

        @dataclass(kw_only=True, slots=True)
        class Config(FullAC.Config):  # type: ignore[misc, unused-ignore]
            """The layers of the network under each recompute kind."""

            layers: dict[str, list[int]] = field(default_factory=dict)

        def _wrap_block(self, module: Any, *, base_fqn: str | None = None) -> Any:
            wrap = super()._wrap_block
            layer = int(str(base_fqn).removeprefix("layers."))
            kind = next((kind for kind, layers in self.config.layers.items() if layer in layers), None)
            if kind == FULL:
                return wrap(module)
            if kind is not None:
                for name in _parts(module, kind, layer):
                    parent, _dot, child = name.rpartition(".")
                    module.get_submodule(parent).register_module(child, wrap(module.get_submodule(name)))
            return module

    return PlannedAC


def _parts(module: Any, kind: str, layer: int) -> tuple[str, ...]:
    names = recomputed_parts(kind, [name for name, _module in module.named_modules()])
    if not names:
        raise InputError(
            value=kind,
            rule=_("must be a kind that layer {layer} of this model has sub-modules for", layer=layer),
            place="recompute_layers",
        )
    return names
