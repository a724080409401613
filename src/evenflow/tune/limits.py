"""Refusals of impossible questions before the search, each with its rule."""

from collections.abc import Callable
from dataclasses import replace
from math import prod

from evenflow.errors import InputError
from evenflow.fields import check_one_of
from evenflow.language import _, _n
from evenflow.model import FULL, NONE, SELECT
from evenflow.predict.limits.checks import check_training
from evenflow.predict.training import Degrees, Sharding
from evenflow.predict.transformer import Transformer
from evenflow.ranges import CHUNKS, DEVICES, MEMORY_BYTES, RANKS, SEQUENCES, Range
from evenflow.schedule import FAMILIES, family_name
from evenflow.tune.axes import Axis
from evenflow.tune.question import TuningQuestion

RANGES: dict[Axis, Range] = {
    Axis.TENSOR: DEVICES,
    Axis.CONTEXT: DEVICES,
    Axis.EXPERT: DEVICES,
    Axis.EXPERT_TENSOR: DEVICES,
    Axis.PIPELINE: RANKS,
    Axis.DATA: DEVICES,
    Axis.CHUNKS: CHUNKS,
    Axis.MICROBATCH: SEQUENCES,
}
"""The numbers that an axis may have; the others have words."""
LIMITED = (Axis.TENSOR, Axis.CONTEXT, Axis.EXPERT, Axis.PIPELINE, Axis.CHUNKS, Axis.MICROBATCH)
"""Axes for which a largest value can be given."""
_KINDS = (NONE, SELECT, FULL)
_LIMIT = replace(MEMORY_BYTES, is_above=True)
_SPLIT = (Axis.TENSOR, Axis.CONTEXT, Axis.PIPELINE, Axis.DATA)
"""Axes whose values multiply to the number of devices."""
_SEQUENCES = (Axis.DATA, Axis.MICROBATCH)
"""Axes whose values together divide the sequences of a step."""


def check_question(question: TuningQuestion, *, named: Callable[[str], str] = str) -> None:
    """Refuse a question that no configuration can answer.

    `named` gives the place of a field of the question in messages, ``fixed: tensor`` among them.

    Raises:
        InputError: numbers out of range, a model or a format that cannot be, an unknown schedule, fixed values that
            do not divide what they split or are above the largest value asked for.
    """
    DEVICES.check(question.devices, place=named("devices"))
    DEVICES.check(question.topology.domain_devices, place=named("devices_per_node"))
    _LIMIT.check(question.memory_limit_bytes, place=named("memory_limit_bytes"))
    if question.recompute is not None:
        check_one_of(question.recompute, _KINDS, place=named("recompute"))
    degrees = Degrees(optimizer_offload=question.optimizer_offload)
    check_training(
        replace(question.on_one_device, degrees=degrees, host_update=question.host_update),
        question.topology.accelerator,
        named=named,
    )
    _check_schedules(question, named)
    for axis, value in question.most.items():
        _check_number(axis, value, place=named(f"most: {axis}"))
    for axis in question.fixed:
        _check_fixed(question, axis, named)
    for number, split, field in (
        (question.devices, _SPLIT, "devices"),
        (question.global_batch, _SEQUENCES, "global_batch"),
    ):
        together = prod(int(question.fixed.get(axis, 1)) for axis in split)
        if number % together:
            axes = " x ".join(axis for axis in split if axis in question.fixed)
            rule = _("must be a multiple of {axes} = {product:,}", axes=axes, product=together)
            raise InputError(value=number, rule=rule, place=named(field))
    _check_chunks(question, named)


def _check_chunks(question: TuningQuestion, named: Callable[[str], str]) -> None:
    """Refuse a number of chunks that the schedule or the pipeline that is decided does not have."""
    if Axis.CHUNKS not in question.fixed:
        return
    chunks, place = int(question.fixed[Axis.CHUNKS]), named(f"fixed: {Axis.CHUNKS}")
    if Axis.SCHEDULE in question.fixed:
        name = str(question.fixed[Axis.SCHEDULE])
        family = FAMILIES[name]
        if family.num_chunks and chunks != family.num_chunks:
            rule = _("must be {count} for schedule {name}", count=family.num_chunks, name=name)
            raise InputError(value=chunks, rule=rule, place=place)
    pipeline = int(question.fixed.get(Axis.PIPELINE, 0))
    if pipeline == 1 and chunks > 1:
        raise InputError(value=chunks, rule=_("must be 1 without pipeline parallelism"), place=place)
    most = question.model.layers // max(pipeline, 1)
    if chunks > most:
        rule = _("must be at most {most}, so that every model chunk has a layer", most=most)
        raise InputError(value=chunks, rule=rule, place=place)


