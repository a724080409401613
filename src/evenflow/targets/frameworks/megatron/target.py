"""Megatron-LM: the flags of its training scripts."""

from dataclasses import replace
from functools import partial

from evenflow.language import _
from evenflow.model import Abilities, Plan
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.megatron_family.baseline import is_run, read_run
from evenflow.targets.megatron_family.degrees.degree_flags import degree_notes, older_degree_flags, parallel_flags
from evenflow.targets.megatron_family.degrees.degree_rules import megatron_rules, offload_rule, older_rules
from evenflow.targets.megatron_family.degrees.degree_settings import check_pairs
from evenflow.targets.megatron_family.degrees.stated import stated_in_run
from evenflow.targets.megatron_family.edit import apply_flags
from evenflow.targets.megatron_family.flags import (
    CUT_FLAGS,
    OFFLOAD_FLAGS,
    OLD_WAYS,
    STOCK_WAYS,
    WAYS_WITH_SETS,
    batch_note,
    even_flags,
    flags_piece,
    megatron_abilities,
    offload_environment,
    old_recompute_flags,
    plan_flags,
    plan_notes,
    recompute_flags,
    ways_with_moves,
    without_layout_abilities,
)
from evenflow.targets.megatron_family.forks import has_old_checkpointing, is_megatron_deepspeed, knows_no_layout
from evenflow.targets.megatron_family.hybrid_pattern import is_hybrid
from evenflow.targets.megatron_family.logs import MEGATRON
from evenflow.targets.megatron_family.mindspeed_cuts import is_mindspeed_script
from evenflow.targets.megatron_family.settings import FROZEN_PARTS, PAIRS
from evenflow.targets.target import Target, Written
from evenflow.tune.rules import DegreeRules

BEFORE_CORE, BY_LAYERS, BY_LAYOUT, WITH_PAIRS, WITH_OFFLOAD, WITH_SHARE = "0.1", "0.2", "0.13", "0.14", "0.16", "0.19"
"""Versions of megatron-core by how they cut the network: equal cells, or any by a layout. The first stands for
Megatron-LM 2, which had no core, and recomputes by other flags; later ones run forwards beside backwards, then move
activations to the host too, and the last a share of them.
"""
_BY_LAYOUT = (BY_LAYOUT, WITH_PAIRS, WITH_OFFLOAD, WITH_SHARE)
_MOVING = (WITH_OFFLOAD, WITH_SHARE)


def _abilities(version: str) -> Abilities:
    if version in _BY_LAYOUT:
        ways = ways_with_moves(in_share=version == WITH_SHARE) if version in _MOVING else WAYS_WITH_SETS
        abilities = megatron_abilities(ways, in_pairs=version != BY_LAYOUT)
        return replace(abilities, releases_attention=version in _MOVING)  # both came with 0.16
    return without_layout_abilities(OLD_WAYS if version == BEFORE_CORE else STOCK_WAYS)


def _older_flags(plan: Plan, version: str) -> dict[str, tuple[str, ...]]:
    """Return the flags of a plan for a version without layouts."""
    if version == BEFORE_CORE:
        return {**even_flags(plan), **old_recompute_flags(plan)}
    return {**even_flags(plan), **recompute_flags(plan, has_modules=False)}


def _write(plan: Plan, version: str) -> Written:
    if version not in _BY_LAYOUT:
        piece = flags_piece("PIPELINE_ARGS", _older_flags(plan, version))
        return Written(pieces=(piece,), notes=(batch_note(plan),))
    flags = {**plan_flags(plan), **recompute_flags(plan)}
    return Written(
        pieces=(flags_piece("PIPELINE_ARGS", flags),),
        environment=offload_environment(plan),
        notes=(_("leave out {flags}: the layout replaces them", flags=", ".join(CUT_FLAGS)), *plan_notes(plan)),
    )


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    check_pairs(plan, planned)
    if version not in _BY_LAYOUT:
        flags = {**_older_flags(plan, version), **older_degree_flags(planned, has_axes=version == BY_LAYERS)}
        return Written(pieces=(flags_piece("PARALLEL_ARGS", flags),), notes=degree_notes(planned))
    flags = {**parallel_flags(plan, planned), **recompute_flags(plan)}
    notes = (_("leave out {flags}: the layout replaces them", flags=", ".join(CUT_FLAGS)), *plan_notes(plan)[1:])
    return Written(
        pieces=(flags_piece("PARALLEL_ARGS", flags),),
        environment=offload_environment(plan),
        notes=(*(notes if plan.num_ranks > 1 else ()), *degree_notes(planned)),
    )


def _degree_rules(version: str) -> DegreeRules:
    if version not in _BY_LAYOUT:
        return older_rules(has_axes=version == BY_LAYERS)
    rules = megatron_rules()
    return replace(rules, rules=(*rules.rules, offload_rule()))


def _told_version(text: str, file: str) -> str | None:
    if not knows_no_layout(text, file):
        return None
    return BEFORE_CORE if has_old_checkpointing(text, file) else BY_LAYERS


def _apply(text: str, file: str, plan: Plan) -> str:
    version = _told_version(text, file)
    if version is not None:
        return apply_flags(text, file, plan, _older_flags(plan, version))
    return apply_flags(text, file, plan, {**plan_flags(plan), **recompute_flags(plan)}, decided=OFFLOAD_FLAGS)


_OTHERS = (is_mindspeed_script, is_megatron_deepspeed, is_hybrid)
"""What else is made of Megatron-LM's flags."""

TARGET = Target(
    name="megatron",
    title="Megatron-LM",
    versions=(BEFORE_CORE, BY_LAYERS, *_BY_LAYOUT),
    unchecked_versions=(BEFORE_CORE, BY_LAYERS),
    checked_with="megatron-core 0.16.1, 0.19.0",
    degrees_checked_with="megatron-core 0.16.1",
    page="megatron",
    abilities=_abilities,
    adapter="megatron-adapter",
    frozen_parts=FROZEN_PARTS,
    write=_write,
    offloads_optimizer=lambda version: version in _BY_LAYOUT,
    degree_rules=_degree_rules,
    write_degrees=_write_degrees,
    told_version=_told_version,
    read=partial(read_run, in_pairs=PAIRS),
    read_degrees=stated_in_run,
    recognise=lambda text, file: is_run(text, file) and not any(is_other(text, file) for is_other in _OTHERS),
    apply=_apply,
    logs=(MEGATRON,),
)
