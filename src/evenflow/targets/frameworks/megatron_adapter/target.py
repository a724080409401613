"""Megatron-LM with evenflow's adapter, which recomputes and moves by layer: flags, and two lines of the script."""

from dataclasses import replace

from evenflow.language import _
from evenflow.model import FULL, SELECT, Abilities, Plan, Recomputation, Scope
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.megatron_family.degrees.degree_flags import degree_notes, parallel_flags
from evenflow.targets.megatron_family.degrees.degree_rules import megatron_rules
from evenflow.targets.megatron_family.edit import apply_flags
from evenflow.targets.megatron_family.flags import (
    CUT_FLAGS,
    MOVED_SETS,
    OFFLOAD_FLAGS,
    flags_piece,
    megatron_abilities,
    offload_environment,
    offload_flags,
    plan_flags,
    plan_notes,
)
from evenflow.targets.megatron_family.settings import FROZEN_PARTS
from evenflow.targets.target import Piece, Target, Written

_SNIPPET = """\
from evenflow.adapters.megatron import with_plan

model_provider = with_plan(model_provider, "plan.json")  # then pretrain(..., model_provider, ...)

# in Megatron-Bridge instead:
# from evenflow.adapters.megatron import plan_hook
# provider.register_pre_wrap_hook(plan_hook("plan.json"))
"""


BY_LAYOUT, WITH_OFFLOAD = "0.13", "0.16"
"""Versions of megatron-core; from the last one on modules move to the host."""


def _abilities(version: str) -> Abilities:
    moved = MOVED_SETS if version == WITH_OFFLOAD else ()
    return megatron_abilities((Recomputation(scope=Scope.LAYERS, kinds=(FULL, SELECT, *moved)),))


def _flags(plan: Plan) -> dict[str, tuple[str, ...]]:
    return {**plan_flags(plan), **offload_flags(plan)}


def _write(plan: Plan, version: str) -> Written:
    return Written(
        pieces=(
            flags_piece("PIPELINE_ARGS", _flags(plan)),
            Piece(title=_("lines of the training script; plan.json is the plan file"), syntax="python", text=_SNIPPET),
        ),
        notes=(
            _("leave out {flags}: the layout replaces them", flags=", ".join(CUT_FLAGS)),
            _("leave out all flags of recomputation: the adapter reads the plan file"),
            *plan_notes(plan),
        ),
        environment=offload_environment(plan),
    )


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    flags = flags_piece("PARALLEL_ARGS", {**parallel_flags(plan, planned), **offload_flags(plan)})
    written = _write(plan, version)
    layout, recomputed, _batch, *others = written.notes
    of_pipeline = (layout, recomputed, *others) if plan.num_ranks > 1 else (recomputed,)
    return replace(written, pieces=(flags, *written.pieces[1:]), notes=(*of_pipeline, *degree_notes(planned)))


def _apply(text: str, file: str, plan: Plan) -> str:
    return apply_flags(text, file, plan, _flags(plan), decided=OFFLOAD_FLAGS)


TARGET = Target(
    name="megatron-adapter",
    title="Megatron-LM with evenflow's adapter",
    versions=(BY_LAYOUT, WITH_OFFLOAD),
    checked_with="megatron-core 0.16.1, 0.19.0",
    page="megatron",
    abilities=_abilities,
    frozen_parts=FROZEN_PARTS,
    write=_write,
    write_degrees=_write_degrees,
    degree_rules=lambda version: megatron_rules(),
    apply=_apply,
)
