"""A plan in the settings of Megatron-LM, which frameworks built on it take from YAML or as overrides.

A setting has the name of a field of Megatron's configuration, and null where a flag would not be given.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

from evenflow.language import _
from evenflow.model import Plan
from evenflow.predict.training import RECOMPUTE_MODULES
from evenflow.targets.megatron_family.flags import (
    PAIRED,
    array_of_lines,
    moved_modules,
    pair_notes,
    recompute_flags,
    recompute_notes,
)
from evenflow.targets.megatron_family.layout import format_plan

Setting: TypeAlias = bool | int | float | str | list[str] | None

GRANULARITY, MODULES = "recompute_granularity", "recompute_modules"
SELECTIVE = "selective"
OFFLOADS, OFFLOAD_MODULES = "fine_grained_activation_offloading", "offload_modules"
OFFLOADS_ALL, OFFLOADS_LESS = "activation_offload_fraction", "delta_offload_bytes_across_pp_ranks"
"""The share of the modules' inputs that moves, and the bytes fewer on every further rank."""

PAIRS, DELAYED = "overlap_moe_expert_parallel_comm", "delay_wgrad_compute"
"""Forwards beside backwards, and weight gradients behind the rest of a pair."""
RELEASES = "ep_overlap_early_attn_memory_release"
"""Attention backward before the MLP beside it goes forward."""
FB_OVERLAP = "moe_fb_overlap"
"""The same in MindSpeed, with weight gradients behind the rest."""
WITHOUT_LAYOUT: Mapping[str, Setting] = {
    "num_layers_in_first_pipeline_stage": None,
    "num_layers_in_last_pipeline_stage": None,
    "account_for_embedding_in_pipeline_split": False,
    "account_for_loss_in_pipeline_split": False,
}
"""What cannot stand beside a layout, and its value where there is none."""

FROZEN_PARTS = "embedding, decoder.layers[layer_number <= {count}]"
"""What holds the embedding and the first layers of a model of Megatron's: no setting freezes them, and the indices of
`decoder.layers` begin anew in every stage.
"""


def pipeline_settings(plan: Plan, *, mtp_layers: int = 0) -> dict[str, Setting]:
    """Return the ranks and the layout of `plan`, which says how many chunks there are, and its groups of microbatches.

    `mtp_layers` is the number of layers of multi-token prediction where the plan does not count them.
    """
    return {
        **({"mtp_num_layers": plan.mtp_layers} if plan.mtp_layers else {}),
        "pipeline_model_parallel_size": plan.num_ranks,
        "pipeline_model_parallel_layout": format_plan(plan, mtp_layers=mtp_layers),
        "microbatch_group_size_per_vp_stage": plan.group_size,
    }


def pair_settings(plan: Plan) -> dict[str, Setting]:
    """Return what makes forwards run beside backwards, where they do under `plan`."""
    if plan.schedule not in PAIRED:
        return {}
    further = {DELAYED: bool(plan.delays_weights), RELEASES: plan.releases_attention}
    return {PAIRS: True, **{key: True for key, is_on in further.items() if is_on}}


def pair_corrections(plan: Plan) -> dict[str, Setting]:
    """Return settings that must be so under `plan` wherever a file has them."""
    if plan.schedule not in PAIRED:
        return {PAIRS: False, DELAYED: False, RELEASES: False}
    return {} if plan.releases_attention else {RELEASES: False}


def recompute_settings(plan: Plan) -> dict[str, Setting]:
    """Return the recomputation of `plan`, which recomputes as Megatron-LM's own flags can.

    Beside pairs Megatron-LM looks at the modules even where none is computed again, so that they are null.
    """
    flags = {name.removeprefix("--").replace("-", "_"): list(values) for name, values in recompute_flags(plan).items()}
    of_pairs = (MODULES,) if plan.schedule in PAIRED else ()
    settings: dict[str, Setting] = dict.fromkeys((GRANULARITY, "recompute_method", "recompute_num_layers", *of_pairs))
    for name, values in flags.items():
        settings[name] = values if name in (MODULES, OFFLOAD_MODULES) else _value(values)
    if plan.moved_share is not None:
        settings[OFFLOADS_ALL] = plan.moved_share.share
    return settings


def _value(values: Sequence[str]) -> Setting:
    """Return what the value of a flag is as a setting."""
    if not values:
        return True
    return int(values[0]) if values[0].isdecimal() else values[0]


def kept_modules(settings: Mapping[str, object], old: Mapping[str, object]) -> dict[str, Setting]:
    """Return what changes of the `settings` of a plan for modules of `old` ones that no plan knows.

    They are computed again beside the modules of the plan, and alone where it recomputes nothing. A list that has the
    same modules in another order stays as it is.
    """
    told = module_names(old.get(MODULES))
    computes = old.get(GRANULARITY) == SELECTIVE
    unknown = [module for module in told if module not in RECOMPUTE_MODULES] if computes else []
    if settings.get(MODULES) is not None:
        every = [*module_names(settings[MODULES]), *unknown]
        return {MODULES: told if sorted(every) == sorted(told) else every}
    if unknown and settings.get(GRANULARITY) is None:
        return {GRANULARITY: SELECTIVE, MODULES: unknown}
    return {}


def module_names(value: object) -> list[str]:
    """Return the modules of a list, or of a text with commas between them."""
    if isinstance(value, str):
        return [name.strip() for name in value.split(",") if name.strip()]
    return list(map(str, value)) if isinstance(value, list) else []


def offload_corrections(plan: Plan) -> dict[str, Setting]:
    """Return settings of activations on the host that must be so under `plan` wherever a file has them."""
    moved = plan.moved_share
    share, kept = (1.0, 0) if moved is None else (moved.share, moved.kept_bytes)
    return {OFFLOADS_ALL: share, OFFLOADS_LESS: kept} if moved_modules(plan) else {OFFLOADS: False}


def override_array(settings: Iterable[tuple[str, Setting]]) -> str:
    """Return the definition of a shell array of overrides for Hydra, ``name=value``.

    To Hydra, brackets, bars and commas of a layout mean something, and to a shell as well: a layout is in quotes for
    Hydra inside those for the shell.
    """
    return array_of_lines("PIPELINE_ARGS", override_words(settings))


def override_words(settings: Iterable[tuple[str, Setting]]) -> Iterable[str]:
    """Return overrides as words for a shell."""
    return (override_word(name, override_text(name, value)) for name, value in settings)


def override_text(name: str, value: Setting) -> str:
    """Return the value of a setting as Hydra reads it: a layout or a pattern in quotes, for its bars and brackets."""
    if isinstance(value, list):
        return f"[{','.join(value)}]"
    if name.endswith(("layout", "pattern")) and value is not None:
        return f"'{value}'"
    return "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def override_word(name: str, text: str) -> str:
    """Return an override as a word for a shell, given the value as Hydra reads it."""
    return f'"{name}={text}"' if text.startswith(("'", "[")) else f"{name}={text}"


def settings_notes(plan: Plan, *, has_layout: bool = True) -> tuple[str, ...]:
    """Return what has no setting of its own, or is easily wrong beside the settings."""
    notes = [
        _(
            "the plan has {count} microbatches: the global batch must be {count} x the microbatch x the data-parallel"
            " size",
            count=plan.num_microbatches,
        )
    ]
    if has_layout and not plan.mtp_layers:
        notes.append(_("with multi-token prediction, put one m for each of its layers before L in the layout"))
    return (*notes, *pair_notes(plan), *recompute_notes(plan))
