"""A training as a run that nobody has measured yet: the row that a calibration reads back."""

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.training import Sharding, Training
from evenflow.predict.vocabulary import words_of
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.tune.axes import schedule_of

_ZERO = {Sharding.NOTHING: "0", Sharding.OPTIMIZER: "distopt", Sharding.PARAMETERS: "fsdp"}


def run_of(training: Training, *, name: str, hardware: str | None, devices_per_node: int) -> MeasuredRun:
    """Return the run `name` of a training, without a step.

    Raises:
        InputError: a model that a row cannot say: latent attention, encoders, state mixers, layers of many kinds.
    """
    model, degrees, experts = training.model, training.degrees, training.model.experts
    if model.latent is not None or model.towers or len(set(model.kinds)) > 2 or degrees.sharding not in _ZERO:
        raise InputError(
            value=model.name,
            rule=_("must be a plain decoder, all of whose layers have attention, with or without experts"),
            place=_("a run to plan"),
        )
    return MeasuredRun(
        id=name,
        source="planned",
        ref=name,
        hardware=hardware,
        gpus=degrees.devices,
        gpus_per_node=devices_per_node,
        model=model.name,
        hidden=model.hidden,
        ffn=model.ffn or None,
        layers=model.layers,
        heads=model.heads,
        kv_heads=model.kv_heads,
        head_dim=model.head_dim,
        vocab=model.vocabulary,
        seq=training.sequence,
        experts=experts.count if experts else 0,
        active_experts=experts.active if experts else 0,
        expert_ffn=experts.ffn if experts else 0,
        shared_experts=round(experts.shared_ffn / experts.ffn) if experts else 0,
        mtp_layers=model.predicted_tokens,
        gated_mlp=model.gated,
        tied_embeddings=model.tied,
        precision=training.precision,
        tp=degrees.tensor,
        cp=degrees.context,
        ep=degrees.expert,
        dp=degrees.data,
        pp=degrees.pipeline,
        vpp=degrees.chunks,
        sequence_parallel=degrees.sequence_parallel,
        zero=_ZERO[degrees.sharding],
        mbs=training.microbatch,
        gbs=training.global_batch,
        microbatches=training.microbatches,
        schedule=schedule_of(training),
        recompute={"select": "selective"}.get(training.recompute, training.recompute),
        overlap_flags=" ".join(word.name for word in words_of(training.software)),
    )
