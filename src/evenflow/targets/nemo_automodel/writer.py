"""A plan as a fragment of a recipe of NeMo AutoModel, and its order of work as a file."""

import json

from evenflow.language import _
from evenflow.model import Plan
from evenflow.schedule import Schedule
from evenflow.targets.stages import stages_of
from evenflow.targets.target import Piece, Written
from evenflow.targets.torch.module_names import ModuleNames, names_per_part
from evenflow.targets.torch.order_csv import FILE_NAME, csv_order, is_v_shaped, order_piece, split_note

TITLE = "NeMo AutoModel"
NAMES = ModuleNames(
    first=("model.embed_tokens",),
    last=("model.norm", "lm_head"),
    layers="model.layers.",
    everywhere=("model.rotary_emb",),
)
"""The modules of a causal language model of transformers."""


def write(plan: Plan, version: str) -> Written:
    """Return `plan` for NeMo AutoModel; raises InputError for an order that it cannot place or load."""
    schedule = csv_order(plan)
    # The file replaces the order; what is left of the name is where it puts the stages.
    name = _looped_name(schedule) if not is_v_shaped(schedule, title=TITLE) else "zbvzerobubble"
    parts = names_per_part(stages_of(plan, schedule.stage_ranks), NAMES)
    is_recomputed = bool(plan.used_kinds)
    lines = [
        "step_scheduler:",
        f"  local_batch_size: {plan.num_microbatches}",
        "distributed:",
        f"  pp_size: {plan.num_ranks}",
        f"  activation_checkpointing: {'true' if is_recomputed else 'false'}",
        "  pipeline:",
        f"    pp_schedule: {name}",
        f"    pp_schedule_csv: {FILE_NAME}",
        "    pp_microbatch_size: 1",
        "    layers_per_stage: null",
        "    module_fqns_per_model_part:",
        *(f"      - {json.dumps(part)}" for part in parts),
    ]
    notes = [
        _("{file} is looked for from the folder in which the training starts", file=FILE_NAME),
        _(
            "a step has local_batch_size / pp_microbatch_size = {count} microbatches; with larger microbatches, "
            "multiply both",
            count=plan.num_microbatches,
        ),
        _(
            "the modules are named as in Llama and most models of transformers; where yours has other names, such as "
            "model.language_model.layers, change them"
        ),
    ]
    if is_recomputed:
        notes.append(
            _(
                "whole layers are recomputed in models whose layers come from transformers, without compilation; in "
                "others attention, MLP and norms are, each with its input kept"
            )
        )
    piece = Piece(title=_("sections of your recipe"), syntax="yaml", text="\n".join(lines) + "\n")
    return Written(pieces=(piece, order_piece(schedule)), notes=(*notes, *split_note(schedule)))


def _looped_name(schedule: Schedule) -> str:
    return "1f1b" if schedule.num_chunks == 1 else "interleaved1f1b"
