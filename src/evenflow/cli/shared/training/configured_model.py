"""The model of a configuration as the planner takes it: what ``evenflow predict -o`` writes, for the same options."""

from collections.abc import Callable, Collection
from dataclasses import dataclass, fields, replace
from typing import Any

from evenflow.cli.missing import missing_options
from evenflow.cli.shared import options
from evenflow.cli.shared.files.given_model import GivenModel, read_model
from evenflow.cli.shared.model_config import ModelConfig
from evenflow.cli.shared.rank_options import of_ranks
from evenflow.cli.shared.training.configuration_options import (
    RANK_ACCELERATOR,
    ConfigurationOptions,
    only_for_configurations,
)
from evenflow.cli.shared.training.encoder_options import BESIDE, FIRST, SPREAD, with_encoders
from evenflow.cli.shared.training.model_options import with_capacity, with_trained
from evenflow.cli.shared.training.option_names import option
from evenflow.cli.shared.training.planner_inputs import PlannerInputs, planner_inputs
from evenflow.cli.shared.training.rank_accelerators import MixedInputs, mixed_inputs
from evenflow.cli.shared.training.training_job import TrainingJob, training_job
from evenflow.cli.shared.training.training_options import TrainingOptions, options_given
from evenflow.cli.text.extrapolation_text import extrapolation_text
from evenflow.errors import InputError
from evenflow.export.results.extrapolation_fields import extrapolation_fields
from evenflow.language import _
from evenflow.model import Abilities, HostLink, Sizes
from evenflow.predict.half_blocks import count_half_blocks
from evenflow.predict.prediction import OPTIMIZER, predict
from evenflow.predict.step.cells import dealt_evenly
from evenflow.predict.transformer import Transformer
from evenflow.profiles.plan_degrees import PlannedDegrees
from evenflow.profiles.transformer.config_file import transformer_of_config
from evenflow.schedule import default_family, family_name
from evenflow.units import MEGABYTE, format_bandwidth, megabytes, milliseconds

_USUAL_SEQUENCE = 4096
"""Tokens of a sequence where none are given."""
_MESSAGES = ("p2p_latency", "p2p_bandwidth", "boundary", "p2p_latency_us", "p2p_bandwidth_gbps", "boundary_mb")
_PLACES = {"pipeline": "--ranks", "global_batch": "--microbatches"}
"""Options of settings that have another name here than for ``evenflow predict``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineOptions:
    """The pipeline that a command line asks for; None is what it does not say."""

    ranks: int | None
    microbatches: int | None
    chunks: int | None = None
    schedule: str | None = None
    """Name of a family, or of a task that chooses among families."""
    group_size: int | str | None = None
    allow_empty: bool | None = None
    in_turn: bool = False
    """Whether messages wait for each other."""
    host_link: HostLink | None = None
    """The link to the host's memory; None: not given."""
    used_kinds: tuple[str, ...] = ()
    """Recompute kinds of the user's own plan."""
    for_framework: bool = False
    """Whether it is planned for a framework."""
    known_kinds: frozenset[str] | None = None
    """The recompute kinds of that framework; None: any."""
    parts_blocks: bool = False
    """Whether the framework that is planned for counts attention and MLP as layers of their own."""
    whole_layers: bool = False
    """Whether all layers of that framework's models have both."""

    def for_abilities(self, abilities: Abilities) -> "PipelineOptions":
        """Return the same for a framework with these abilities."""
        return replace(
            self,
            for_framework=True,
            known_kinds=abilities.recompute_kinds,
            parts_blocks=abilities.parts_blocks,
            whole_layers=abilities.whole_layers,
        )


Completed = Callable[[PipelineOptions, Transformer], PipelineOptions]
"""What says of the pipeline of a model what the options leave open."""


def read_planned_model(request: Any, *, completed: Completed | None = None) -> GivenModel:
    """Return the model in the file `layers` of a request, which says the pipeline and has a `configuration`.

    The file is a layer file, a plan file, or the configuration of a model, whose pipeline `completed` may know.
    """
    named = {field.name for field in fields(request)}
    asked = {field.name for field in fields(PipelineOptions)} & named
    pipeline = PipelineOptions(
        **{name: getattr(request, name) for name in asked},
        in_turn=request.messages.p2p_exclusive,
        host_link=request.host.link() if "host" in named else None,
    )
    written = options_given()
    check_rank_options(request)
    return read_model(
        request.layers,
        lambda config: configured_model(config, request.configuration, pipeline, written=written, completed=completed),
        only_configured=only_for_configurations(written),
    )


def check_rank_options(request: Any) -> None:
    """Raise InputError where a request has speeds of ranks beside their accelerators, which say them."""
    if request.configuration.rank_accelerator is not None and request.unequal_ranks.rank_speed is not None:
        rule = _("must not be given with {other}, which has the speed of each rank", other=RANK_ACCELERATOR)
        raise InputError(rule=rule, place="--rank-speed", remedy=_("leave one of the two out"))


