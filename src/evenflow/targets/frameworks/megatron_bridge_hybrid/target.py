"""Hybrid models of Megatron-Bridge: the pattern of layers among the fields of `model`, with bars where stages end.

One chunk a rank: its providers of hybrid models refuse virtual stages. Before 0.4 the pattern had another name and no
bars, and the ranks have equally many layers. [Megatron-Bridge, `HybridModelProvider.provide`]
"""

import shlex
from collections.abc import Mapping
from dataclasses import replace

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Abilities, Empty, Groups, Mtp, Plan, even_cut
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.megatron_family.arguments import Arguments
from evenflow.targets.megatron_family.baseline import baseline
from evenflow.targets.megatron_family.bridge_files import (
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
from evenflow.targets.megatron_family.degrees.degree_settings import setting_notes
from evenflow.targets.megatron_family.edit import check_same_run
from evenflow.targets.megatron_family.flags import STOCK_WAYS, array_of_lines, megatron_abilities
from evenflow.targets.megatron_family.hybrid_pattern import (
    OLD_PATTERN,
    PATTERN,
    WITH_BARS,
    WITH_PATTERN,
    HybridPattern,
    check_layers,
    has_pattern,
    stage_counts,
    with_pattern,
)
from evenflow.targets.megatron_family.override_edit import apply_overrides, told_overrides
from evenflow.targets.megatron_family.settings import (
    FROZEN_PARTS,
    WITHOUT_LAYOUT,
    Setting,
    override_words,
    recompute_settings,
    settings_notes,
)
from evenflow.targets.megatron_family.yaml_settings import apply_settings
from evenflow.targets.target import Baseline, GivenSizes, Piece, Target, Written

EQUAL, BY_PATTERN = "0.3", "0.4"
"""Versions by how they cut the network: equal stages, or any by the bars of the pattern."""
_KNOWN = WITH_PATTERN | {"mtp_hybrid_override_pattern"}


def _abilities(version: str) -> Abilities:
    return replace(
        megatron_abilities(STOCK_WAYS), schedules=("1f1b",), most_chunks=1, empty=Empty.NONE, mtp=Mtp.LAST_STAGE,
        keeps_mtp=False, parts_blocks=True, whole_layers=False, groups=Groups.USUAL,
        own_cut=even_cut if version == EQUAL else None,
    )  # fmt: skip


def _fields(plan: Plan) -> dict[str, Setting]:
    """Return the settings beside the pattern, also those that are null, which recipes may set."""
    return {
        "pipeline_model_parallel_size": plan.num_ranks,
        "pipeline_model_parallel_layout": None,
        "virtual_pipeline_model_parallel_size": None,
        **recompute_settings(plan),
    }


def _piece(plan: Plan, version: str, sections: Mapping[str, Mapping[str, Setting]]) -> Piece:
    words = list(override_words(section_overrides(sections)))
    if version == EQUAL:
        title = _("overrides of the training script: add {array} to its command", array='"${PIPELINE_ARGS[@]}"')
        return Piece(title=title, syntax="shell", text=array_of_lines("PIPELINE_ARGS", words))
    counts = " ".join(map(str, stage_counts(plan)))
    pattern = f'"model.{PATTERN}=\'$(with_bars "$PATTERN" {counts})\'"'
    title = _(
        "overrides of the training script: set PATTERN to the layers of the model, such as {example}, and add {array}",
        example=shlex.quote("M-M*-"),
        array='"${PIPELINE_ARGS[@]}"',
    )
    return Piece(title=title, syntax="shell", text=WITH_BARS + array_of_lines("PIPELINE_ARGS", [pattern, *words]))


def _notes(plan: Plan, version: str) -> tuple[str, ...]:
    excluded = _("leave out {fields}: the pattern replaces them", fields=", ".join(WITHOUT_LAYOUT))
    if version == EQUAL:
        return ()
    return (_("the pattern must have {count} symbols, one for each layer of the plan", count=plan.num_layers), excluded)


def _write(plan: Plan, version: str) -> Written:
    piece = _piece(plan, version, {"model": _fields(plan)})
    return Written(pieces=(piece,), notes=(*_notes(plan, version), *settings_notes(plan, has_layout=False)))


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    notes = (*_notes(plan, version), *settings_notes(plan, has_layout=False)[1:])
    return Written(
        pieces=(_piece(plan, version, degree_sections(_fields(plan), planned)),),
        notes=(*notes, *setting_notes(planned), dataset_note(planned)),
    )


def _arguments(text: str, file: str) -> tuple[Arguments, HybridPattern, str]:
    """Return what a file says, its pattern, and the name of the field that has it.

    Blocks for further tokens are as many as their own field says, where there is one, and else those of the pattern.
    """
    told = run_arguments(text, file, known=_KNOWN)
    arguments, pattern, name = with_pattern(told)
    if name == OLD_PATTERN and len(pattern.segments) > 1:
        rule = _("must have no bars: they need {name}, from version {version} on", name=PATTERN, version=BY_PATTERN)
        raise arguments.error(name, rule)
    further = told.values.get("mtp_num_layers")
    if further is not None:
        arguments = replace(arguments, values={**arguments.values, "mtp_num_layers": further})
    return arguments, pattern, name


def _read(text: str, file: str, sizes: GivenSizes) -> Baseline:
    arguments, pattern, name = _arguments(text, file)
    num_ranks = arguments.num_ranks(sizes.num_ranks)
    if len(pattern.segments) not in (1, num_ranks):
        rule = _("must have a stage for each of the {ranks} ranks", ranks=num_ranks)
        raise InputError(value=len(pattern.segments), rule=rule, place=arguments.place(name))
    return baseline(arguments, sizes)


def _apply(text: str, file: str, plan: Plan) -> str:
    arguments, pattern, name = _arguments(text, file)
    check_layers(arguments, pattern, name, plan)
    fields = _fields(plan)
    if name == PATTERN:
        fields[name] = pattern.with_cut(stage_counts(plan))
    if not has_overrides(text):
        return apply_settings(
            text, model_path(text, file), settings=fields, instead=WITHOUT_LAYOUT, plan=plan, file=file
        )
    check_same_run(arguments, plan)
    told = told_overrides(text, file)
    settings = {f"model.{key}": value for key, value in fields.items()}
    instead = {f"model.{key}": value for key, value in WITHOUT_LAYOUT.items() if f"model.{key}" in told}
    return apply_overrides(text, file, anchor="model.pipeline_model_parallel_size", settings={**settings, **instead})


def _told_version(text: str, file: str) -> str | None:
    """Return the version that calls the pattern as a file does; None for the present name."""
    return EQUAL if _arguments(text, file)[2] == OLD_PATTERN else None


TARGET = Target(
    name="megatron-bridge-hybrid",
    title="Megatron-Bridge (hybrid models)",
    versions=(EQUAL, BY_PATTERN),
    checked_with="",
    page="megatron-bridge",
    abilities=_abilities,
    frozen_parts=FROZEN_PARTS,
    write=_write,
    write_degrees=_write_degrees,
    degree_rules=lambda version: megatron_rules(),
    told_version=_told_version,
    read=_read,
    read_degrees=stated_in_bridge,
    recognise=lambda text, file: is_bridge(text) and has_pattern(text),
    apply=_apply,
)
