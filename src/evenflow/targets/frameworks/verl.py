"""verl on Megatron-LM: overrides of its Hydra configuration, which hand the settings on."""

from evenflow.language import _
from evenflow.model import Plan
from evenflow.targets.megatron.flags import STOCK_WAYS, megatron_abilities
from evenflow.targets.megatron.settings import (
    Setting,
    override_array,
    pipeline_settings,
    recompute_settings,
    settings_notes,
)
from evenflow.targets.target import Piece, Target, Written

_MEGATRON = "actor_rollout_ref.actor.megatron"
_CONFIG = f"++{_MEGATRON}.override_transformer_config"
"""Two plus signs set a key whether or not it is there already."""


def _write(plan: Plan, version: str) -> Written:
    settings = {**pipeline_settings(plan), **recompute_settings(plan)}
    own: dict[str, Setting] = {
        "pipeline_model_parallel_size": settings.pop("pipeline_model_parallel_size"),
        "virtual_pipeline_model_parallel_size": plan.num_chunks if plan.num_chunks > 1 else None,
    }
    overrides = [
        *((f"{_MEGATRON}.{name}", value) for name, value in own.items()),
        *((f"{_CONFIG}.{name}", value) for name, value in settings.items()),
    ]
    piece = Piece(
        title=_("overrides of verl.trainer.main_ppo: add {array} to its command", array='"${PIPELINE_ARGS[@]}"'),
        syntax="shell",
        text=override_array(overrides),
    )
    notes = (
        _("the reference model takes over the layout; a critic on Megatron-LM has one of its own"),
        _("with use_dynamic_bsz the number of microbatches changes from step to step; the plan is for one number"),
    )
    return Written(pieces=(piece,), notes=(*settings_notes(plan), *notes))


TARGET = Target(
    name="verl",
    title="verl",
    versions=("0.9",),
    checked_with="",
    page="verl",
    abilities=lambda version: megatron_abilities(STOCK_WAYS),
    write=_write,
)