def configured_model(
    config: ModelConfig,
    settings: ConfigurationOptions,
    pipeline: PipelineOptions,
    *,
    written: Collection[str],
    completed: Completed | None = None,
) -> GivenModel:
    """Return the model of a configuration, of which one device of every stage is planned.

    `written` are the names of the options on the command line; what the others have is among the remarks.
    `completed` knows more of the pipeline.

    Raises:
        InputError: no accelerator, a configuration that cannot be read, settings that no training can have.
        click.UsageError: a pipeline without its sizes.
    """
    whole = with_encoders(transformer_of_config(config.fields, name=config.name), settings.encoders)
    described = with_trained(with_capacity(whole, settings.expert_capacity), settings.freeze, settings.lora)
    if completed is not None:
        pipeline = completed(pipeline, described.model)
    if settings.encoder != FIRST and settings.encoders.recompute_encoder:
        rule = _("must not be given with --encoder {word}, which computes it again anyway", word=settings.encoder)
        if settings.encoder == SPREAD:
            rule = _(
                "must not be given with --encoder {word}, where the plan chooses what is computed again", word=SPREAD
            )
        raise InputError(rule=rule, place="--recompute-encoder", remedy=_("leave it out"))
    if settings.encoder in BESIDE and pipeline.for_framework:
        rule = _("must not be {word} for a framework: all have the encoder in their first stage", word=settings.encoder)
        raise InputError(value=settings.encoder, rule=rule, place="--encoder", remedy=_("use --encoder first"))
    training = _training_options(settings, pipeline, described.model, place=config.fields.file)
    job = training_job(training, described, written={*written, "recompute"}, named=_place)

    def inputs_of(job: TrainingJob) -> PlannerInputs:
        return planner_inputs(
            predict(job.training, job.topology),
            job.topology,
            memory_limit_bytes=job.memory_limit_bytes,
            encoder=settings.encoder,
            half_blocks=_parts_blocks(settings, pipeline, described.model),
            recompute_sets=settings.recompute_sets,
            known_kinds=pipeline.known_kinds,
            used_kinds=pipeline.used_kinds,
            host_link=pipeline.host_link,
            in_turn=pipeline.in_turn,
        )

    def inputs_on(accelerator: str) -> PlannerInputs:
        same = replace(training, accelerator=accelerator, precision=job.training.precision)
        return inputs_of(training_job(same, described, written=written, named=_place))

    if settings.rank_accelerator is None:
        mixed = MixedInputs(inputs=inputs_of(job))
    else:
        names = of_ranks(
            settings.rank_accelerator,
            settings.accelerator,
            lambda text, _place: text,
            num_ranks=training.pipeline,
            place=RANK_ACCELERATOR,
        )
        mixed = mixed_inputs(names, inputs_on)
    inputs = mixed.inputs
    return GivenModel(
        network=inputs.network,
        communication=inputs.communication,
        memory_limit_bytes=inputs.memory_limit_bytes,
        degrees=PlannedDegrees(
            degrees=job.training.degrees,
            replicas=1,
            microbatch=settings.microbatch,
            num_microbatches=job.training.microbatches,
            sequence=job.training.sequence,
            expert_capacity=settings.expert_capacity,
        ),
        remarks=(*mixed.remarks, *_half_layers(pipeline, described.model), *_remarks(settings, job, inputs, written)),
        extrapolation=extrapolation_fields(job.training, job.topology),
    )


def _parts_blocks(settings: ConfigurationOptions, pipeline: PipelineOptions, model: Transformer) -> bool:
    """Return whether stages may begin inside of blocks; a framework that counts half blocks also runs other layers."""
    return settings.half_blocks or (pipeline.parts_blocks and count_half_blocks(model) > model.layers)


