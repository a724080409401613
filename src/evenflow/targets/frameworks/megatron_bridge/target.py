"""Megatron-Bridge: fields of `model` in its configuration, as YAML and as overrides of a command.

Recipes set these fields too, so everything that a plan decides is written, also what is null.
"""

from collections.abc import Mapping
from dataclasses import replace

from evenflow.export.train_yaml import apply_to_training_yaml
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.profiles.yaml_text import block_text
from evenflow.targets.megatron_family.arguments import arguments_of
from evenflow.targets.megatron_family.baseline import baseline, mtp_layers
from evenflow.targets.megatron_family.bridge_files import (
    OVERLAP,
    TITLE,
    bridge_overrides,
    bridge_section,
    dataset_note,
    degree_sections,
    has_overrides,
    is_bridge,
    model_path,
    run_arguments,
    section_overrides,
    stated_in_bridge,
)
from evenflow.targets.megatron_family.degrees.degree_rules import megatron_rules
from evenflow.targets.megatron_family.degrees.degree_settings import check_pairs, setting_notes, without_layout
from evenflow.targets.megatron_family.edit import check_same_run
from evenflow.targets.megatron_family.flags import PAIRED, megatron_abilities, offload_environment, ways_with_moves
from evenflow.targets.megatron_family.hybrid_pattern import has_pattern
from evenflow.targets.megatron_family.logs import MEGATRON_BRIDGE
from evenflow.targets.megatron_family.override_edit import apply_overrides
from evenflow.targets.megatron_family.settings import (
    FROZEN_PARTS,
    OFFLOADS,
    PAIRS,
    RELEASES,
    WITHOUT_LAYOUT,
    Setting,
    kept_modules,
    offload_corrections,
    override_array,
    pair_corrections,
    pair_settings,
    pipeline_settings,
    recompute_settings,
    settings_notes,
)
from evenflow.targets.megatron_family.yaml_settings import apply_settings, mtp_layers_in, section_of
from evenflow.targets.target import Baseline, GivenSizes, Piece, Target, Written

_ARRAY = '"${PIPELINE_ARGS[@]}"'
_PAIRS_NAME = f"{OVERLAP}.{PAIRS}"


def _fields(plan: Plan, *, mtp_layers: int = 0) -> dict[str, Setting]:
    return {
        **pipeline_settings(plan, mtp_layers=mtp_layers),
        "virtual_pipeline_model_parallel_size": plan.num_chunks if plan.num_chunks > 1 else None,
        **recompute_settings(plan),
    }


def _write(plan: Plan, version: str) -> Written:
    pieces = _pieces(_with_pairs({"model": _fields(plan)}, plan), title=_("fields of the YAML of overrides"))
    return Written(
        pieces=pieces,
        environment=offload_environment(plan),
        notes=(_excluded(), *settings_notes(plan), *_without_pairs(plan)),
    )


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    check_pairs(plan, planned)
    sections = _with_pairs(degree_sections(without_layout(_fields(plan), plan), planned), plan)
    of_pipeline = (_excluded(), *settings_notes(plan)[1:]) if plan.num_ranks > 1 else ()
    return Written(
        pieces=_pieces(sections, title=_("sections of the YAML of overrides")),
        environment=offload_environment(plan),
        notes=(*of_pipeline, *_without_pairs(plan), *setting_notes(planned), dataset_note(planned)),
    )


def _with_pairs(sections: Mapping[str, Mapping[str, Setting]], plan: Plan) -> Mapping[str, Mapping[str, Setting]]:
    """Return the sections of a plan with that of what runs beside what, where forwards do: a recipe may have none."""
    pairs = pair_settings(plan)
    return {**sections, OVERLAP: pairs} if pairs else sections


def _without_pairs(plan: Plan) -> tuple[str, ...]:
    """Return what to do about recipes that run forwards beside backwards, where the plan does not and they could."""
    if plan.schedule in PAIRED or (plan.num_chunks == 1 and plan.num_ranks > 1):
        return ()
    return (_("with a recipe that sets {name}, set it to false", name=_PAIRS_NAME),)


