"""FlagScale with heterogeneous training, which splits layers freely and recomputes by stage, without chunks.

Its rows are ``[stages, microbatches, value]``, so many stages one after the other with a value for so many
microbatches: a plan has one value for all of them. With chunks FlagScale takes the settings of Megatron-LM.
[FlagScale, `_parse_recompute_refined_config`]
"""

import re
from collections.abc import Sequence
from itertools import groupby

from evenflow.language import _
from evenflow.model import FULL, SELECT, Abilities, Plan, Recomputation, Scope
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.profiles.yaml_text import block_text
from evenflow.targets.frameworks.flagscale.editor import apply_sections
from evenflow.targets.frameworks.flagscale.reader import (
    BLOCK,
    GRANULARITIES,
    METHODS,
    NUMBERS,
    SPLIT,
    read_sections,
    stated_in_sections,
)
from evenflow.targets.megatron_family.degrees.degree_rules import megatron_rules
from evenflow.targets.megatron_family.degrees.degree_settings import (
    batch_settings,
    degree_settings,
    setting_notes,
    shares_optimizer,
)
from evenflow.targets.megatron_family.settings import FROZEN_PARTS, recompute_settings
from evenflow.targets.target import Piece, Target, Written

_SYSTEM = re.compile(r"^system:", re.MULTILINE)
_HAS_SIZES = re.compile(r"^[ ]+pipeline_model_parallel_size[ ]*:", re.MULTILINE)


def _abilities(version: str) -> Abilities:
    selective = Recomputation(scope=Scope.MODEL, kinds=(SELECT,))
    return Abilities(schedules=("1f1b",), most_chunks=1, recomputation=(Recomputation(scope=Scope.LAYERS), selective))


def _write(plan: Plan, version: str) -> Written:
    piece = Piece(
        title=_("section of the training YAML"),
        syntax="yaml",
        text=block_text({"system": _system(plan)}),
    )
    return Written(pieces=(piece,), notes=_notes(plan))


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    degrees = planned.degrees
    of_plan = _system(plan)
    hetero = of_plan.pop("hetero")
    system = {
        **of_plan,
        **degree_settings(planned),
        "use_distributed_optimizer": shares_optimizer(planned, TARGET.title),
    }
    if plan.num_ranks > 1:
        mesh = [degrees.tensor, degrees.context, degrees.expert, degrees.data, degrees.pipeline]
        assert isinstance(hetero, dict)
        system["hetero"] = {**hetero, "hetero_process_meshes": mesh}
    sections = {"system": system, "model": {**batch_settings(planned), "seq_length": planned.sequence}}
    piece = Piece(
        title=_("sections of the training YAML"),
        syntax="yaml",
        text=block_text(sections),
    )
    types = _("hetero_device_types must have the name of the kind of device")
    of_pipeline = (types, *_notes(plan)[1:]) if plan.num_ranks > 1 else ()
    return Written(pieces=(piece,), notes=(*of_pipeline, *setting_notes(planned)))


def _system(plan: Plan) -> dict[str, object]:
    # A key that is null would become a flag with the value None.
    recompute = {name: value for name, value in recompute_settings(plan).items() if value is not None}
    system: dict[str, object] = {"pipeline_model_parallel_size": plan.num_ranks, **recompute}
    full = _recomputed(plan)
    if any(full):
        system |= {
            GRANULARITIES: _rows([int(count > 0) for count in full], plan),
            METHODS: _rows([BLOCK] * plan.num_ranks, plan),
            NUMBERS: _rows(full, plan),
        }
    system["hetero"] = {"enable_hetero": True, SPLIT: list(plan.layers[0])}
    return system


def _recomputed(plan: Plan) -> Sequence[int]:
    return plan.recompute.get(FULL, ((0,) * plan.num_ranks,))[0]


def _notes(plan: Plan) -> tuple[str, ...]:
    meshes = _(
        "hetero_process_meshes must give the sizes [tensor, context, expert, data, pipeline] of every kind of device,"
        " with pipeline sizes that sum to {ranks}, and hetero_device_types their names",
        ranks=plan.num_ranks,
    )
    if any(_recomputed(plan)):
        return meshes, _("the rows of recomputation are for the {count} microbatches", count=plan.num_microbatches)
    return meshes, _("leave out the other keys of recomputation")


def _rows(values: Sequence[int], plan: Plan) -> list[list[int]]:
    """Return one row for equal stages one after the other."""
    return [[len(list(equal)), plan.num_microbatches, value] for value, equal in groupby(values)]


def _recognise(text: str, file: str) -> bool:
    return bool(_SYSTEM.search(text) and _HAS_SIZES.search(text))


TARGET = Target(
    name="flagscale",
    title="FlagScale",
    versions=("2.0",),
    checked_with="",
    page="flagscale",
    abilities=_abilities,
    frozen_parts=FROZEN_PARTS,
    write=_write,
    write_degrees=_write_degrees,
    degree_rules=lambda version: megatron_rules(has_fsdp=False),
    read=read_sections,
    read_degrees=stated_in_sections,
    recognise=_recognise,
    apply=lambda text, file, plan: apply_sections(text, file, plan, _system(plan)),
)
