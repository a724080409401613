"""ms-swift, whose ``megatron sft`` and its like take the settings of Megatron-LM as arguments with underscores."""

import re
from dataclasses import replace

from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.megatron_family.arguments import KNOWN, OF_DEGREES, Arguments, decoded
from evenflow.targets.megatron_family.baseline import baseline
from evenflow.targets.megatron_family.degrees.degree_rules import megatron_rules
from evenflow.targets.megatron_family.degrees.degree_settings import (
    batch_settings,
    degree_settings,
    setting_notes,
    shares_optimizer,
    without_layout,
)
from evenflow.targets.megatron_family.degrees.stated import stated_degrees
from evenflow.targets.megatron_family.edit import apply_flags
from evenflow.targets.megatron_family.flags import WAYS_WITH_SETS, megatron_abilities, shell_array
from evenflow.targets.megatron_family.settings import (
    FROZEN_PARTS,
    Setting,
    pipeline_settings,
    recompute_settings,
    settings_notes,
)
from evenflow.targets.megatron_family.shell_arguments import flags_of, shell_arguments, training_words
from evenflow.targets.megatron_family.shell_script import parse_script
from evenflow.targets.megatron_family.shell_values import Text, run_through
from evenflow.targets.stated_degrees import StatedDegrees
from evenflow.targets.target import Baseline, GivenSizes, Piece, Target, Written

_DEFAULTS = {"micro_batch_size": 1, "global_batch_size": 16, "recompute_granularity": "selective"}
_COMMAND = re.compile(r"\bmegatron\s+(?:pt|sft|rlhf)\b")


def _write(plan: Plan, version: str) -> Written:
    settings = {**pipeline_settings(plan), **recompute_settings(plan)}
    return Written(pieces=(_piece("PIPELINE_ARGS", settings),), notes=settings_notes(plan))


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    settings = {
        **without_layout(pipeline_settings(plan), plan),
        **recompute_settings(plan),
        **degree_settings(planned),
        **batch_settings(planned),
        "max_length": planned.sequence,
        "use_distributed_optimizer": shares_optimizer(planned, TARGET.title),
    }
    return Written(
        pieces=(_piece("PARALLEL_ARGS", settings),), notes=(*settings_notes(plan)[1:], *setting_notes(planned))
    )


def _piece(name: str, settings: dict[str, Setting]) -> Piece:
    return Piece(
        title=_("arguments of megatron sft: add {array} to its command", array=f'"${{{name}[@]}}"'),
        syntax="shell",
        text=shell_array(name, _flags(settings)),
    )


def _flags(settings: dict[str, Setting]) -> dict[str, tuple[str, ...]]:
    """Return settings as flags. Without a word of it, ms-swift recomputes selectively."""
    settings["recompute_granularity"] = settings["recompute_granularity"] or "none"
    return {
        f"--{key}": tuple(value) if isinstance(value, list) else (_word(value),)
        for key, value in settings.items()
        if value is not None
    }


def _word(value: float | str) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _apply(text: str, file: str, plan: Plan) -> str:
    arguments = _arguments(text, file, KNOWN)
    values = {**_DEFAULTS, **arguments.values}
    flags = _flags({**pipeline_settings(plan), **recompute_settings(plan)})
    chunks = "--virtual_pipeline_model_parallel_size"  # which the layout says
    return apply_flags(text, file, plan, flags, arguments=replace(arguments, values=values), decided=(chunks,))


def _read(text: str, file: str, sizes: GivenSizes) -> Baseline:
    arguments = _arguments(text, file, KNOWN)
    values = dict(arguments.values)
    notes = []
    for key, default in _DEFAULTS.items():
        if key not in values:
            values[key] = default
            notes.append(_("{key} is {value} where nothing is said of it", key=key, value=default))
    if values["recompute_granularity"] == "none":
        del values["recompute_granularity"]
    found = baseline(replace(arguments, values=values), sizes)
    return replace(found, notes=(*notes, *found.notes))


def _stated(text: str, file: str) -> StatedDegrees:
    arguments = _arguments(text, file, OF_DEGREES)
    values = {**_DEFAULTS, "use_distributed_optimizer": True, **arguments.values}
    return stated_degrees(replace(arguments, values=values))


def _arguments(text: str, file: str, known: frozenset[str]) -> Arguments:
    """Return the arguments of a script, with the devices in its variables."""
    arguments = shell_arguments(text, file=file, known=known)
    values = {**_devices(text, file), **arguments.values}
    for flag in flags_of(training_words(text, file=file)):
        # A switch has its value behind it; Megatron's own has none.
        if values.get(flag.key) is True and flag.texts in (["false"], ["False"]):
            values[flag.key] = False
        if flag.key == "max_length" and "seq_length" in known and flag.texts:
            values["seq_length"] = decoded("seq_length", flag.texts)
    return replace(arguments, values=values)


def _devices(text: str, file: str) -> dict[str, object]:
    """Return the devices in the variables of a script, from which ms-swift takes them."""
    _commands, variables = run_through(parse_script(text, file=file), text, file=file)
    found: dict[str, object] = {}
    for name in ("NNODES", "NPROC_PER_NODE"):
        value = variables.get(name)
        if value is not None:
            is_known = isinstance(value, Text) and value.is_known and re.fullmatch("[0-9]{1,9}", value.text)
            found[name.lower()] = int(value.text) if isinstance(value, Text) and is_known else None
    return found if None not in found.values() else {}


TARGET = Target(
    name="ms-swift",
    title="ms-swift",
    versions=("4.0",),
    checked_with="",
    page="ms-swift",
    abilities=lambda version: megatron_abilities(WAYS_WITH_SETS),
    frozen_parts=FROZEN_PARTS,
    adapter_setting="tuner_type: lora, lora_rank: {rank}",
    write=_write,
    write_degrees=_write_degrees,
    degree_rules=lambda version: megatron_rules(has_fsdp=False),
    read=_read,
    read_degrees=_stated,
    recognise=lambda text, file: bool(_COMMAND.search(text)) and "--pipeline_model_parallel" in text,
    apply=_apply,
)