def _training_options(
    settings: ConfigurationOptions, pipeline: PipelineOptions, model: Transformer, *, place: str
) -> TrainingOptions:
    """Return the training to predict: the pipeline with its layers dealt evenly, and nothing recomputed."""
    ranks, microbatches = pipeline.ranks, pipeline.microbatches
    if ranks is None or microbatches is None:
        needed = {"--accelerator": settings.accelerator, "--ranks": ranks, "--microbatches": microbatches}
        raise missing_options(needed, elsewhere=_("a plan file"))
    if settings.accelerator is None:
        raise InputError(
            rule=_("must be given for the configuration of a model, which has no times ({file})", file=place),
            place="--accelerator",
            remedy=_("add --accelerator NAME, such as a100, h100, gb200, mi300x or 910b"),
        )
    # Halves may be enough for all cells where whole blocks, of which the training is predicted, are not.
    allow_empty = pipeline.allow_empty is not False or _parts_blocks(settings, pipeline, model)
    schedule = _family(pipeline.schedule)
    chunks = options.num_chunks(pipeline.chunks, schedule=schedule)
    return TrainingOptions(
        behaviour=settings.behaviour,
        accelerator=settings.accelerator,
        gpus_per_node=settings.gpus_per_node,
        network=settings.network,
        tensor=settings.tensor,
        pipeline=ranks,
        chunks=chunks,
        context=settings.context,
        data=settings.data,
        expert=settings.expert,
        expert_tensor=settings.expert_tensor,
        zero=settings.zero,
        optimizer_offload=settings.optimizer_offload,
        host_link=_rate_of_optimizer(settings, pipeline.host_link),
        host_update=settings.host_update,
        no_sequence_parallel=settings.no_sequence_parallel,
        global_batch=microbatches * settings.microbatch * settings.data,
        microbatch=settings.microbatch,
        sequence=settings.sequence or min(_USUAL_SEQUENCE, model.positions or _USUAL_SEQUENCE),
        precision=settings.precision,
        schedule=schedule,
        group_size=pipeline.group_size if isinstance(pipeline.group_size, int) else None,
        layers_per_rank=_even_rows(
            model,
            Sizes(num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches),
            schedule,
            allow_empty=allow_empty,
        ),
        allow_empty=allow_empty,
    )


def _rate_of_optimizer(settings: ConfigurationOptions, host_link: HostLink | None) -> str | None:
    """Return the bandwidth of a device's part of the link as an option has it; None where no state goes over it."""
    if not settings.optimizer_offload or host_link is None:
        return None
    return format_bandwidth(round(host_link.bytes_per_s / host_link.sharers))


def _family(name: str | None) -> str | None:
    """Return the family of ``--schedule``; None where it is left open or is a task that chooses among families."""
    tasks = (options.BEST, options.SEARCH)
    family = None if name is None else family_name(name, also=tasks)
    return None if family in tasks else family


def _even_rows(model: Transformer, sizes: Sizes, schedule: str | None, *, allow_empty: bool) -> tuple[str, ...]:
    """Return the layers of every rank as ``--layers-per-rank`` has them, once for each chunk."""
    family = schedule or default_family(num_chunks=sizes.num_chunks, less_memory=False)
    rows = dealt_evenly(model, sizes, schedule=family, allow_empty=allow_empty)
    return tuple(",".join(map(str, row)) for row in rows)


def _place(field: str) -> str:
    """Return the option of a field of a training, as messages name it."""
    return _PLACES.get(field) or option(field)


def _host_notes(job: TrainingJob) -> tuple[str, ...]:
    """Return what the host keeps of the optimizer's state, whose update no plan counts."""
    share = job.training.degrees.optimizer_offload
    if not share:
        return ()
    prediction = predict(job.training, job.topology)
    update_ns = next((part.exposed_ns for part in prediction.parts if part.name == OPTIMIZER), 0.0)
    return (
        _(
            "the host keeps {share:g} % of the optimizer's state, with its gradients up to {most:,.0f} MB for a device;"
            " updating all of it takes about {update:,.0f} ms behind the step of a plan, which does not count it",
            share=100 * share,
            most=megabytes(max(prediction.host_bytes)),
            update=milliseconds(round(update_ns)),
        ),
    )


def _half_layers(pipeline: PipelineOptions, model: Transformer) -> tuple[str, ...]:
    """Return what to do about layers with one half alone, where the framework planned for has both in each."""
    number = sum(not (kind.mixes and kind.transforms) for kind in model.kinds)
    if not pipeline.whole_layers or not number:
        return ()
    note = _(
        "note: {number} of the {layers} layers have attention or a state alone, or an MLP or experts alone, and are "
        "counted as layers of this framework, whose GPT models have both in each; hybrid models of Megatron-LM "
        "(--target megatron-hybrid) and Megatron-Bridge (--target megatron-bridge-hybrid) have such layers",
        number=number,
        layers=model.layers,
    )
    return (note,)


def _remarks(
    settings: ConfigurationOptions, job: TrainingJob, inputs: PlannerInputs, written: Collection[str]
) -> tuple[str, ...]:
    """Return what is to be known of the model, and the options that were left open with the values they have."""
    left_open = []
    if "sequence" not in written:
        left_open.append(f"--seq={job.training.sequence}")
    if "microbatch" not in written:
        left_open.append(f"--microbatch={settings.microbatch}")
    if inputs.memory_limit_bytes is not None and "memory" not in written:
        left_open.append(f"--memory={inputs.memory_limit_bytes // MEGABYTE}MB")
    if inputs.communication is not None and not any(name in written for name in _MESSAGES):
        left_open.append(f"--p2p-latency={inputs.communication.message_ns}ns")
    beyond = extrapolation_text(job.training, job.topology)
    every = (*job.notes, *_host_notes(job), *([beyond] if beyond else []))
    notes = [_("note: {note}", note=note) for note in every]
    return (*notes, _("assumed: {options}", options=", ".join([*left_open, *job.assumed])))
