"""A training on devices, made and checked from its options, with what they left open."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace

from evenflow.cli.shared import options
from evenflow.cli.shared.group_sizes import check_given_size
from evenflow.cli.shared.layers_per_rank import kept_layers
from evenflow.cli.shared.training.software_options import SettledSoftware
from evenflow.cli.shared.training.training_options import (
    KINDS,
    TrainingOptions,
    host_update,
    topology_of,
    usual_precision,
)
from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.generations import reach_assumed
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.evidence import counted
from evenflow.predict.limits.checks import check_training
from evenflow.predict.step.cells import dealt_evenly
from evenflow.predict.tower import is_split
from evenflow.predict.training import Degrees, Sharding, Software, Training
from evenflow.predict.transformer import Transformer
from evenflow.profiles.accelerator_file import accelerator_given
from evenflow.profiles.transformer.numbers import Described
from evenflow.schedule import default_family, family_name


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingJob:
    """A training, the devices that it runs on, and what was assumed."""

    training: Training
    topology: Topology
    memory_limit_bytes: int
    """Of a device; 0 where it is not known."""
    assumed: tuple[str, ...]
    """Options that were not given, each with the value it has."""
    notes: tuple[str, ...]
    """What was assumed of the model, or left out of it."""


def training_job(
    settings: TrainingOptions, model: Described, *, written: Collection[str], named: Callable[[str], str]
) -> TrainingJob:
    """Return the training of `model` under the `settings`, of which those `written` were on the command line.

    `named` gives the option of a field of the training, for messages.

    Raises:
        InputError: settings that no training can have.
    """
    accelerator = accelerator_given(settings.accelerator, place="--accelerator")
    precision = settings.precision or usual_precision(accelerator)
    settled = settings.behaviour.settled(precision, given=written)
    training = _training(settings, model.model, precision, settled.software)
    notes = model.notes
    if not training.layout and not training.ends_are_layers:
        training = _dealt_fairly(training, allow_empty=settings.allow_empty is not False)
        notes = (*notes, *_dealing_notes(training))
    notes = (*notes, *_encoder_notes(training))
    check_training(training, accelerator, named=named)
    _check_group_size(training)
    limit = options.memory_limit(settings.memory) or accelerator.memory_bytes
    return TrainingJob(
        training=training,
        topology=counted(training, topology_of(accelerator, settings.gpus_per_node, settings.network)),
        memory_limit_bytes=limit,
        assumed=tuple(_assumed(settings, training, accelerator, settled, written)),
        notes=notes,
    )


def _training(settings: TrainingOptions, model: Transformer, precision: str, software: Software) -> Training:
    schedule = None if settings.schedule is None else family_name(settings.schedule)
    chunks = options.num_chunks(settings.chunks, schedule=schedule)
    degrees = Degrees(
        tensor=settings.tensor,
        pipeline=settings.pipeline,
        chunks=chunks,
        context=settings.context,
        data=_data(settings),
        expert=settings.expert,
        expert_tensor=settings.expert_tensor,
        sequence_parallel=not settings.no_sequence_parallel,
        sharding=Sharding(settings.zero),
        optimizer_offload=settings.optimizer_offload or 0.0,
        context_exchange=settings.behaviour.context_exchange,
    )
    _check_recompute(settings)
    layers = kept_layers(
        settings.layers_per_rank,
        num_layers=model.layers,
        num_ranks=settings.pipeline,
        num_chunks=chunks,
        allow_empty=settings.allow_empty is not False,
    )
    training = Training(
        model=model,
        degrees=degrees,
        microbatch=settings.microbatch,
        global_batch=settings.global_batch,
        sequence=settings.sequence,
        precision=precision,
        schedule=schedule,
        recompute=KINDS[settings.recompute],
        full_layers=settings.recompute_layers,
        group_size=settings.group_size,
        layout=layers or (),
        ends_are_layers=layers is None and not model.loops and _ends_count(model.layers, settings.pipeline * chunks),
        software=software,
        host_update=host_update(settings.optimizer_offload, settings.host_link, settings.host_update),
    )
    if settings.recompute_modules is None:
        return training
    return replace(training, recompute_modules=tuple(name.strip() for name in settings.recompute_modules.split(",")))


def _dealt_fairly(training: Training, *, allow_empty: bool) -> Training:
    """Return the training with its layers dealt as evenly as they can be, where they do not divide or stay together."""
    degrees, layers = training.degrees, training.model.layers
    cells = degrees.pipeline * degrees.chunks
    if (layers < cells and not allow_empty) or (layers % cells == 0 and not training.model.loops) or cells == 1:
        return training  # `check_training` refuses too few
    family = training.schedule or default_family(num_chunks=degrees.chunks, less_memory=False)
    layout = dealt_evenly(training.model, training.sizes, schedule=family, allow_empty=allow_empty)
    return replace(training, layout=layout)


def _dealing_notes(training: Training) -> Iterator[str]:
    """Yield how layers that do not divide, or stay together, are dealt."""
    if training.layout:
        rows = " ".join(",".join(map(str, row)) for row in training.layout)
        if training.model.loops:
            yield _("layers that tokens go through several times are dealt as one: ranks have {rows}", rows=rows)
            return
        yield _(
            "{layers} layers do not divide by {cells}: ranks have {rows}; --layers-per-rank has others",
            layers=training.model.layers,
            cells=training.degrees.pipeline * training.degrees.chunks,
            rows=rows,
        )


def _encoder_notes(training: Training) -> Iterator[str]:
    """Yield where an encoder is not split as the decoder is."""
    for tower in training.model.towers:
        if not is_split(training, tower):
            yield _(
                "{tensor} devices do not divide the {heads} heads of the encoder: each of them runs all of it",
                heads=tower.blocks.heads,
                tensor=training.degrees.tensor,
            )


def _check_group_size(training: Training) -> None:
    degrees = training.degrees
    family = training.schedule or default_family(num_chunks=degrees.chunks, less_memory=False)
    check_given_size(training.group_size, schedule=family, sizes=training.sizes)


def _ends_count(layers: int, cells: int) -> bool:
    """Whether layers can be dealt evenly only with embedding and loss as a layer each, as for Llama 3.1 405B."""
    return cells > 1 and layers % cells != 0 and (layers + 2) % cells == 0


def _data(settings: TrainingOptions) -> int:
    """Return ``--data``, or what ``--gpus`` leaves for it."""
    others = settings.tensor * settings.pipeline * settings.context
    if settings.gpus is None:
        return settings.data or 1
    if settings.data is not None and settings.data * others != settings.gpus:
        rule = _("must be tensor x pipeline x context x data = {product:,}", product=settings.data * others)
        raise InputError(
            value=settings.gpus, rule=rule, place="--gpus", remedy=_("leave --data out, and it follows from --gpus")
        )
    if settings.gpus % others:
        rule = _("must be a multiple of tensor x pipeline x context = {product:,}", product=others)
        next_one = -(-settings.gpus // others) * others
        raise InputError(
            value=settings.gpus, rule=rule, place="--gpus", remedy=_("use {number}", number=f"{next_one:,}")
        )
    return settings.gpus // others


def _check_recompute(settings: TrainingOptions) -> None:
    """Refuse options of a recompute kind beside another."""
    for value, name, kind in (
        (settings.recompute_modules, "--recompute-modules", "selective"),
        (settings.recompute_layers, "--recompute-layers", "full"),
    ):
        if value is not None and settings.recompute != kind:
            rule = _("must come with --recompute {kind}", kind=kind)
            raise InputError(value=value, rule=rule, place=name)


def _assumed(
    settings: TrainingOptions,
    training: Training,
    accelerator: Accelerator,
    settled: SettledSoftware,
    written: Collection[str],
) -> list[str]:
    """Return what a command line left open, in the words of its options."""
    degrees, behaviour = training.degrees, settings.behaviour
    values = {
        "precision": training.precision,
        "recompute": settings.recompute,
        "zero": settings.zero if degrees.data * degrees.context > 1 else None,
        "context_exchange": behaviour.context_exchange if degrees.context > 1 else None,
    }
    left_open = [
        f"--{name.replace('_', '-')}={value}"
        for name, value in values.items()
        if value is not None and name not in written
    ]
    left_open += settled.left_open(training.precision, given=written, has_experts=degrees.expert > 1)
    if degrees.devices > 1 and "gpus_per_node" not in written:
        left_open.append(f"--gpus-per-node={accelerator.link_devices}")
    reach = "" if accelerator.calibration else reach_assumed(accelerator.generation)
    left_open += [reach] if reach else []
    return [*left_open, _("embedding and loss count as a layer each")] if training.ends_are_layers else left_open
