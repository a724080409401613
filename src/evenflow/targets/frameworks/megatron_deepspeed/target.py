"""Megatron-DeepSpeed: Megatron-LM's training scripts with DeepSpeed's pipeline, which cuts the model by itself."""

from functools import partial

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import FULL, Abilities, Empty, Plan, Recomputation, Scope
from evenflow.targets.frameworks.megatron_deepspeed.reader import (
    BY_LAYERS,
    BY_METHOD,
    planned_cut,
    planned_method,
    read_plan,
    script_arguments,
    told_version,
)
from evenflow.targets.megatron_family.arguments import is_printed
from evenflow.targets.megatron_family.edit import apply_flags
from evenflow.targets.megatron_family.flags import batch_note, flags_piece
from evenflow.targets.megatron_family.forks import is_megatron_deepspeed
from evenflow.targets.target import Target, Written

_OWN_FLAGS = ("--pp-partition-method", "--deepspeed-activation-checkpointing", "--no-pipeline-parallel")


def _abilities(version: str) -> Abilities:
    return Abilities(
        schedules=("1f1b",),
        recomputation=(Recomputation(scope=Scope.MODEL, kinds=(FULL,)),),
        most_chunks=1,
        empty=Empty.ENDS,
        own_cut=partial(planned_cut, version),
    )


def _flags(plan: Plan, version: str) -> dict[str, tuple[str, ...]]:
    flags: dict[str, tuple[str, ...]] = {
        "--num-layers": (str(plan.num_layers),),
        "--pipeline-model-parallel-size": (str(plan.num_ranks),),
    }
    if version == BY_METHOD:
        flags["--pp-partition-method"] = (planned_method(version, plan.num_layers, plan.num_ranks),)
    if plan.used_kinds:
        flags |= {"--checkpoint-activations": (), "--deepspeed-activation-checkpointing": ()}
    return flags


def _write(plan: Plan, version: str) -> Written:
    notes = [
        _("leave out --no-pipeline-parallel, --checkpoint-num-layers and --recompute-granularity"),
        batch_note(plan),
        _("train_batch_size and train_micro_batch_size_per_gpu of the DeepSpeed configuration must say the same"),
    ]
    return Written(pieces=(flags_piece("PIPELINE_ARGS", _flags(plan, version)),), notes=tuple(notes))


def _apply(text: str, file: str, plan: Plan) -> str:
    if is_printed(text):
        raise InputError(rule=_("must be a script: this is what a run printed"), place=file)
    version = told_version(text, file) or BY_LAYERS
    return apply_flags(
        text, file, plan, _flags(plan, version), arguments=script_arguments(text, file), decided=_OWN_FLAGS
    )


TARGET = Target(
    name="megatron-deepspeed",
    title="Megatron-DeepSpeed",
    versions=(BY_METHOD, BY_LAYERS),
    checked_with="",
    page="megatron-deepspeed",
    abilities=_abilities,
    write=_write,
    read=read_plan,
    recognise=is_megatron_deepspeed,
    told_version=told_version,
    apply=_apply,
)
