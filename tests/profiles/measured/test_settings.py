"""Settings that the notes of a measured run state."""

from dataclasses import replace

from evenflow.predict.training import PRODUCTS
from evenflow.profiles.measured.settings import (
    expert_tensor_of,
    is_read_from_device,
    recompute_modules,
    settings_of,
)
from tests.profiles.measured.rows import make_run

RUN = make_run()

NOTES = (
    "expert tensor parallel 2; transformer-impl=transformer_engine; attention-backend=unfused; "
    "moe-layer-freq=([0]*3+[1]*12); multi-latent-attention=True"
)


def test_stated_settings() -> None:
    found = settings_of(replace(RUN, notes=NOTES))
    assert found.is_megatron
    assert found.fused_attention is False
    assert (found.expert_tensor, found.dense_layers, found.shared_ffn) == (2, 3, 0)
    latent = found.latent(128)
    assert latent is not None
    assert (latent.plain_dim, latent.rotary_dim, latent.value_dim) == (128, 64, 128)


def test_nothing_stated() -> None:
    found = settings_of(replace(RUN, notes=None))
    assert not found.is_megatron
    assert found.fused_attention is None
    assert (found.expert_tensor, found.dense_layers, found.latent(128)) == (None, 0, None)


def test_attention_of_a_megatron_run_is_fused_unless_its_layers_are_its_own() -> None:
    for implementation, fused in (("local", False), ("transformer_engine", True)):
        assert settings_of(replace(RUN, notes=f"transformer-impl={implementation}")).fused_attention is fused


def test_experts_are_split_as_other_layers_in_megatron_and_not_elsewhere() -> None:
    run = replace(RUN, tp=4, experts=8, notes=None)
    assert expert_tensor_of(run) == 1
    assert expert_tensor_of(replace(run, notes="transformer-impl=local")) == 4
    assert expert_tensor_of(replace(run, notes="transformer-impl=local; expert tensor parallel 2")) == 2


def test_recomputed_and_offloaded_modules() -> None:
    detail = (
        "recompute-granularity=selective recompute-modules=[layernorm moe_act] offload-modules=[core_attn attn_norm]"
    )
    assert recompute_modules(replace(RUN, recompute_detail=detail)) == ("layernorm", "moe_act", "core_attn")
    assert recompute_modules(replace(RUN, recompute_detail=None, zero="distopt")) == ("core_attn",)
    assert recompute_modules(replace(RUN, recompute_detail=None, zero="fsdp")) == (PRODUCTS,)
    assert recompute_modules(replace(RUN, recompute_detail="recompute_modules=['moe_act']")) == ("moe_act",)


def test_memory_in_whole_gigabytes_was_read_from_the_device() -> None:
    assert is_read_from_device(replace(RUN, notes="memory is GB as read by nvidia-smi"))
    assert is_read_from_device(replace(RUN, notes="memory in whole GB"))
    assert not is_read_from_device(replace(RUN, notes=None))
