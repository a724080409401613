"""verl on Megatron-LM: overrides of its Hydra configuration, which hand the settings on."""

import re
from collections.abc import Mapping

from evenflow.errors import InputError
from evenflow.fields import is_integer_list
from evenflow.language import _
from evenflow.model import Plan
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.targets.further_tokens import without_mtp
from evenflow.targets.megatron_family.arguments import OF_DEGREES, arguments_of
from evenflow.targets.megatron_family.baseline import LAYOUT, baseline, mtp_layers
from evenflow.targets.megatron_family.degrees.degree_rules import megatron_rules
from evenflow.targets.megatron_family.degrees.degree_settings import (
    degree_settings,
    setting_notes,
    shares_optimizer,
    without_layout,
)
from evenflow.targets.megatron_family.degrees.stated import stated_degrees
from evenflow.targets.megatron_family.edit import check_same_run
from evenflow.targets.megatron_family.flags import WAYS_WITH_SETS, megatron_abilities
from evenflow.targets.megatron_family.mindspeed_cuts import MATRIX, parse_matrix, with_layers
from evenflow.targets.megatron_family.override_edit import apply_overrides, told_overrides
from evenflow.targets.megatron_family.settings import (
    FROZEN_PARTS,
    WITHOUT_LAYOUT,
    Setting,
    override_array,
    pipeline_settings,
    recompute_settings,
    settings_notes,
)
from evenflow.targets.megatron_family.shell_overrides import decoded_override, overrides_in
from evenflow.targets.stated_degrees import StatedDegrees
from evenflow.targets.target import Baseline, GivenSizes, Piece, Target, Written

_MEGATRON = "actor_rollout_ref.actor.megatron"
_REFERENCE = "actor_rollout_ref.ref.megatron"
_SIZE, _CHUNKS = "pipeline_model_parallel_size", "virtual_pipeline_model_parallel_size"
_CONFIG = f"++{_MEGATRON}.override_transformer_config"
"""Two plus signs set a key whether or not it is there already."""
_OVERRIDE = re.compile(
    rf"\+{{0,2}}{re.escape(_MEGATRON)}\.(?:override_transformer_config\.)?(?P<name>\w+)=(?P<value>.*)", re.DOTALL
)

_OF_BATCH = re.compile(
    r"\+{0,2}(?P<name>actor_rollout_ref\.actor\.(?:ppo_mini_batch_size|ppo_micro_batch_size_per_gpu|use_dynamic_bsz)"
    r"|actor_rollout_ref\.rollout\.n|trainer\.(?:nnodes|n_gpus_per_node))=(?P<value>.*)",
    re.DOTALL,
)
_USUAL_BATCH = {"n": 1, "nnodes": 1, "n_gpus_per_node": 8, "use_dynamic_bsz": False}
"""What verl's own configuration has of them."""


def _write(plan: Plan, version: str) -> Written:
    notes = (*settings_notes(plan), *_notes())
    return Written(pieces=(_piece(plan, {**pipeline_settings(plan), **recompute_settings(plan)}, {}),), notes=notes)


def _write_degrees(plan: Plan, planned: PlannedDegrees, version: str) -> Written:
    settings = {**without_layout(pipeline_settings(plan), plan), **recompute_settings(plan)}
    own = {
        **degree_settings(planned),
        "use_distributed_optimizer": shares_optimizer(planned, TARGET.title),
    }
    for name in ("cp_comm_type", "moe_expert_capacity_factor"):  # which verl hands on
        if name in own:
            settings[name] = own.pop(name)
    batch = _(
        "the plan has microbatches of {microbatch} and a step of {batch} sequences of {tokens} tokens:"
        " ppo_micro_batch_size_per_gpu and the mini batch",
        microbatch=planned.microbatch,
        batch=planned.global_batch,
        tokens=planned.sequence,
    )
    notes = (*settings_notes(plan)[1:], *_notes(), batch, *setting_notes(planned))
    return Written(pieces=(_piece(plan, settings, own),), notes=notes)


def _piece(plan: Plan, settings: dict[str, Setting], degrees: Mapping[str, Setting]) -> Piece:
    own: dict[str, Setting] = {_SIZE: settings.pop(_SIZE), **_chunks(plan), **degrees}
    overrides = [
        *((f"{_MEGATRON}.{name}", value) for name, value in own.items()),
        *((f"{_CONFIG}.{name}", value) for name, value in settings.items()),
    ]
    return Piece(
        title=_("overrides of verl.trainer.main_ppo: add {array} to its command", array='"${PIPELINE_ARGS[@]}"'),
        syntax="shell",
        text=override_array(overrides),
    )


def _chunks(plan: Plan) -> dict[str, Setting]:
    return {_CHUNKS: plan.num_chunks if plan.num_chunks > 1 else None}


