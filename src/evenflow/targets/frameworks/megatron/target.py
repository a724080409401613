"""Megatron-LM: the flags of its training scripts."""

from evenflow.language import _
from evenflow.model import Abilities, Plan
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.megatron_family.baseline import is_run, read_run
from evenflow.targets.megatron_family.degrees.degree_flags import degree_notes, parallel_flags
from evenflow.targets.megatron_family.degrees.degree_rules import megatron_rules
from evenflow.targets.megatron_family.degrees.stated import stated_in_run
from evenflow.targets.megatron_family.edit import apply_flags
from evenflow.targets.megatron_family.flags import (
    CUT_FLAGS,
    STOCK_WAYS,
    even_flags,
    flags_piece,
    megatron_abilities,
    plan_flags,
    plan_notes,
    recompute_flags,
    without_layout_abilities,
)
from evenflow.targets.megatron_family.forks import is_megatron_deepspeed, knows_no_layout
from evenflow.targets.megatron_family.logs import MEGATRON
from evenflow.targets.megatron_family.mindspeed_cuts import is_mindspeed_script
from evenflow.targets.target import Target, Written

BY_LAYERS, BY_LAYOUT = "0.2", "0.13"
"""Versions of megatron-core by how they cut the network: equal cells, or any by a layout."""


def _abilities(version: str) -> Abilities:
    return megatron_abilities(STOCK_WAYS) if version == BY_LAYOUT else without_layout_abilities()


def _write(plan: Plan, version: str) -> Written:
    if version == BY_LAYERS:
        flags = {**even_flags(plan), **recompute_flags(plan)}
        batch = _(
            "--global-batch-size must be {count} x --micro-batch-size x the data-parallel size",
            count=plan.num_microbatches,
        )
        return Written(pieces=(flags_piece("PIPELINE_ARGS", flags),), notes=(batch,))
    flags = {**plan_flags(plan), **recompute_flags(plan)}
    return Written(
        pieces=(flags_piece("PIPELINE_ARGS", flags),),
        notes=(_("leave out {flags}: the layout replaces them", flags=", ".join(CUT_FLAGS)), *plan_notes(plan)),
    )


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    flags = {**parallel_flags(plan, planned), **recompute_flags(plan)}
    notes = (_("leave out {flags}: the layout replaces them", flags=", ".join(CUT_FLAGS)), *plan_notes(plan)[1:])
    return Written(
        pieces=(flags_piece("PARALLEL_ARGS", flags),),
        notes=(*(notes if plan.num_ranks > 1 else ()), *degree_notes(planned)),
    )


def _apply(text: str, file: str, plan: Plan) -> str:
    cut = even_flags(plan) if knows_no_layout(text, file) else plan_flags(plan)
    return apply_flags(text, file, plan, {**cut, **recompute_flags(plan)})


TARGET = Target(
    name="megatron",
    title="Megatron-LM",
    versions=(BY_LAYERS, BY_LAYOUT),
    unchecked_versions=(BY_LAYERS,),
    checked_with="megatron-core 0.16.1, 0.19.0",
    degrees_checked_with="megatron-core 0.16.1",
    page="megatron",
    abilities=_abilities,
    write=_write,
    degree_rules=lambda version: megatron_rules(),
    write_degrees=_write_degrees,
    told_version=lambda text, file: BY_LAYERS if knows_no_layout(text, file) else None,
    read=read_run,
    read_degrees=stated_in_run,
    recognise=lambda text, file: (
        is_run(text, file) and not is_mindspeed_script(text, file) and not is_megatron_deepspeed(text, file)
    ),
    apply=_apply,
    logs=(MEGATRON,),
)