def all_schedules(model: Transformer) -> tuple[str, ...]:
    """Return the schedules that can be compared in earnest: those with pairs only where experts exchange tokens."""
    return tuple(
        name
        for name, family in FAMILIES.items()
        if not family.comparison_only and (model.experts is not None or not family.has_pairs)
    )


def _check_schedules(question: TuningQuestion, named: Callable[[str], str]) -> None:
    if not question.schedules:
        raise InputError(rule=_("must name a schedule"), place=named("schedules"))
    for name in question.schedules:
        check_one_of(name, FAMILIES, place=named("schedules"), suggests=True)
        if question.abilities is not None and name == question.abilities.equal_pairs:
            raise InputError(
                value=name,
                rule=_(
                    "must be a schedule for any cut: {title} has this one where all chunks of a rank hold equally many "
                    "layers with experts",
                    title=question.title,
                ),
                place=named("schedules"),
                remedy=_("leave it out, and plan the degrees that are chosen with evenflow plan --target"),
            )
        if FAMILIES[name].has_pairs and question.model.experts is None:
            raise InputError(
                value=name,
                rule=_(
                    "must run one action after the other: {model} has no experts to exchange tokens",
                    model=question.model.name,
                ),
                place=named("schedules"),
                remedy=_("leave it out"),
            )
    chunks = {name: FAMILIES[name].num_chunks or max(FAMILIES[name].fewest_chunks, 1) for name in question.schedules}
    name = min(chunks, key=chunks.__getitem__)
    if chunks[name] > question.model.layers:
        rule = _n(
            "must have a schedule for 1 layer: every rank of {name} has {chunks} chunks, each with a layer",
            "must have a schedule for {count} layers: every rank of {name} has {chunks} chunks, each with a layer",
            count=question.model.layers,
            name=name,
            chunks=chunks[name],
        )
        remedy = _("add 1f1b")
        raise InputError(value=", ".join(question.schedules), rule=rule, place=named("schedules"), remedy=remedy)


def _check_number(axis: Axis, value: object, *, place: str) -> None:
    check_one_of(str(axis), RANGES, place=place)
    RANGES[axis].check(value, place=place)


def _check_fixed(question: TuningQuestion, axis: Axis, named: Callable[[str], str]) -> None:
    value, place = question.fixed[axis], named(f"fixed: {axis}")
    if axis is Axis.SCHEDULE:
        family_name(str(value))
        return
    if axis is Axis.ZERO:
        if str(value) not in tuple(Sharding):
            raise InputError(value=value, rule=_("must be one of {names}", names=", ".join(Sharding)), place=place)
        return
    _check_number(axis, value, place=place)
    number, experts = int(value), question.model.experts
    most = question.most.get(axis)
    if most is not None and number > most:
        raise InputError(value=number, rule=_("must be at most the {most} that is asked for", most=most), place=place)
    if axis in _SPLIT and question.devices % number:
        raise InputError(value=number, rule=_("must divide the {count:,} devices", count=question.devices), place=place)
    if axis in (Axis.EXPERT, Axis.EXPERT_TENSOR) and experts is None and number > 1:
        raise InputError(value=number, rule=_("must be 1 for a model without experts"), place=place)
    if axis is Axis.EXPERT and experts is not None and experts.count % number:
        rule = _("must divide the {count} experts", count=experts.count)
        raise InputError(value=number, rule=rule, place=place)
    if axis is Axis.PIPELINE and number > question.model.layers and not question.allow_empty:
        rule = _("must be at most the {count} layers", count=question.model.layers)
        raise InputError(value=number, rule=rule, place=place, remedy=_("use fewer ranks"))
    if axis in (Axis.MICROBATCH, Axis.DATA) and question.global_batch % number:
        rule = _("must divide the {count:,} sequences of a step", count=question.global_batch)
        raise InputError(value=number, rule=rule, place=place)
