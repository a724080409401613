"""ms-swift, whose ``megatron sft`` and its like take the settings of Megatron-LM as arguments with underscores."""

from evenflow.language import _
from evenflow.model import Plan
from evenflow.targets.megatron.flags import STOCK_WAYS, megatron_abilities, shell_array
from evenflow.targets.megatron.settings import pipeline_settings, recompute_settings, settings_notes
from evenflow.targets.target import Piece, Target, Written


def _write(plan: Plan, version: str) -> Written:
    settings = {**pipeline_settings(plan), **recompute_settings(plan)}
    # Without a word of it, ms-swift recomputes selectively.
    settings["recompute_granularity"] = settings["recompute_granularity"] or "none"
    arguments = {
        f"--{name}": tuple(value) if isinstance(value, list) else (str(value),)
        for name, value in settings.items()
        if value is not None
    }
    piece = Piece(
        title=_("arguments of megatron sft: add {array} to its command", array='"${PIPELINE_ARGS[@]}"'),
        syntax="shell",
        text=shell_array("PIPELINE_ARGS", arguments),
    )
    return Written(pieces=(piece,), notes=settings_notes(plan))


TARGET = Target(
    name="ms-swift",
    title="ms-swift",
    versions=("4.0",),
    checked_with="",
    page="ms-swift",
    abilities=lambda version: megatron_abilities(STOCK_WAYS),
    write=_write,
)
