"""Activation checkpointing by layer for torchtitan from 0.3 on: each layer under the recompute kind of its plan.

A configuration names it as it names torchtitan's own policies:

    from evenflow.adapters.torchtitan import recompute_layers

    config.activation_checkpoint = recompute_layers({"full": [0, 1, 8], "select": [2, 9]})

After the cut, layers are still named by their place in the whole network, so one policy serves all stages. Which
sub-modules a kind computes again is said in `evenflow.model.recompute_parts`, of sets of modules in `MODULES`;
`products` is torchtitan's own selective policy.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, KNOWN_KINDS, recomputed_parts
from evenflow.predict.training import PRODUCTS, set_kind

MODULES: Mapping[str, str] = {"mlp": "feed_forward", "moe": "moe", "shared_experts": "moe.shared_experts"}
"""The sub-module of a layer in torchtitan that is a module of a set."""
SETS = tuple(map(set_kind, (("mlp",), ("moe",), ("shared_experts",), ("mlp", "moe"), ("mlp", "shared_experts"))))
"""Sets of modules that are computed again, as recompute kinds; `moe` has the shared experts inside."""
LAYER_KINDS = (*KNOWN_KINDS, PRODUCTS, *SETS)
"""Recompute kinds that a layer may be under."""


def recompute_layers(layers: Mapping[str, Sequence[int]]) -> Any:
    """Return the configuration of a policy under which these layers of the network recompute, by kind.

    Raises:
        InputError: a kind that is not known, or a layer that is under two.
    """
    seen: set[int] = set()
    for kind, indices in layers.items():
        if kind not in LAYER_KINDS:
            rule = _("must have kinds that can run: {names}", names=", ".join(LAYER_KINDS))
            raise InputError(value=kind, rule=rule, place="recompute_layers")
        twice = sorted(seen.intersection(indices))
        if twice:
            rule = _("must be under one kind each")
            raise InputError(value=twice, rule=rule, place=_("recompute_layers, layers"))
        seen.update(indices)
    return _policy_class().Config(layers={kind: list(indices) for kind, indices in layers.items()})


@cache
def _policy_class() -> Any:
    from torchtitan.distributed.activation_checkpoint import FullAC, SelectiveAC

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
            if kind == PRODUCTS:
                return SelectiveAC(SelectiveAC.Config())._wrap_block(module, base_fqn=base_fqn)
            if kind is not None:
                for name in _parts(module, kind, layer):
                    parent, _dot, child = name.rpartition(".")
                    module.get_submodule(parent).register_module(child, wrap(module.get_submodule(name)))
            return module

    return PlannedAC


def _parts(module: Any, kind: str, layer: int) -> tuple[str, ...]:
    present = [name for name, _module in module.named_modules()]
    if kind in SETS:  # of which a layer may have none, such as experts
        names = tuple(MODULES[name] for name in kind.split("+") if MODULES[name] in present)
        is_known = any(name in present for name in MODULES.values())
    else:
        names = recomputed_parts(kind, present)
        is_known = bool(names)
    if not is_known:
        raise InputError(
            value=kind,
            rule=_("must be a kind that layer {layer} of this model has sub-modules for", layer=layer),
            place="recompute_layers",
        )
    return names
