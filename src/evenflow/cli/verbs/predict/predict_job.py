"""What ``evenflow predict`` is asked for, from its options: a training on devices."""

from collections.abc import Collection
from dataclasses import dataclass, replace

from evenflow.cli.shared import options
from evenflow.cli.shared.group_sizes import check_asked
from evenflow.cli.shared.layers_per_rank import kept_layers
from evenflow.cli.shared.training.training_options import KINDS, usual_precision
from evenflow.cli.verbs.predict.option_names import option
from evenflow.cli.verbs.predict.predict_options import PredictOptions
from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Sizes
from evenflow.predict.limits.checks import check_training
from evenflow.predict.training import Degrees, Sharding, Training
from evenflow.predict.transformer import Transformer
from evenflow.profiles.accelerator_file import accelerator_given
from evenflow.schedule import default_family, family_name


@dataclass(frozen=True, slots=True, kw_only=True)
class PredictJob:
    """A training, the devices that it runs on, and what was assumed."""

    training: Training
    topology: Topology
    memory_limit_bytes: int
    """Of a device; 0 where it is not known."""
    assumed: tuple[str, ...]
    """Options that were not given, each with the value it has."""
    notes: tuple[str, ...]
    """What was assumed of the model, or left out of it."""


def predict_job(asked: PredictOptions, *, given: Collection[str]) -> PredictJob:
    """Return the job of a command line, of whose options those `given` were written out."""
    accelerator = accelerator_given(asked.accelerator, place="--accelerator")
    model = asked.described.described(asked.sequence)
    training = _training(asked, model.model, accelerator)
    check_training(training, accelerator, named=option)
    _check_group_size(training)
    limit = options.memory_limit(asked.memory) or accelerator.memory_bytes
    return PredictJob(
        training=training,
        topology=Topology(accelerator=accelerator, domain_devices=asked.gpus_per_node or accelerator.link_devices),
        memory_limit_bytes=limit,
        assumed=tuple(_assumed(asked, training, accelerator, given)),
        notes=model.notes,
    )


def _training(asked: PredictOptions, model: Transformer, accelerator: Accelerator) -> Training:
    schedule = None if asked.schedule is None else family_name(asked.schedule)
    chunks = options.num_chunks(asked.chunks, schedule=schedule)
    degrees = Degrees(
        tensor=asked.tensor,
        pipeline=asked.pipeline,
        chunks=chunks,
        context=asked.context,
        data=_data(asked),
        expert=asked.expert,
        expert_tensor=asked.expert_tensor,
        sequence_parallel=not asked.no_sequence_parallel,
        sharding=Sharding(asked.zero),
        context_exchange=asked.behaviour.context_exchange,
    )
    _check_recompute(asked)
    layers = kept_layers(
        asked.layers_per_rank,
        num_layers=model.layers,
        num_ranks=asked.pipeline,
        num_chunks=chunks,
        allow_empty=False,
    )
    training = Training(
        model=model,
        degrees=degrees,
        microbatch=asked.microbatch,
        global_batch=asked.global_batch,
        sequence=asked.sequence,
        precision=asked.precision or usual_precision(accelerator),
        schedule=schedule,
        recompute=KINDS[asked.recompute],
        full_layers=asked.recompute_layers,
        group_size=asked.group_size,
        layout=layers or (),
        ends_are_layers=layers is None and _ends_count(model.layers, asked.pipeline * chunks),
        software=asked.behaviour.software(),
    )
    if asked.recompute_modules is None:
        return training
    return replace(training, recompute_modules=tuple(name.strip() for name in asked.recompute_modules.split(",")))


def _check_group_size(training: Training) -> None:
    degrees = training.degrees
    family = training.schedule or default_family(num_chunks=degrees.chunks, less_memory=False)
    sizes = Sizes(
        num_ranks=degrees.pipeline, num_chunks=degrees.chunks, num_microbatches=training.microbatches
    )  # fmt: skip
    check_asked(training.group_size, schedule=family, sizes=sizes)


def _ends_count(layers: int, cells: int) -> bool:
    """Whether layers can be dealt evenly only with embedding and loss as a layer each, as for Llama 3.1 405B."""
    return cells > 1 and layers % cells != 0 and (layers + 2) % cells == 0


def _data(asked: PredictOptions) -> int:
    """Return ``--data``, or what ``--gpus`` leaves for it."""
    others = asked.tensor * asked.pipeline * asked.context
    if asked.gpus is None:
        return asked.data or 1
    if asked.data is not None and asked.data * others != asked.gpus:
        rule = _("must be tensor x pipeline x context x data = {product:,}", product=asked.data * others)
        raise InputError(
            value=asked.gpus, rule=rule, place="--gpus", remedy=_("leave --data out, and it follows from --gpus")
        )
    if asked.gpus % others:
        rule = _("must be a multiple of tensor x pipeline x context = {product:,}", product=others)
        next_one = -(-asked.gpus // others) * others
        raise InputError(value=asked.gpus, rule=rule, place="--gpus", remedy=_("use {number}", number=f"{next_one:,}"))
    return asked.gpus // others


def _check_recompute(asked: PredictOptions) -> None:
    """Refuse options of a recompute kind beside another."""
    for value, name, kind in (
        (asked.recompute_modules, "--recompute-modules", "selective"),
        (asked.recompute_layers, "--recompute-layers", "full"),
    ):
        if value is not None and asked.recompute != kind:
            rule = _("must come with --recompute {kind}", kind=kind)
            raise InputError(value=value, rule=rule, place=name)


def _assumed(asked: PredictOptions, training: Training, accelerator: Accelerator, given: Collection[str]) -> list[str]:
    """Return what a command line left open, in the words of its options."""
    degrees, behaviour = training.degrees, asked.behaviour
    values = {
        "precision": training.precision,
        "recompute": asked.recompute,
        "zero": asked.zero if degrees.data * degrees.context > 1 else None,
        "context_exchange": behaviour.context_exchange if degrees.context > 1 else None,
        "token_dispatcher": behaviour.token_dispatcher if degrees.expert > 1 else None,
        "attention": behaviour.attention,
        "elementwise": behaviour.elementwise,
        "overlap": ",".join(behaviour.overlap) or "none",
        "gradient_dtype": behaviour.gradient_dtype,
        "gpus_per_node": accelerator.link_devices if degrees.devices > 1 else None,
    }
    written = [
        f"--{name.replace('_', '-')}={value}"
        for name, value in values.items()
        if value is not None and name not in given
    ]
    return [*written, _("embedding and loss count as a layer each")] if training.ends_are_layers else written
