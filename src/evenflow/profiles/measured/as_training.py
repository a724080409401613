"""A measured run as a training on a topology, which `evenflow.predict` predicts."""

import re
from dataclasses import replace
from typing import TypeVar

from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.predict.software import usual_software
from evenflow.predict.training import Degrees, Sharding, Training
from evenflow.predict.transformer import EVERY_BIAS, Biases, Experts, Norms, Transformer
from evenflow.profiles.measured.framework_words import (
    precision_of,
    recompute_of,
    schedule_of,
    sharding_of,
    software_of,
)
from evenflow.profiles.measured.known_models import known_model
from evenflow.profiles.measured.layouts import layout_of
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.profiles.measured.settings import Settings, expert_tensor_of, recompute_modules, settings_of


def training_of(run: MeasuredRun) -> tuple[Training, Topology]:
    """Return a completed run, which lacks nothing, as a training and the devices that it runs on.

    Raises:
        InputError: an unknown accelerator, number format or word for software, or a model or degrees that cannot be.
    """
    settings = settings_of(run)
    known = known_model(run.model or "")
    experts = None
    if run.experts:
        experts = Experts(
            count=run.experts,
            active=_known(run.active_experts),
            ffn=_known(run.expert_ffn),
            shared_ffn=(run.shared_experts or 0) * _known(run.expert_ffn) or settings.shared_ffn,
            dense_layers=settings.dense_layers or known.dense_layers,
            groups=known.groups,
            chosen_groups=known.chosen_groups,
        )
    stated = software_of(run)
    sharding, precision = sharding_of(run), precision_of(run)
    is_shared = sharding is Sharding.PARAMETERS
    old = str(run.hardware).startswith(("v100", "a100")) and not is_shared
    of_gpt = old and not run.gated_mlp  # Llama and later models came with fused attention, and without dropout
    head_dim = _known(run.head_dim)
    model = Transformer(
        hidden=_known(run.hidden),
        layers=_known(run.layers),
        heads=_known(run.heads),
        kv_heads=_known(run.kv_heads),
        head_dim=head_dim,
        ffn=run.ffn or 0,
        vocabulary=_known(run.vocab),
        gated=_known(run.gated_mlp),
        tied=_known(run.tied_embeddings),
        positions=_positions(run, settings),
        biases=_biases(run, settings),
        experts=experts,
        predicted_tokens=run.mtp_layers or 0,
        latent=settings.latent(head_dim) or known.latent,
        norms=Norms(queries=head_dim, keys=head_dim) if known.norms_heads else Norms(),
        window=known.window,
        unwindowed_layers=tuple(range(1, _known(run.layers), 2)) if known.window and not known.windows_all else (),
        dropout=of_gpt or (settings.is_megatron and not _known(run.gated_mlp)),
        name=run.model or "model",
    )
    degrees = Degrees(
        tensor=_known(run.tp),
        pipeline=_known(run.pp),
        chunks=run.vpp or 1,
        context=_known(run.cp),
        data=_known(run.dp),
        expert=_known(run.ep),
        expert_tensor=expert_tensor_of(run) if settings.is_megatron else None,
        sequence_parallel=_known(run.sequence_parallel),
        sharding=sharding,
        data_outermost=stated.data_outermost,
    )
    is_megatron = not is_shared or settings.is_megatron or stated.has_settings
    usual = usual_software(
        precision, is_portable=not is_megatron, sends_whole=run.zero in _DEEPSPEED, overlaps_one_chunk=is_shared
    )
    software = replace(
        usual,
        fused_attention=not of_gpt if settings.fused_attention is None else settings.fused_attention,
        transposes_attention=_is_batch_first(run, settings),
        overlaps_gradients=not old,
        overlaps_parameters=not old,
        overlaps_pipeline=not old,
        reduced_bytes=2 if is_shared and is_megatron else usual.reduced_bytes,  # as Megatron-FSDP's guide recommends
    )
    detail = run.recompute_detail or ""
    is_uniform = "uniform" in detail  # then the number is the layers of a group, and every group computes again
    layers_of_cell = None if is_uniform else re.search(r"recompute_num_layers=([0-9]+)", detail)
    kind = recompute_of(run)
    training = Training(
        model=model,
        degrees=degrees,
        microbatch=_known(run.mbs),
        global_batch=_known(run.gbs),
        sequence=_known(run.seq),
        precision=precision,
        schedule=schedule_of(run) or _paired(run, is_paired=stated.applied(software).overlaps_experts),
        recompute=kind,
        full_layers=int(layers_of_cell[1]) if kind == "full" and layers_of_cell else None,
        recompute_modules=recompute_modules(run),
        layout=layout_of(run),
        software=stated.applied(software),
    )
    device = accelerator_named(_known(run.hardware))
    domain = device.link_devices if device.link_devices > 8 else run.gpus_per_node or 8
    return training, Topology.of(device, domain, network_bytes_per_s=run.network_bytes_per_s)


def _paired(run: MeasuredRun, *, is_paired: bool) -> str | None:
    """Return the schedule whose forwards run beside backwards, where a run hides exchanges of tokens so.

    There is none without a pipeline, where all microbatches but one are in pairs anyway, and for one chunk a rank,
    which Megatron-LM refuses.
    """
    return "interleaved-overlap" if is_paired and (run.pp or 1) > 1 and (run.vpp or 1) > 1 else None


_DEEPSPEED = ("1", "2", "3")
"""Stages by their numbers: DeepSpeed's, whose pipeline engine sends a whole message from every tensor-parallel rank."""

_Value = TypeVar("_Value")


def _known(value: _Value | None) -> _Value:
    """Return the value of a field that every completed run has."""
    assert value is not None
    return value


def _positions(run: MeasuredRun, settings: Settings) -> int:
    """Return the number of learned positions: as in GPT, unless the run uses rotary positions."""
    learned = not (run.gated_mlp or settings.values.get("position-embedding-type") == "rope")
    return _known(run.seq) if learned else 0


def _biases(run: MeasuredRun, settings: Settings) -> Biases:
    if run.gated_mlp:
        return Biases()
    return Biases(norms=True) if settings.is_on("disable-bias-linear") else EVERY_BIAS


def _is_batch_first(run: MeasuredRun, settings: Settings) -> bool:
    """Whether sequences come first in the program, but not in its attention: FlashAttention, as up to Ampere."""
    is_flash = settings.values.get("attention-backend") == "flash" or str(run.hardware).startswith(("v100", "a100"))
    return settings.is_megatron and is_flash
