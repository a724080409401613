"""ROLL on Megatron-LM, by mcore_adapter: the strategy of a worker that trains, in the YAML of a pipeline."""

import re
from collections.abc import Mapping

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
from evenflow.targets.stated_degrees import StatedDegrees
from evenflow.targets.target import Baseline, GivenSizes, Piece, Target, Written

_ACTOR, _STRATEGY = "actor_train", "megatron_train"
_ARGUMENTS, _CONFIG, _BATCH = "strategy_args", "strategy_config", "training_args"
_IS_OURS = re.compile(rf"^[ ]+strategy_name[ ]*:[ ]*['\"]?{_STRATEGY}['\"]?[ ]*(?:#.*)?$", re.MULTILINE)
_CHANGING = ("use_dynamic_batching_in_train", "use_sequence_packing")
"""Switches of a worker with which the number of microbatches changes from step to step."""


def _write(plan: Plan, version: str) -> Written:
    notes = (*adapter_notes(plan, has_batch=False), *_notes())
    return Written(pieces=(_piece(adapter_settings(plan), {}),), notes=notes)


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    tokens = _("sequences have {tokens} tokens", tokens=planned.sequence)
    notes = (*adapter_notes(plan, has_batch=True), tokens, *_notes(), *setting_notes(planned))
    piece = _piece(adapter_degrees(plan, planned, TARGET.title), adapter_batch(planned))
    return Written(pieces=(piece,), notes=notes)


def _piece(config: Mapping[str, object], batch: Mapping[str, object]) -> Piece:
    worker = {
        **({_BATCH: batch} if batch else {}),
        _ARGUMENTS: {"strategy_name": _STRATEGY, _CONFIG: config},
    }
    title = _("strategy of the worker that trains, in the YAML of the pipeline")
    return Piece(title=title, syntax="yaml", text=block_text({_ACTOR: worker}))


def _notes() -> tuple[str, ...]:
    return (_("other workers, such as the reference and the critic, have strategies of their own"),)


def _worker(text: str, file: str) -> str:
    """Return the name of the worker that trains with Megatron-LM: the actor where several do.

    Raises:
        InputError: text that is not YAML, no such worker, or several without an actor.
    """
    top = section_of(text, (), file=file).values
    names = [name for name, worker in top.items() if isinstance(worker, dict) and _trains(worker)]
    if _ACTOR in names:
        return _ACTOR
    if len(names) != 1:
        rule = _("must have one worker with the strategy {name}, or the worker {actor}", name=_STRATEGY, actor=_ACTOR)
        raise InputError(value=", ".join(names) or None, rule=rule, place=file)
    return names[0]


def _trains(worker: Mapping[str, object]) -> bool:
    arguments = worker.get(_ARGUMENTS)
    return isinstance(arguments, dict) and arguments.get("strategy_name") == _STRATEGY


def _config(text: str, file: str) -> Fields:
    return section_of(text, (_worker(text, file), _ARGUMENTS, _CONFIG), file=file)


def _batch(text: str, file: str) -> Fields | None:
    """Return the arguments with the batch; None where the number of microbatches changes."""
    worker = section_of(text, (_worker(text, file),), file=file)
    if any(worker.values.get(key) is True for key in _CHANGING):
        return None
    return section_of(text, (_worker(text, file), _BATCH), file=file)


def _read(text: str, file: str, sizes: GivenSizes) -> Baseline:
    return read_adapter(_config(text, file), _batch(text, file), sizes)


def _stated(text: str, file: str) -> StatedDegrees:
    batch = section_of(text, (_worker(text, file), _BATCH), file=file)
    return stated_in_adapter(_config(text, file), batch)


def _apply(text: str, file: str, plan: Plan) -> str:
    path = (_worker(text, file), _ARGUMENTS, _CONFIG)
    return apply_adapter(text, path, plan, batch=_batch(text, file), file=file)


TARGET = Target(
    name="roll",
    title="ROLL",
    versions=("0.3.0",),
    checked_with="",
    page="roll",
    abilities=lambda version: megatron_abilities(WAYS_WITH_SETS),
    frozen_parts=FROZEN_PARTS,
    write=_write,
    write_degrees=_write_degrees,
    degree_rules=lambda version: megatron_rules(has_fsdp=False),
    read=_read,
    read_degrees=_stated,
    recognise=lambda text, file: bool(_IS_OURS.search(text)),
    apply=_apply,
)
