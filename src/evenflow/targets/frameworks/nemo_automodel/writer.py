"""A plan as a fragment of a recipe of NeMo AutoModel, and its order of work as a file."""

import json
from collections.abc import Mapping

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Plan
from evenflow.predict.training import Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.profiles.yaml_text import block_text, entry_lines
from evenflow.targets.degree_rules import check_no_capacity, check_shares_gradients
from evenflow.targets.stages import stages_of
from evenflow.targets.target import Piece, Written
from evenflow.targets.torch.module_names import ModuleNames, names_per_part
from evenflow.targets.torch.order_csv import FILE_NAME, csv_order, is_v_shaped, order_piece, runtime_notes

TITLE = "NeMo AutoModel"
MICROBATCH, PARTS = "pp_microbatch_size", "module_fqns_per_model_part"
NAMES = ModuleNames(
    first=("model.embed_tokens",),
    last=("model.norm", "lm_head"),
    layers="model.layers.",
    everywhere=("model.rotary_emb",),
)
"""The modules of a causal language model of transformers."""


def write(plan: Plan, version: str) -> Written:
    """Return `plan` for NeMo AutoModel; raises InputError for an order that it cannot place or load."""
    batch = _(
        "a step has local_batch_size / pp_microbatch_size = {count} microbatches; with larger microbatches, "
        "multiply both",
        count=plan.num_microbatches,
    )
    return _written(plan, scheduler={"local_batch_size": plan.num_microbatches}, degrees={}, microbatch=1, note=batch)


def write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    """Return the same with all degrees; raises InputError for what its strategies do not share out."""
    check_no_capacity(planned, title=TITLE)
    check_shares_gradients(planned, title=TITLE)
    degrees = planned.degrees
    scheduler = {
        "local_batch_size": planned.microbatch * (planned.num_microbatches if plan.num_ranks > 1 else 1),
        "global_batch_size": planned.global_batch,
    }
    note = _(
        "start it on {devices} devices, node after node; sequences have {tokens} tokens",
        devices=degrees.devices,
        tokens=planned.sequence,
    )
    return _written(plan, scheduler=scheduler, degrees=_degrees(planned), microbatch=planned.microbatch, note=note)


def _degrees(planned: PlannedDegrees) -> dict[str, object]:
    """Return the keys of the section `distributed`. Copies of the whole state are DDP's, which has nothing else."""
    degrees = planned.degrees
    if degrees.sharding is Sharding.NOTHING and degrees.data > 1:
        if degrees.data != degrees.devices:
            rule = _("must be ZeRO-2 or FSDP beside any other way to split for {title}", title=TITLE)
            raise InputError(value=_("data parallelism"), rule=rule, place=_("the plan"))
        return {"strategy": "ddp"}
    return {
        "strategy": "fsdp2",
        "dp_replicate_size": planned.replicas,
        "tp_size": degrees.tensor,
        "cp_size": degrees.context,
        "ep_size": degrees.expert,
        "sequence_parallel": degrees.sequence_parallel and degrees.tensor > 1,
        "reshard_after_forward": degrees.sharding is Sharding.PARAMETERS,
    }


def _written(
    plan: Plan,
    *,
    scheduler: Mapping[str, object],
    degrees: Mapping[str, object],
    microbatch: int,
    note: str,
) -> Written:
    is_recomputed = bool(plan.used_kinds)
    of_all = {**degrees, "activation_checkpointing": is_recomputed}
    if plan.num_ranks == 1:
        text = block_text({"step_scheduler": scheduler, "distributed": of_all})
        return Written(pieces=(_piece(text),), notes=(note, *_recompute_notes(plan)))
    schedule = csv_order(plan)
    settings = pipeline_settings(plan, NAMES)
    lines = [
        *entry_lines("step_scheduler", scheduler),
        *entry_lines("distributed", {"pp_size": plan.num_ranks, **of_all}),
        "  pipeline:",
        f"    pp_schedule: {settings['pp_schedule']}",
        f"    pp_schedule_csv: {FILE_NAME}",
        f"    {MICROBATCH}: {microbatch}",
        "    layers_per_stage: null",
        f"    {PARTS}:",
        *(f"      - {json.dumps(part)}" for part in names_per_part(stages_of(plan, schedule.stage_ranks), NAMES)),
    ]
    notes = (
        _("{file} is looked for from the folder in which the training starts", file=FILE_NAME),
        note,
        _(
            "the modules are named as in Llama and most models of transformers; where yours has other names, such as "
            "model.language_model.layers, change them"
        ),
        *_recompute_notes(plan),
        *runtime_notes(schedule),
    )
    return Written(pieces=(_piece("\n".join(lines) + "\n"), order_piece(schedule)), notes=notes)


def pipeline_settings(plan: Plan, names: ModuleNames) -> dict[str, object]:
    """Return the keys of the section `pipeline`, without the size of a microbatch, for modules with these names.

    The file replaces the order; what is left of the name of the schedule is where it puts the stages.

    Raises:
        InputError: an order that NeMo AutoModel cannot place or load.
    """
    schedule = csv_order(plan)
    looped = "1f1b" if schedule.num_chunks == 1 else "interleaved1f1b"
    return {
        "pp_schedule": "zbvzerobubble" if is_v_shaped(schedule, title=TITLE) else looped,
        "pp_schedule_csv": FILE_NAME,
        "layers_per_stage": None,
        PARTS: names_per_part(stages_of(plan, schedule.stage_ranks), names),
    }


def _piece(text: str) -> Piece:
    return Piece(title=_("sections of your recipe"), syntax="yaml", text=text)


def _recompute_notes(plan: Plan) -> tuple[str, ...]:
    if not plan.used_kinds:
        return ()
    return (
        _(
            "whole layers are recomputed in models whose layers come from transformers, without compilation; in "
            "others attention, MLP and norms are, each with its input kept"
        ),
    )
