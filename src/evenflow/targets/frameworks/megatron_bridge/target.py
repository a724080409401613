"""Megatron-Bridge: fields of `model` in its configuration, as YAML and as overrides of a command.

Recipes set these fields too, so everything that a plan decides is written, also what is null.
"""

import re
from collections.abc import Mapping
from dataclasses import replace

from evenflow.fields import Fields
from evenflow.language import _
from evenflow.model import Plan
from evenflow.predict.training import Sharding
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.profiles.yaml_text import block_text
from evenflow.targets.megatron_family.arguments import OF_DEGREES, arguments_of
from evenflow.targets.megatron_family.baseline import baseline, mtp_layers
from evenflow.targets.megatron_family.degrees.degree_rules import megatron_rules
from evenflow.targets.megatron_family.degrees.degree_settings import (
    batch_settings,
    degree_settings,
    setting_notes,
    sharding_settings,
    without_layout,
)
from evenflow.targets.megatron_family.degrees.stated import stated_degrees
from evenflow.targets.megatron_family.edit import check_same_run
from evenflow.targets.megatron_family.flags import megatron_abilities, offload_environment, ways_with_moves
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
from evenflow.targets.megatron_family.shell_overrides import decoded_override, overrides_in
from evenflow.targets.megatron_family.yaml_settings import apply_settings, mtp_layers_in, section_of
from evenflow.targets.own_keys import check_own_keys
from evenflow.targets.stated_degrees import StatedDegrees
from evenflow.targets.target import Baseline, GivenSizes, Piece, Target, Written

_IS_OURS = re.compile(r"^(?:model|ConfigContainer):[ ]*(?:#.*)?$", re.MULTILINE)
_HAS_SIZES = re.compile(r"^[ ]+(?:virtual_)?pipeline_model_parallel_\w+[ ]*:", re.MULTILINE)
_OVERRIDE = re.compile(
    r"\+{0,2}(?P<name>(?:model|train|ddp|optimizer)\.\w+)=(?P<value>.*)",
    re.DOTALL,
)
_HAS_OVERRIDES = re.compile(r"(?<![\w.])model\.(?:virtual_)?pipeline_model_parallel_\w+=")
_IS_ANOTHER = re.compile(r"^(?:modules|system):", re.MULTILINE)
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
    sections: dict[str, dict[str, Setting]] = {
        "model": {
            **without_layout(_fields(plan), plan),
            **degree_settings(planned),
            "seq_length": planned.sequence,
        },
        "train": batch_settings(planned),
        "ddp": sharding_settings(planned),
        "optimizer": {"use_distributed_optimizer": planned.degrees.sharding is not Sharding.NOTHING},
    }
    if "use_megatron_fsdp" in sections["ddp"]:
        sections["dist"] = {"use_megatron_fsdp": True}
    of_pipeline = (_excluded(), *settings_notes(plan)[1:]) if plan.num_ranks > 1 else ()
    return Written(
        pieces=_pieces(sections, title=_("sections of the YAML of overrides")),
        environment=offload_environment(plan),
        notes=(
            *of_pipeline,
            *setting_notes(planned),
            _("the sequence length of the dataset must be {tokens} too", tokens=planned.sequence),
        ),
    )


def _pieces(sections: Mapping[str, Mapping[str, Setting]], *, title: str) -> tuple[Piece, Piece]:
    overrides = [(f"{name}.{key}", value) for name, section in sections.items() for key, value in section.items()]
    return (
        Piece(title=title, syntax="yaml", text=block_text(sections)),
        Piece(
            title=_("the same as overrides of the training script: add {array} to its command", array=_ARRAY),
            syntax="shell",
            text=override_array(overrides),
        ),
    )


def _excluded() -> str:
    return _("leave out {fields}: the layout replaces them", fields=", ".join(WITHOUT_LAYOUT))


def _section(text: str, name: str, file: str) -> Fields:
    """Return a section of a YAML, or the overrides of it in a script."""
    if _HAS_OVERRIDES.search(text):
        overrides = _overrides(text, file).items()
        values = {key.split(".")[1]: value for key, value in overrides if key.startswith(f"{name}.")}
        return Fields(values=values, file=file, path=name)
    return section_of(text, (*_model_path(text, file)[:-1], name), file=file)


def _overrides(text: str, file: str) -> dict[str, object]:
    told = overrides_in(text, file, _OVERRIDE)
    return {name: decoded_override(value) for name, value in told.items() if value is not None}


def _read(text: str, file: str, given_sizes: GivenSizes) -> Baseline:
    if not _HAS_OVERRIDES.search(text):
        check_own_keys(section_of(text, (), file=file), ("model", "ConfigContainer"), title=TARGET.title)
    model, train = _section(text, "model", file), _section(text, "train", file)
    sizes = {key: train.values[key] for key in ("micro_batch_size", "global_batch_size") if key in train}
    if sizes.get("global_batch_size") is None:  # which the recipe has, unlike Megatron-LM
        sizes = {}
    lines = {**model.lines, **{key: train.lines[key] for key in sizes if key in train.lines}}
    found = baseline(arguments_of({**model.values, **sizes}, file=file, lines=lines), given_sizes)
    silent = [key for key in dict.fromkeys((*_fields(found.plan), OFFLOADS)) if key not in model]
    if not silent:
        return found
    note = _("{fields} are those of the recipe, which the file does not tell", fields=", ".join(silent))
    return replace(found, notes=(*found.notes, note))


def _stated(text: str, file: str) -> StatedDegrees:
    sections = {name: _section(text, name, file) for name in ("model", "train", "ddp", "optimizer")}
    values = {key: value for section in sections.values() for key, value in section.values.items()}
    lines = {key: line for section in sections.values() for key, line in section.lines.items()}
    return stated_degrees(arguments_of(values, file=file, lines=lines, known=OF_DEGREES), has_recipe=True)


def _recognise(text: str, file: str) -> bool:
    if _HAS_OVERRIDES.search(text) and "actor_rollout_ref" not in text:
        return True
    return bool(_IS_OURS.search(text) and _HAS_SIZES.search(text) and not _IS_ANOTHER.search(text))


def _apply(text: str, file: str, plan: Plan) -> str:
    if _HAS_OVERRIDES.search(text):
        return _apply_to_overrides(text, file, plan)
    path = _model_path(text, file)
    settings = _fields(plan, mtp_layers=mtp_layers_in(section_of(text, path, file=file)))
    return apply_settings(text, path, settings=settings, instead=_corrections(plan), plan=plan, file=file)


def _apply_to_overrides(text: str, file: str, plan: Plan) -> str:
    told = _overrides(text, file)
    names = ("micro_batch_size", "global_batch_size")
    batch = {name: told[f"train.{name}"] for name in names if told.get("train.global_batch_size") is not None}
    old = _section(text, "model", file).values
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


def _model_path(text: str, file: str) -> tuple[str, ...]:
    """Return where `model` stands: at the top, or in the section that older scripts have around everything."""
    return ("ConfigContainer", "model") if "ConfigContainer" in section_of(text, (), file=file) else ("model",)


TARGET = Target(
    name="megatron-bridge",
    title="Megatron-Bridge",
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
    read_degrees=_stated,
    recognise=_recognise,
    apply=_apply,
    logs=(MEGATRON_BRIDGE,),
)
