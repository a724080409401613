"""Which modules of which layers move to the host in Megatron-LM, whose own flags move the same in all layers.

With ``--fine-grained-activation-offloading`` a module of a layer is a group of tensors for each microbatch. After a
first step in which all of them move, Megatron-LM decides for each group whether it does. Here the plan decides before
it. Layers that compute anything again open no groups. [Megatron-LM, `PipelineOffloadManager`]
"""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import NONE, Plan, ordered_kinds
from evenflow.predict.training import MOVED_MODULES, MOVES, moved_of, sets_among

Moves = Mapping[str, Sequence[bool]]
"""For every module, whether it moves in each layer of a chunk that has it, in their order."""

_SWITCHES = {
    "attn_norm": ("", "offload_attn_norm"),
    "qkv_linear": ("self_attention", "offload_qkv_linear"),
    "core_attn": ("self_attention", "offload_core_attention"),
    "attn_proj": ("self_attention", "offload_attn_proj"),
    "mlp_norm": ("", "offload_mlp_norm"),
    "expert_fc1": ("mlp.experts", "offload_expert_fc1"),
    "moe_act": ("mlp.experts", "offload_moe_act"),
}
"""For every module, what of a layer has its switch, and the switch."""


def moves_alone(kind: str) -> bool:
    """Return whether a recompute kind is a set of modules that all move."""
    return any(all(module.startswith(MOVES) for module in modules) for modules in sets_among([kind]))


def moved_in(plan: Plan) -> tuple[str, ...]:
    """Return the modules that move in any layer of a plan."""
    moved = set().union(*map(_moved, plan.used_kinds))
    return tuple(module for module in MOVED_MODULES if module in moved)


def let_move(layers: Sequence[Any], config: Any, plan: Plan, *, chunk: int, rank: int, place: str) -> None:
    """Let modules of the `layers` of a model chunk move as `plan` says, from the second step on.

    Raises:
        InputError: the configuration does not move what the plan moves, or moves anything else.
    """
    wanted = moved_in(plan)
    given = tuple(config.offload_modules or ()) if getattr(config, "fine_grained_activation_offloading", False) else ()
    if set(given) != set(wanted):
        raise InputError(
            value=", ".join(given) or None,
            rule=_("must move the modules of the plan: {names}", names=", ".join(wanted) or NONE),
            place=_("{place}, offload_modules", place=place),
            remedy=_("take the flags that evenflow export writes"),
        )
    if not wanted:
        return
    kinds = [kind for kind in ordered_kinds(set(plan.used_kinds)) for _layer in range(plan.count(kind, chunk, rank))]
    moves: dict[str, list[bool]] = {module: [] for module in wanted}
    for layer, kind in zip(layers, kinds, strict=False):  # further tokens are predicted by layers of no block
        for module in wanted:
            part, switch = _part(layer, module)
            if not getattr(part, switch, False):
                continue
            if kind != NONE and not moves_alone(kind):
                setattr(part, switch, False)  # a checkpoint would open groups once more
            else:
                moves[module].append(module in _moved(kind))
    if kinds:
        for module in wanted:
            moves[module].append(module in _moved(kinds[-1]))
    _moves_of_chunks()[chunk] = moves


def _moved(kind: str) -> set[str]:
    """Return the modules that move under a recompute kind."""
    return {module for modules in sets_among([kind]) for module in moved_of(modules)}


def _part(layer: Any, module: str) -> tuple[Any, str]:
    """Return what of a layer has the switch of a module, None where it has not the module, and the switch."""
    path, switch = _SWITCHES[module]
    part = layer
    for name in filter(None, path.split(".")):
        part = getattr(part, name, None)
    return part, switch


def _moves_of_chunks() -> dict[int, Moves]:
    """Return what moves in the chunks of this process, by which Megatron-LM's manager decides from now on."""
    from megatron.core.pipeline_parallel.fine_grained_activation_offload import PipelineOffloadManager

    known: dict[int, Moves] | None = getattr(PipelineOffloadManager, "_evenflow_moves", None)
    if known is not None:
        return known
    known = PipelineOffloadManager._evenflow_moves = {}
    decide = PipelineOffloadManager.post_warmup_callback

    def decided(manager: Any, *args: Any, **kwargs: Any) -> Any:
        for handler in manager._cached_chunks_forward:
            keep_others(handler.offload_groups, known.get(handler.vpp_rank, {}))
        return decide(manager, *args, **kwargs)

    PipelineOffloadManager.post_warmup_callback = decided
    return known


def keep_others(groups: Collection[Any], moves: Moves) -> None:
    """Keep the groups of a microbatch on the device that do not move, each the next layer's of its name.

    Those behind the last layer, which predict further tokens, do as the last entry of `moves` says.
    """
    seen = dict.fromkeys(moves, 0)
    for group in groups:
        own = moves.get(group._name)
        if own:
            group.offload = group.offload and own[min(seen[group._name], len(own) - 1)]
            seen[group._name] += 1
