"""A plan in the arguments of mcore_adapter, on which LLaMA-Factory and ROLL train with Megatron-LM.

The names are those of Megatron's configuration. Modules are one text with commas; what has no name of its own goes into
`additional_configs`; full recomputation without a method is that of all layers; a step has
`gradient_accumulation_steps` microbatches. [mcore_adapter, `DistributingParallelArguments`, `McaModelConfig`]
"""

from collections.abc import Sequence
from dataclasses import replace

from evenflow.export.train_yaml import BOM, apply_to_training_yaml
from evenflow.export.yaml_edit import without_entry
from evenflow.fields import Fields
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.ranges import MICROBATCHES as COUNTS
from evenflow.ranges import SEQUENCES
from evenflow.targets.megatron_family.arguments import KNOWN, OF_DEGREES, Arguments, arguments_of
from evenflow.targets.megatron_family.baseline import GROUP, LAYOUT, baseline, mtp_layers
from evenflow.targets.megatron_family.degrees.degree_settings import degree_settings, shares_optimizer
from evenflow.targets.megatron_family.degrees.stated import stated_degrees
from evenflow.targets.megatron_family.edit import check_same_run, plain_layout
from evenflow.targets.megatron_family.even_cuts import CHUNK_COUNT
from evenflow.targets.megatron_family.settings import (
    GRANULARITY,
    MODULES,
    WITHOUT_LAYOUT,
    kept_modules,
    module_names,
    pipeline_settings,
    recompute_settings,
    settings_notes,
)
from evenflow.targets.megatron_family.yaml_settings import section_of
from evenflow.targets.stated_degrees import StatedDegrees
from evenflow.targets.target import Baseline, GivenSizes

OTHERS = "additional_configs"
MICROBATCH, MICROBATCHES = "per_device_train_batch_size", "gradient_accumulation_steps"
_METHOD, _NUMBER = "recompute_method", "recompute_num_layers"
_DECIDED = (LAYOUT, CHUNK_COUNT, GRANULARITY, _METHOD, _NUMBER, MODULES, *WITHOUT_LAYOUT)
_IN_OTHERS = (GROUP, "num_layers_in_first_pipeline_stage", "num_layers_in_last_pipeline_stage")


def adapter_settings(plan: Plan, *, mtp: int = 0) -> dict[str, object]:
    """Return the arguments of `plan` with `mtp` layers of multi-token prediction; what would be null is left out."""
    settings: dict[str, object] = {**pipeline_settings(plan, mtp_layers=mtp), **recompute_settings(plan)}
    group = settings.pop(GROUP)
    if plan.num_chunks > 1:  # which ROLL takes from here
        settings[CHUNK_COUNT] = plan.num_chunks
    if MODULES in settings:
        settings[MODULES] = ",".join(module_names(settings[MODULES]))
    if group is not None:
        settings[OTHERS] = {GROUP: group}
    return {key: value for key, value in settings.items() if value is not None}


def adapter_degrees(plan: Plan, planned: PlannedDegrees, title: str) -> dict[str, object]:
    """Return the arguments of `plan` with what stages of several devices do.

    Raises:
        InputError: gradients or parameters are shared out, for which the framework `title` has no argument.
    """
    own = adapter_settings(plan)
    degrees: dict[str, object] = {**degree_settings(planned)}
    others = own.pop(OTHERS, {})
    if "cp_comm_type" in degrees:
        assert isinstance(others, dict)
        others = {**others, "cp_comm_type": degrees.pop("cp_comm_type")}
    if plan.num_ranks == 1:
        own.pop(LAYOUT)
    shared = {"use_distributed_optimizer": shares_optimizer(planned, title)}
    return {**own, **degrees, **shared, **({OTHERS: others} if others else {})}


def adapter_batch(planned: PlannedDegrees) -> dict[str, object]:
    """Return the sequences of a microbatch, and how many of them a step of one copy of the model has."""
    return {MICROBATCH: planned.microbatch, MICROBATCHES: planned.num_microbatches}


def adapter_notes(plan: Plan, *, has_batch: bool) -> tuple[str, ...]:
    """Return what has no argument of its own, or is easily wrong beside the arguments; `has_batch` says that the batch
    is written too.
    """
    steps = _("{key} must be {count}: a step has as many microbatches", key=MICROBATCHES, count=plan.num_microbatches)
    excluded = _("leave out {fields}: the layout replaces them", fields=", ".join(WITHOUT_LAYOUT))
    return (*(() if has_batch else (steps,)), excluded, *settings_notes(plan)[1:])


