"""What MindFormers moves to the host and back: whole layers, and what operators return (``swap_config``).

With ``swap`` on, the recompute lists have the numbers of layers instead of counts of cells, and ``true`` stands for all
layers. What an operator returns is recomputed, or moved, or kept; nothing moves of a layer that is recomputed as a
whole. [MindFormers: LayerSetting, TransformerSwapConfig; MindSpore: OffloadActivationOptimizer]

    swap_config:
      swap: true
      layer_swap: [{backward_prefetch: 1, layers: [0, 1, 8]}]
      op_swap: [{op_name: ["self_attention\\\\.linear_proj\\\\.reshape"], backward_prefetch: 1, layers: [2]}]

Newer models (``use_legacy: False``) have these keys in ``model.model_config``: nothing hands ``swap_config`` on to
them, though the checks at the start look there too. [MindFormers 1.9.0, 2.1.0: TransformerOpParallelConfig.to_dict,
convert_to_transformer_config, check_rules]
"""

from collections.abc import Mapping

from evenflow.export.train_yaml import value_at
from evenflow.language import _
from evenflow.model import BOTH, COMM, FULL, OFFLOAD, SELECT, SET_JOINT, Plan, looped, moves
from evenflow.targets.frameworks.mindformers.module_sets import MOVED, MOVED_PATTERNS, PATTERNS, has_sets
from evenflow.targets.stages import stages_of

SECTION, MODEL = "swap_config", "model.model_config"
KEYS: Mapping[str, tuple[str, ...]] = {
    "swap": ("swap", "cpu_offloading"),
    "layer_swap": ("layer_swap", "cpu_offloading_num_layers"),
    "op_swap": ("op_swap",),
}
"""The keys, each with its names in the configuration of a newer model, which takes one of them."""
_PREFETCH = 1
"""Operators of a backward before the one that needs what comes back; a plan has no other number."""


def swap_values(plan: Plan) -> dict[str, object]:
    """Return what moves under `plan` in a training YAML, with its lists of recomputation; empty where nothing does."""
    if not any(map(moves, plan.used_kinds)):
        return {}
    stages = stages_of(plan, looped(num_ranks=plan.num_ranks, num_chunks=plan.num_chunks))
    parts = [set(kind.split(SET_JOINT)) for stage in stages for kind in stage.kinds]

    def layers_with(*names: str) -> list[int]:
        return [layer for layer, own in enumerate(parts) if own.intersection(names)]

    by_module = {
        pattern: layers_with(module)
        for module, patterns in PATTERNS.items()
        if layers_with(module)
        for pattern in patterns
    }
    select = by_module if has_sets(plan) else layers_with(SELECT, BOTH)
    whole, operators = layers_with(OFFLOAD), layers_with(*MOVED)
    moved = {
        "swap": True,
        "layer_swap": [_entry(whole)] if whole else [],
        **({"op_swap": [{"op_name": list(MOVED_PATTERNS), **_entry(operators)}]} if operators else {}),
    }
    return {
        "recompute_config.recompute": layers_with(FULL) or False,
        "recompute_config.select_recompute": select or False,
        "recompute_config.select_comm_recompute": layers_with(COMM, BOTH) or False,
        **{f"{section}.{key}": value for section in (SECTION, MODEL) for key, value in moved.items()},
    }


def in_file(values: Mapping[str, object], document: object) -> dict[str, object]:
    """Return `values` of a training YAML as a user's file has them: its names of keys, nothing of the others' left.

    A file for older models gets none in the configuration of its model. Swap is turned off where `values` have none of
    it, since it gives the recompute lists another meaning.
    """
    is_older = value_at(document, ("use_legacy",)) is not False
    fitting = {key: value for key, value in values.items() if not _of_swap(key)}
    swaps = f"{SECTION}.swap" in values
    for section in (SECTION, MODEL):
        for key, names in KEYS.items():
            stated = [name for name in names if value_at(document, (*section.split("."), name)) is not None]
            name = stated[0] if stated else key
            if swaps and f"{section}.{key}" in values and not (section == MODEL and is_older):
                fitting[f"{section}.{name}"] = values[f"{section}.{key}"]
            elif stated and (key == "swap" or swaps):
                fitting[f"{section}.{name}"] = False if key == "swap" else []
    return fitting


def unfused_note() -> str:
    """Return what of whole layers does not move."""
    return _(
        "the halves of linear_fc1's output stay on the device unless the activation is fused (bias_swiglu_fusion): "
        "elements of tuples do not move"
    )


def _of_swap(key: str) -> bool:
    section, _dot, name = key.rpartition(".")
    return section in (SECTION, MODEL) and name in KEYS


def _entry(layers: list[int]) -> dict[str, object]:
    return {"backward_prefetch": _PREFETCH, "layers": layers}
