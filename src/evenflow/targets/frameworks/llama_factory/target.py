"""LLaMA-Factory on Megatron-LM, by mcore_adapter: arguments at the top of its training YAML, with USE_MCA=1."""

import re
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.profiles.yaml_text import block_text
from evenflow.targets.megatron_family.degrees.degree_rules import megatron_rules
from evenflow.targets.megatron_family.degrees.degree_settings import setting_notes
from evenflow.targets.megatron_family.flags import WAYS_WITH_SETS, megatron_abilities
from evenflow.targets.megatron_family.mcore_adapter import (
    adapter_batch,
    adapter_degrees,
    adapter_notes,
    adapter_settings,
    apply_adapter,
    read_adapter,
    stated_in_adapter,
)
from evenflow.targets.megatron_family.settings import FROZEN_PARTS
from evenflow.targets.megatron_family.yaml_settings import section_of
from evenflow.targets.own_keys import check_own_keys
from evenflow.targets.stated_degrees import StatedDegrees
from evenflow.targets.target import Baseline, GivenSizes, Piece, Target, Written

_ENVIRONMENT = {"USE_MCA": "1"}
_IS_OURS = re.compile(r"^(?:finetuning_type|cutoff_len)[ ]*:", re.MULTILINE)
_HAS_SIZES = re.compile(r"^(?:virtual_)?pipeline_model_parallel_\w+[ ]*:", re.MULTILINE)
_OF_BRIDGE = ("extra_config", "use_packed_sequences", "mixed_precision", "export_hf_on_finish")
"""Arguments of its other way to Megatron-LM, Megatron-Bridge, which takes no layout."""


def _write(plan: Plan, version: str) -> Written:
    return Written(
        pieces=(_piece(adapter_settings(plan)),), environment=_ENVIRONMENT, notes=adapter_notes(plan, has_batch=False)
    )


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    arguments = {
        **adapter_degrees(plan, planned, TARGET.title),
        **adapter_batch(planned),
        "cutoff_len": planned.sequence,
    }
    notes = (*adapter_notes(plan, has_batch=True), *setting_notes(planned))
    return Written(pieces=(_piece(arguments),), environment=_ENVIRONMENT, notes=notes)


def _piece(arguments: dict[str, object]) -> Piece:
    return Piece(title=_("arguments in the training YAML"), syntax="yaml", text=block_text(arguments))


def _read(text: str, file: str, sizes: GivenSizes) -> Baseline:
    arguments = _arguments(text, file)
    return read_adapter(arguments, arguments, sizes)


def _stated(text: str, file: str) -> StatedDegrees:
    arguments = _arguments(text, file)
    sequence = {"seq_length": arguments.values["cutoff_len"]} if "cutoff_len" in arguments else {}
    return stated_in_adapter(replace(arguments, values={**arguments.values, **sequence}), arguments)


def _apply(text: str, file: str, plan: Plan) -> str:
    arguments = _arguments(text, file)
    for key in _OF_BRIDGE:
        if key in arguments:
            raise InputError(
                rule=_("must not be given: Megatron-Bridge in LLaMA-Factory takes no layout, mcore_adapter does"),
                place=arguments.place(key),
            )
    return apply_adapter(text, (), plan, batch=arguments, file=file)


def _arguments(text: str, file: str) -> Fields:
    """Return the arguments of a training YAML; raises InputError for text that is none."""
    arguments = section_of(text, (), file=file)
    own = ("pipeline_model_parallel_size", "tensor_model_parallel_size", "model_name_or_path")
    check_own_keys(arguments, own, title=TARGET.title)
    return arguments


TARGET = Target(
    name="llama-factory",
    title="LLaMA-Factory",
    versions=("0.9.5",),
    checked_with="",
    page="llama-factory",
    abilities=lambda version: megatron_abilities(WAYS_WITH_SETS),
    frozen_parts=FROZEN_PARTS,
    write=_write,
    write_degrees=_write_degrees,
    degree_rules=lambda version: megatron_rules(has_fsdp=False),
    read=_read,
    read_degrees=_stated,
    recognise=lambda text, file: bool(_IS_OURS.search(text) and _HAS_SIZES.search(text)),
    apply=_apply,
)