def read_adapter(section: Fields, batch: Fields | None, sizes: GivenSizes) -> Baseline:
    """Return the plan that arguments ask for; `batch` has the size of a microbatch, None where sizes change.

    Raises:
        InputError: as `baseline` does.
    """
    found = baseline(_arguments(section, batch), sizes)
    silent = batch is not None and MICROBATCHES not in batch
    notes = (_("{key} is {value} where nothing is said of it", key=MICROBATCHES, value=1),) if silent else ()
    unknown = (section.place(OTHERS),) if isinstance(section.values.get(OTHERS), str) else ()
    return replace(found, unknown=(*found.unknown, *unknown), notes=(*notes, *found.notes))


def stated_in_adapter(section: Fields, batch: Fields) -> StatedDegrees:
    """Return the degrees in arguments; raises InputError as `stated_degrees` does."""
    arguments = _arguments(section, batch, known=OF_DEGREES)
    absent = {"global_batch_size", "data_parallel_size", *(() if MICROBATCH in batch else ("micro_batch_size",))}
    values = {key: value for key, value in arguments.values.items() if key not in absent}
    stated = stated_degrees(replace(arguments, values=values))
    whole = arguments.values["global_batch_size"]
    return replace(stated, rank_batch=whole if isinstance(whole, int) and MICROBATCH in batch else None)


def apply_adapter(text: str, path: Sequence[str], plan: Plan, *, batch: Fields | None, file: str) -> str:
    """Return the text of a YAML with the plan in the section under `path`, otherwise byte for byte the same.

    Recomputation of modules that no plan knows stays where it can.

    Raises:
        InputError: another network or number of microbatches than the plan's, or a value that cannot be set or taken
            out without changing something else.
    """
    bom = BOM if text.startswith(BOM) else ""
    text = text.removeprefix(BOM)
    section = section_of(text, path, file=file)
    arguments = _arguments(section, batch)
    check_same_run(arguments, plan)
    settings = adapter_settings(plan, mtp=mtp_layers(arguments))
    old = section.values
    if isinstance(old.get(LAYOUT), str) and plain_layout(str(old[LAYOUT])) == plain_layout(str(settings[LAYOUT])):
        settings[LAYOUT] = old[LAYOUT]
    kept: dict[str, object] = {**kept_modules(settings, old)}
    if MODULES in kept:
        modules = module_names(kept[MODULES])
        kept[MODULES] = old[MODULES] if modules == module_names(old.get(MODULES)) else ",".join(modules)
    settings |= kept
    others = settings.pop(OTHERS, {})
    assert isinstance(others, dict)
    values = {".".join((*path, key)): value for key, value in settings.items()}
    values |= {".".join((*path, OTHERS, key)): value for key, value in others.items()}
    after = apply_to_training_yaml(text, file=file, values=values)
    for key in _DECIDED:
        if key in old and key not in settings and old[key] not in (None, False):
            after = without_entry(after, (*path, key), file=file)
    inside = old.get(OTHERS)
    for key in _IN_OTHERS:
        if isinstance(inside, dict) and key in inside and key not in others:
            after = without_entry(after, (*path, OTHERS, key), file=file)
    return bom + after


def _arguments(section: Fields, batch: Fields | None, *, known: frozenset[str] = KNOWN) -> Arguments:
    """Return arguments by Megatron's names, with the batch of one copy of the model."""
    values = dict(section.values)
    others = values.pop(OTHERS, None)
    values |= others if isinstance(others, dict) else {}
    if isinstance(values.get(MODULES), str):
        values[MODULES] = module_names(values[MODULES])
    if values.get(GRANULARITY) == "full" and values.get(_METHOD) is None and values.get(_NUMBER) is None:
        values |= {_METHOD: "uniform", _NUMBER: 1}
    lines = dict(section.lines)
    if batch is not None:
        values |= _batch(batch)
        lines |= {"global_batch_size": batch.lines[MICROBATCHES]} if MICROBATCHES in batch.lines else {}
    return arguments_of(values, file=section.file, lines=lines, known=known)


def _batch(batch: Fields) -> dict[str, object]:
    """Return the batch in Megatron's words, as if there were one copy of the model; raises InputError for no sizes."""
    micro = batch.integer(MICROBATCH, SEQUENCES) if MICROBATCH in batch else 1
    count = batch.integer(MICROBATCHES, COUNTS) if MICROBATCHES in batch else 1
    return {"micro_batch_size": micro, "global_batch_size": micro * count, "data_parallel_size": 1}
