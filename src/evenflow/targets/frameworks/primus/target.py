"""Primus on Megatron-LM: overrides of the training module in an experiment's YAML.

It recomputes single layers by their global ids, so any counts of a plan are exact. Its zero-bubble schedule is ZB-H1,
and zbv-formatted an order that plans may have for themselves; zero-bubble-heuristic, v-half and v-min are orders of its
own, which no plan has. [Primus, `primus/core/pipeline_parallel/scheduler/algorithms`]
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, SELECT, Abilities, Plan, Recomputation, Scope, SizeRule, looped
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.profiles.yaml_text import block_text
from evenflow.targets.frameworks.primus import formatted_zbv
from evenflow.targets.frameworks.primus.overrides import (
    OFFLOAD,
    OFFLOAD_OPS,
    offload_notes,
    read_overrides,
    stated_in_overrides,
)
from evenflow.targets.megatron_family.degrees.degree_rules import megatron_rules
from evenflow.targets.megatron_family.degrees.degree_settings import (
    batch_settings,
    check_pairs,
    degree_settings,
    setting_notes,
    sharding_settings,
)
from evenflow.targets.megatron_family.flags import megatron_abilities
from evenflow.targets.megatron_family.settings import (
    FROZEN_PARTS,
    pair_corrections,
    pair_settings,
    pipeline_settings,
    recompute_settings,
    settings_notes,
)
from evenflow.targets.megatron_family.yaml_settings import apply_settings, mtp_layers_in, section_of
from evenflow.targets.stages import layers_by_kind, stages_of
from evenflow.targets.target import Piece, Target, Written

_MODULES = re.compile(r"^modules:", re.MULTILINE)
_FRAMEWORK = re.compile(r"^[ ]+framework:[ ]*megatron[ ]*(?:#.*)?$", re.MULTILINE)
_EXCLUDED = {
    "num_layers_per_virtual_pipeline_stage": None,
    "num_virtual_stages_per_pipeline_rank": None,
    "virtual_pipeline_model_parallel_size": None,
    "decoder_first_pipeline_num_layers": None,
    "decoder_last_pipeline_num_layers": None,
    "decoder_pipeline_manual_split_list": None,
    "account_for_embedding_in_pipeline_split": False,
    "account_for_loss_in_pipeline_split": False,
    "recompute_activations": False,
    "patch_zero_bubble": False,
    OFFLOAD: False,
}
"""What cannot stand beside a layout, layer ids or the schedules here, and its value where there is none."""
_OWN_RUNTIME = {
    "patch_primus_pipeline": True,
    "overlap_grad_reduce": False,
    "overlap_param_gather": False,
    "no_persist_layer_norm": True,
    "create_attention_mask_in_dataloader": False,
    "gradient_accumulation_fusion": True,
}
"""What runs orders with split backwards, with the settings that Primus' runtime of schedules asks for. [Primus,
Primus-pipeline]
"""


def _abilities(version: str) -> Abilities:
    enough = SizeRule(
        text=_("must be at least the number of ranks under zb-h1"),
        holds=lambda sizes, schedule: schedule != "zb-h1" or sizes.num_microbatches >= sizes.num_ranks,
    )
    selective = Recomputation(scope=Scope.MODEL, kinds=(SELECT,))
    same = megatron_abilities((Recomputation(scope=Scope.LAYERS), selective), in_pairs=True)
    abilities = replace(
        same,
        schedules=(*same.schedules, "zb-h1"),
        sizes=(*same.sizes, enough),
        keeps_mtp=False,
        releases_attention=True,
    )
    moving = Recomputation(scope=Scope.FIRST_CHUNK, kinds=(FULL, formatted_zbv.MOVED))
    on_v = replace(abilities, own_order=True, recomputation=(*abilities.recomputation, moving))
    return replace(abilities, of_order=lambda plan: on_v if formatted_zbv.is_formatted(plan) else None)


def _overrides(plan: Plan, *, mtp_layers: int = 0) -> dict[str, object]:
    algorithm, moves = ("zero-bubble" if plan.schedule == "zb-h1" else ""), formatted_zbv.MOVED in plan.used_kinds
    if formatted_zbv.is_formatted(plan):
        algorithm, plan = formatted_zbv.ALGORITHM, formatted_zbv.in_a_loop(plan)
    settings: dict[str, object] = {**pipeline_settings(plan, mtp_layers=mtp_layers), **pair_settings(plan)}
    settings |= {**_OWN_RUNTIME, "pp_algorithm": algorithm} if algorithm else {"patch_primus_pipeline": False}
    settings |= {OFFLOAD: True, OFFLOAD_OPS: "attn"} if moves else {}
    settings |= {**recompute_settings(plan), "recompute_layer_ids": None}
    placement = looped(num_ranks=plan.num_ranks, num_chunks=plan.num_chunks)
    if full := layers_by_kind(stages_of(plan, placement)).get(FULL):
        settings |= {"recompute_method": None, "recompute_num_layers": None, "recompute_layer_ids": list(full)}
    return settings


def _write(plan: Plan, version: str) -> Written:
    of_moves = offload_notes() if formatted_zbv.MOVED in plan.used_kinds else ()
    of_settings = settings_notes(formatted_zbv.in_a_loop(plan) if formatted_zbv.is_formatted(plan) else plan)
    return Written(pieces=(_piece(_overrides(plan)),), notes=(*of_settings, *of_moves))


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    check_pairs(plan, planned)
    overrides = {
        **_overrides(plan),
        **degree_settings(planned),
        **batch_settings(planned),
        "seq_length": planned.sequence,
        **sharding_settings(planned),
    }
    if plan.num_ranks == 1:
        overrides["pipeline_model_parallel_layout"] = None
    return Written(pieces=(_piece(overrides),), notes=(*settings_notes(plan)[1:], *setting_notes(planned)))


def _piece(overrides: Mapping[str, object]) -> Piece:
    text = block_text({"modules": {"pre_trainer": {"overrides": overrides}}})
    return Piece(title=_("overrides in the YAML of the experiment"), syntax="yaml", text=text)


def _apply(text: str, file: str, plan: Plan) -> str:
    path = _module_path(text, file)
    section = section_of(text, path, file=file)
    overrides = _overrides(plan, mtp_layers=mtp_layers_in(section))
    # What is null in Primus' own presets needs no line.
    settings = {key: value for key, value in overrides.items() if value is not None or key in section}
    instead = {key: value for key, value in _EXCLUDED.items() if key not in settings}
    return apply_settings(
        text, path, settings=settings, instead={**instead, **pair_corrections(plan)}, plan=plan, file=file
    )


def _module_path(text: str, file: str) -> tuple[str, ...]:
    """Return the keys of the overrides of the one module that trains with Megatron-LM; raises InputError otherwise."""
    modules = section_of(text, ("modules",), file=file)
    names = [
        name
        for name, module in modules.values.items()
        if isinstance(module, dict) and module.get("framework") == "megatron"
    ]
    if len(names) != 1:
        rule = _("must have one module with the framework megatron")
        raise InputError(value=len(names), rule=rule, place=f"{file}: modules")
    return ("modules", names[0], "overrides")


TARGET = Target(
    name="primus",
    title="Primus",
    versions=("26.1",),
    checked_with="",
    page="primus",
    abilities=_abilities,
    frozen_parts=FROZEN_PARTS,
    write=_write,
    write_degrees=_write_degrees,
    degree_rules=lambda version: megatron_rules(),
    read=lambda text, file, given: read_overrides(section_of(text, _module_path(text, file), file=file), given),
    read_degrees=lambda text, file: stated_in_overrides(section_of(text, _module_path(text, file), file=file)),
    recognise=lambda text, file: bool(_MODULES.search(text) and _FRAMEWORK.search(text)),
    apply=_apply,
)