def _pieces(sections: Mapping[str, Mapping[str, Setting]], *, title: str) -> tuple[Piece, Piece]:
    return (
        Piece(title=title, syntax="yaml", text=block_text(sections)),
        Piece(
            title=_("the same as overrides of the training script: add {array} to its command", array=_ARRAY),
            syntax="shell",
            text=override_array(section_overrides(sections)),
        ),
    )


def _excluded() -> str:
    return _("leave out {fields}: the layout replaces them", fields=", ".join(WITHOUT_LAYOUT))


def _read(text: str, file: str, given_sizes: GivenSizes) -> Baseline:
    found = baseline(run_arguments(text, file), given_sizes, in_pairs=PAIRS)
    model = bridge_section(text, "model", file)
    silent = [key for key in dict.fromkeys((*_fields(found.plan), OFFLOADS)) if key not in model]
    silent += [] if PAIRS in bridge_section(text, OVERLAP, file) else [_PAIRS_NAME]
    if not silent:
        return found
    note = _("{fields} are those of the recipe, which the file does not tell", fields=", ".join(silent))
    return replace(found, notes=(*found.notes, note))


def _apply(text: str, file: str, plan: Plan) -> str:
    if has_overrides(text):
        return _apply_to_overrides(text, file, plan)
    path = model_path(text, file)
    settings = _fields(plan, mtp_layers=mtp_layers_in(section_of(text, path, file=file)))
    after = apply_settings(text, path, settings=settings, instead=_corrections(plan), plan=plan, file=file)
    overlap = _changed_pairs(plan, bridge_section(text, OVERLAP, file).values)
    section = ".".join((*path[:-1], OVERLAP))
    values = {f"{section}.{key}": value for key, value in overlap.items()}
    return apply_to_training_yaml(after, file=file, values=values)


def _apply_to_overrides(text: str, file: str, plan: Plan) -> str:
    told = bridge_overrides(text, file)
    names = ("micro_batch_size", "global_batch_size")
    batch = {name: told[f"train.{name}"] for name in names if told.get("train.global_batch_size") is not None}
    old = bridge_section(text, "model", file).values
    arguments = arguments_of({**old, **batch}, file=file)
    check_same_run(arguments, plan)
    settings = _fields(plan, mtp_layers=mtp_layers(arguments))
    settings |= kept_modules(settings, old)
    settings |= {name: value for name, value in _corrections(plan).items() if f"model.{name}" in told}
    named = {f"model.{name}": value for name, value in settings.items()}
    overlap = _changed_pairs(plan, bridge_section(text, OVERLAP, file).values)
    named |= {f"{OVERLAP}.{name}": value for name, value in overlap.items()}
    return apply_overrides(text, file, anchor="model.pipeline_model_parallel_size", settings=named)


def _changed_pairs(plan: Plan, old: Mapping[str, object]) -> dict[str, Setting]:
    """Return what a plan changes of a section of what runs beside what."""
    wanted = {**pair_settings(plan), **pair_corrections(plan)}
    return {key: value for key, value in wanted.items() if bool(old.get(key)) != value}


def _corrections(plan: Plan) -> dict[str, Setting]:
    """Return what must be so wherever a file has it."""
    return {**WITHOUT_LAYOUT, **offload_corrections(plan), RELEASES: False}


TARGET = Target(
    name="megatron-bridge",
    title=TITLE,
    versions=("0.3",),
    checked_with="megatron-bridge 0.3.1, 0.6.2",
    page="megatron-bridge",
    abilities=lambda version: megatron_abilities(ways_with_moves(), in_pairs=True),
    frozen_parts=FROZEN_PARTS,
    adapter="megatron-adapter",
    adapter_setting="peft = LoRA(dim={rank})",
    write=_write,
    write_degrees=_write_degrees,
    degree_rules=lambda version: megatron_rules(),
    read=_read,
    read_degrees=stated_in_bridge,
    recognise=lambda text, file: is_bridge(text) and not has_pattern(text),
    apply=_apply,
    logs=(MEGATRON_BRIDGE,),
)