def _notes() -> tuple[str, ...]:
    return (
        _("the reference model takes over the layout; a critic on Megatron-LM has one of its own"),
        _("with use_dynamic_bsz the number of microbatches changes from step to step; the plan is for one number"),
    )


def _read(text: str, file: str, sizes: GivenSizes) -> Baseline:
    texts = _texts(text, file)
    values = {name: decoded_override(text) for name, text in texts.items() if name != MATRIX}
    if not texts:
        rule = _("must have overrides of {place}", place=_MEGATRON)
        raise InputError(rule=rule, place=file)
    arguments = arguments_of({**_batch(text, file), **values}, file=file)
    if texts.get(MATRIX, "null") == "null":
        return baseline(arguments, sizes)
    place = arguments.place(MATRIX)  # on Ascend
    return with_layers(arguments, parse_matrix(texts[MATRIX], place=place), place, sizes)


def _apply(text: str, file: str, plan: Plan) -> str:
    """Return a script with the plan for the actor, and for the sizes of the reference model that takes its layout."""
    told, texts = told_overrides(text, file), _texts(text, file)
    values = {name: decoded_override(value) for name, value in texts.items() if name != MATRIX}
    arguments = arguments_of({**_batch(text, file), **values}, file=file)
    check_same_run(arguments, plan)
    settings: dict[str, Setting] = {
        **pipeline_settings(plan, mtp_layers=mtp_layers(arguments)),
        **recompute_settings(plan),
    }
    if texts.get(MATRIX, "null") != "null":
        settings |= {LAYOUT: None, MATRIX: _matrix(plan, texts[MATRIX])}
    sizes = {_SIZE: settings.pop(_SIZE), **_chunks(plan)}
    wanted = {f"{_MEGATRON}.{name}": value for name, value in sizes.items()}
    wanted |= {f"{_CONFIG}.{name}": value for name, value in {**settings, **WITHOUT_LAYOUT}.items()}
    if f"{_REFERENCE}.override_transformer_config.{LAYOUT}" not in told:
        wanted |= {f"{_REFERENCE}.{name}": value for name, value in sizes.items() if f"{_REFERENCE}.{name}" in told}
    # What a script does not say of them is null or false already.
    wanted = {name: value for name, value in wanted.items() if value or name.lstrip("+") in told}
    return apply_overrides(text, file, anchor=f"{_MEGATRON}.{_SIZE}", settings=wanted)


def _matrix(plan: Plan, old: str) -> str:
    """Return the layers of every rank as a list, in quotation marks where the old one has them."""
    ranks = ",".join(f"[{','.join(map(str, chunks))}]" for chunks in zip(*without_mtp(plan).layers, strict=True))
    mark = old[:1] if old[:1] in ("'", '"') else ""
    return f"{mark}[{ranks}]{mark}"


def _batch(text: str, file: str) -> dict[str, object]:
    """Return the batch and the devices of the actor in Megatron's words; nothing where the script does not tell all.

    A mini batch has `rollout.n` answers to each of its prompts, dealt out over data parallel ranks. [verl,
    `ActorRolloutRefWorker`]
    """
    told = overrides_in(text, file, _OF_BATCH)
    if None in told.values():
        return {}
    values = {
        **_USUAL_BATCH,
        **{name.rpartition(".")[2]: decoded_override(value or "") for name, value in told.items()},
    }
    names = ("ppo_mini_batch_size", "n", "ppo_micro_batch_size_per_gpu", "nnodes", "n_gpus_per_node")
    sizes = [values.get(name) for name in names]
    if values["use_dynamic_bsz"] is not False or not is_integer_list(sizes) or min(sizes) < 1:
        return {}
    prompts, answers, micro, nodes, devices = sizes
    return {"global_batch_size": prompts * answers, "micro_batch_size": micro, "world_size": nodes * devices}


def _stated(text: str, file: str) -> StatedDegrees:
    values = {name: decoded_override(value) for name, value in _texts(text, file).items() if name != MATRIX}
    usual = {"use_distributed_optimizer": True, "sequence_parallel": True}
    return stated_degrees(arguments_of({**usual, **values}, file=file, known=OF_DEGREES))


def _texts(text: str, file: str) -> dict[str, str]:
    """Return the values of overrides by the name of the setting, as texts."""
    told = overrides_in(text, file, _OVERRIDE)
    return {name: value for name, value in told.items() if value is not None}


TARGET = Target(
    name="verl",
    title="verl",
    versions=("0.9",),
    checked_with="verl 0.9.1",
    page="verl",
    abilities=lambda version: megatron_abilities(WAYS_WITH_SETS),
    frozen_parts=FROZEN_PARTS,
    adapter_setting="actor_rollout_ref.model.lora.rank={rank}",
    write=_write,
    write_degrees=_write_degrees,
    degree_rules=lambda version: megatron_rules(has_fsdp=False),
    read=_read,
    read_degrees=_stated,
    recognise=lambda text, file: f"{_MEGATRON}." in text,
    apply=_apply,
)
