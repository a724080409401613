"""Hybrid models of Megatron-LM: a pattern of layers with bars where stages end."""

import shlex
from collections.abc import Mapping
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Abilities, Empty, Mtp, Plan
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.frameworks.megatron_hybrid.reader import read_plan, script_arguments
from evenflow.targets.megatron_family.arguments import flag_name, is_printed
from evenflow.targets.megatron_family.degrees.degree_flags import degree_flags, degree_notes
from evenflow.targets.megatron_family.degrees.degree_rules import megatron_rules
from evenflow.targets.megatron_family.degrees.stated import stated_in_run
from evenflow.targets.megatron_family.edit import apply_flags
from evenflow.targets.megatron_family.flags import (
    CUT_FLAGS,
    LAYOUT_FLAG,
    STOCK_WAYS,
    Flags,
    array_of_lines,
    batch_note,
    group_flags,
    megatron_abilities,
    recompute_flags,
    shell_words,
)
from evenflow.targets.megatron_family.hybrid_pattern import (
    OLD_PATTERN,
    PATTERN,
    WITH_BARS,
    check_layers,
    is_hybrid,
    stage_counts,
)
from evenflow.targets.megatron_family.settings import FROZEN_PARTS
from evenflow.targets.target import Piece, Target, Written


def _abilities(version: str) -> Abilities:
    return replace(
        megatron_abilities(STOCK_WAYS),
        empty=Empty.NONE,
        mtp=Mtp.LAST_STAGE,
        keeps_mtp=False,
        parts_blocks=True,
        whole_layers=False,
    )


def _flags(plan: Plan) -> dict[str, tuple[str, ...]]:
    """Return the flags beside the pattern."""
    flags: dict[str, tuple[str, ...]] = {"--pipeline-model-parallel-size": (str(plan.num_ranks),)}
    return {**flags, **group_flags(plan), **recompute_flags(plan)}


def _piece(name: str, plan: Plan, flags: Flags) -> Piece:
    counts = " ".join(map(str, stage_counts(plan)))
    lines = [f'--hybrid-layer-pattern "$(with_bars "$PATTERN" {counts})"', *shell_words(flags)]
    title = _(
        "flags of pretrain_hybrid.py: set PATTERN to the layers of the model, such as {example}, and add {array}",
        example=shlex.quote("M-M*-"),
        array=f'"${{{name}[@]}}"',
    )
    return Piece(title=title, syntax="shell", text=WITH_BARS + array_of_lines(name, lines))


def _notes(plan: Plan) -> tuple[str, ...]:
    excluded = ", ".join((*CUT_FLAGS, LAYOUT_FLAG))
    return (
        _("the pattern must have {count} symbols, one for each layer of the plan", count=plan.num_layers),
        _("leave out {flags}: the pattern replaces them", flags=excluded),
        batch_note(plan),
    )


def _write(plan: Plan, version: str) -> Written:
    return Written(pieces=(_piece("PIPELINE_ARGS", plan, _flags(plan)),), notes=_notes(plan))


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    flags: Mapping[str, tuple[str, ...]] = {**_flags(plan), **degree_flags(planned)}
    return Written(pieces=(_piece("PARALLEL_ARGS", plan, flags),), notes=(*_notes(plan)[:2], *degree_notes(planned)))


def _apply(text: str, file: str, plan: Plan) -> str:
    if is_printed(text):
        raise InputError(rule=_("must be a script: this is what a run printed"), place=file)
    arguments, pattern, name = script_arguments(text, file)
    check_layers(arguments, pattern, name, plan)
    flags = {flag_name(name): (pattern.with_cut(stage_counts(plan)),), **_flags(plan)}
    other = OLD_PATTERN if name == PATTERN else PATTERN
    decided = (*CUT_FLAGS, flag_name(other))
    return apply_flags(text, file, plan, flags, arguments=arguments, decided=decided)


TARGET = Target(
    name="megatron-hybrid",
    title="Megatron-LM hybrid models",
    versions=("0.17",),
    checked_with="",
    page="megatron-hybrid",
    abilities=_abilities,
    frozen_parts=FROZEN_PARTS,
    write=_write,
    write_degrees=_write_degrees,
    degree_rules=lambda version: megatron_rules(),
    read=read_plan,
    read_degrees=stated_in_run,
    recognise=is_hybrid,
    apply=_apply,
)
