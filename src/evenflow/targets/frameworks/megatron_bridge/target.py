"""Megatron-Bridge: fields of `model` in its configuration, as YAML and as overrides of a command.

Recipes set these fields too, so everything that a plan decides is written, also what is null.
"""

from collections.abc import Mapping
from dataclasses import replace

from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.profiles.yaml_text import block_text
from evenflow.targets.megatron_family.arguments import arguments_of
from evenflow.targets.megatron_family.baseline import baseline, mtp_layers
from evenflow.targets.megatron_family.bridge_files import (
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
from evenflow.targets.megatron_family.degrees.degree_settings import setting_notes, without_layout
from evenflow.targets.megatron_family.edit import check_same_run
from evenflow.targets.megatron_family.flags import megatron_abilities, offload_environment, ways_with_moves
from evenflow.targets.megatron_family.hybrid_pattern import has_pattern
from evenflow.targets.megatron_family.logs import MEGATRON_BRIDGE
from evenflow.targets.megatron_family.override_edit import apply_overrides
from evenflow.targets.megatron_family.settings import (
    FROZEN_PARTS,
    OFFLOADS,
    WITHOUT_LAYOUT,
    Setting,
    kept_modules,
    offload_corrections,
    override_array,
    pipeline_settings,
    recompute_settings,
    settings_notes,
)
from evenflow.targets.megatron_family.yaml_settings import apply_settings, mtp_layers_in, section_of
from evenflow.targets.target import Baseline, GivenSizes, Piece, Target, Written

_ARRAY = '"${PIPELINE_ARGS[@]}"'


def _fields(plan: Plan, *, mtp_layers: int = 0) -> dict[str, Setting]:
    return {
        **pipeline_settings(plan, mtp_layers=mtp_layers),
        "virtual_pipeline_model_parallel_size": plan.num_chunks if plan.num_chunks > 1 else None,
        **recompute_settings(plan),
    }


def _write(plan: Plan, version: str) -> Written:
    pieces = _pieces({"model": _fields(plan)}, title=_("fields of the YAML of overrides"))
    return Written(pieces=pieces, environment=offload_environment(plan), notes=(_excluded(), *settings_notes(plan)))


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    sections = degree_sections(without_layout(_fields(plan), plan), planned)
    of_pipeline = (_excluded(), *settings_notes(plan)[1:]) if plan.num_ranks > 1 else ()
    return Written(
        pieces=_pieces(sections, title=_("sections of the YAML of overrides")),
        environment=offload_environment(plan),
        notes=(*of_pipeline, *setting_notes(planned), dataset_note(planned)),
    )


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
    found = baseline(run_arguments(text, file), given_sizes)
    model = bridge_section(text, "model", file)
    silent = [key for key in dict.fromkeys((*_fields(found.plan), OFFLOADS)) if key not in model]
    if not silent:
        return found
    note = _("{fields} are those of the recipe, which the file does not tell", fields=", ".join(silent))
    return replace(found, notes=(*found.notes, note))


def _apply(text: str, file: str, plan: Plan) -> str:
    if has_overrides(text):
        return _apply_to_overrides(text, file, plan)
    path = model_path(text, file)
    settings = _fields(plan, mtp_layers=mtp_layers_in(section_of(text, path, file=file)))
    return apply_settings(text, path, settings=settings, instead=_corrections(plan), plan=plan, file=file)


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
    return apply_overrides(text, file, anchor="model.pipeline_model_parallel_size", settings=named)


def _corrections(plan: Plan) -> dict[str, Setting]:
    """Return what must be so wherever a file has it."""
    return {**WITHOUT_LAYOUT, **offload_corrections(plan)}


TARGET = Target(
    name="megatron-bridge",
    title=TITLE,
    versions=("0.3",),
    checked_with="megatron-bridge 0.3.1, 0.6.2",
    page="megatron-bridge",
    abilities=lambda version: megatron_abilities(ways_with_moves()),
    frozen_parts=FROZEN_PARTS,
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
