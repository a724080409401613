"""Models that are known by name have what their published configurations state."""

from dataclasses import replace
from pathlib import Path

import pytest

from evenflow.errors import InputError
from evenflow.profiles.measured.as_training import training_of
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.known_models import known_model
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.profiles.transformer.config_file import read_transformer
from tests.profiles.measured.rows import make_run

CONFIGS = Path(__file__).parents[3] / "examples" / "configs"
RUN = MeasuredRun(
    id="a", source="s", ref="r", hardware="h100", gpus=256, model="DeepSeek-V3", hidden=7168, ffn=18432, layers=61,
    heads=128, head_dim=128, vocab=129280, seq=4096, experts=256, active_experts=8, expert_ffn=2048, shared_experts=1,
    mtp_layers=1, gated_mlp=True, tied_embeddings=False, precision="fp8", tp=1, ep=64, pp=4, mbs=1, gbs=256,
)  # fmt: skip


def test_a_run_of_deepseek_is_the_model_of_its_configuration() -> None:
    training, _topology = training_of(completed(RUN))
    stated = read_transformer(CONFIGS / "deepseek_v3.json").model
    for name in ("hidden", "layers", "heads", "ffn", "vocabulary", "latent", "predicted_tokens", "experts"):
        assert getattr(training.model, name) == getattr(stated, name), name


@pytest.mark.parametrize(("name", "dense", "window"), [
    ("DeepSeek-V3 671B", 3, 0), ("deepseek_v2_lite", 1, 0), ("Kimi-K2", 1, 0), ("GLM-4.5-Air", 1, 0), ("GLM 4.5", 3, 0),
    ("GPT-OSS 120B", 0, 128), ("Llama-3.1 8B", 0, 0), ("Mixtral 8x7B", 0, 0),
])  # fmt: skip
def test_names_are_found_however_they_are_written(name: str, dense: int, window: int) -> None:
    known = known_model(name)
    assert (known.dense_layers, known.window) == (dense, window)


def test_every_second_layer_of_gpt_oss_has_a_window() -> None:
    training, _topology = training_of(completed(replace(RUN, model="GPT-OSS 20B", layers=4, pp=1)))
    assert [training.model.kind(layer).window for layer in range(4)] == [True, False, True, False]


def test_tokens_for_experts_of_other_nodes_are_assumed_to_be_sent_once() -> None:
    across = completed(RUN)
    assert "overlap_flags" in [assumption.field for assumption in across.assumed]
    assert training_of(across)[0].software.sends_tokens_once
    inside = completed(replace(RUN, ep=8))
    assert "overlap_flags" not in [assumption.field for assumption in inside.assumed]
    assert not training_of(inside)[0].software.sends_tokens_once
    assert not training_of(completed(replace(RUN, overlap_flags="alltoall")))[0].software.sends_tokens_once


def test_what_is_fully_sharded_is_reduced_in_16_bits_by_megatron_alone() -> None:
    sharded = replace(RUN, pp=1, vpp=1, ep=8, precision="bf16", zero="fsdp")

    def reduced_bytes(flags: str, zero: str = "fsdp") -> int:
        run = completed(replace(sharded, overlap_flags=flags, zero=zero))
        return training_of(run)[0].software.reduced_bytes

    assert reduced_bytes("ddp.overlap_grad_reduce=True") == 2
    assert reduced_bytes("compile") == 4
    assert reduced_bytes("ddp.overlap_grad_reduce=True", "distopt") == 4


@pytest.mark.parametrize(
    "flags", ["DeepEP", "TE + DeepEP", "deepep", "deep_ep", "moe_flex_dispatcher_backend='deepep'"]
)
def test_the_dispatcher_is_told_however_it_is_written(flags: str) -> None:
    run = completed(replace(RUN, zero="fsdp", pp=1, vpp=1, overlap_flags=flags))
    assert training_of(run)[0].software.sends_tokens_once


def test_transformer_engine_is_not_portable_software() -> None:
    sharded = replace(RUN, zero="fsdp", pp=1, vpp=1, precision="bf16")
    portable, engine, flex = (
        training_of(completed(replace(sharded, overlap_flags=flags)))[0].software
        for flags in ("alltoall", "TE", "TE + FlexAttn")
    )
    assert (portable.attention_slowdown, portable.fused_elementwise, portable.fused_loss) == (1.9, False, False)
    assert (engine.attention_slowdown, engine.fused_elementwise, engine.fused_loss) == (1.0, True, False)
    assert (flex.attention_slowdown, flex.fused_elementwise) == (1.9, True)


@pytest.mark.parametrize(("precision", "flags", "recipe"), [
    ("fp8", "alltoall", ""), ("mxfp8", "alltoall", "mxfp8"), ("FP8-CS", "alltoall", "tensorwise"),
    ("fp8", "rowwise", "rowwise"), ("mxfp8", "fp8_recipe='blockwise'", "blockwise"), ("bf16", "alltoall", ""),
])  # fmt: skip
def test_number_formats_name_their_scaling(precision: str, flags: str, recipe: str) -> None:
    run = completed(replace(RUN, precision=precision, overlap_flags=flags))
    assert training_of(run)[0].software.recipe == recipe


def test_sharding_that_flags_state_is_not_assumed() -> None:
    run = completed(replace(RUN, pp=1, vpp=1, zero=None, overlap_flags="FSDP + torch.compile"))
    assert run.zero == "3"
    assert "zero" not in [assumption.field for assumption in run.assumed]


def test_unknown_words_of_a_run_are_refused() -> None:
    with pytest.raises(InputError, match=r"overlap_flags must be a word .*, got 'depep'; did you mean 'deepep'"):
        training_of(completed(replace(RUN, overlap_flags="depep")))


def test_heads_of_qwen3_are_normed() -> None:
    training, _topology = training_of(completed(replace(RUN, model="Qwen3-235B-A22B", layers=4, pp=1)))
    stated = read_transformer(CONFIGS / "qwen3_235b.json").model
    assert (training.model.norms.queries, training.model.norms.keys) == (stated.norms.queries, stated.norms.keys)


@pytest.mark.parametrize(
    ("flags", "chunks", "pipeline", "expected"),
    [
        ("deepep overlap-experts", 2, 4, "interleaved-overlap"),
        ("deepep", 2, 4, None),
        ("deepep overlap-experts", 1, 4, None),
        ("deepep overlap-experts", 1, 1, None),
    ],
)
def test_runs_that_hide_exchanges_in_a_pipeline_have_pairs(
    flags: str, chunks: int, pipeline: int, expected: str | None
) -> None:
    run = replace(RUN, overlap_flags=flags, pp=pipeline, vpp=chunks, layers=16)
    assert training_of(completed(run))[0].schedule == expected


def test_hybridep_launches_less_than_deepep_and_sends_as_much() -> None:
    deepep, hybridep = (
        training_of(completed(replace(RUN, overlap_flags=flags)))[0].software for flags in ("deepep", "hybridep")
    )
    assert (deepep.permutes_sent, hybridep.permutes_sent) == (False, True)
    assert replace(hybridep, permutes_sent=False) == deepep


@pytest.mark.parametrize(("name", "window"), [("mistral-7B 32K", 4096), ("Mistral-7B-v0.3", 0), ("Mixtral 8x7B", 0)])
def test_mistral_has_a_window_in_all_layers(name, window):
    model = training_of(completed(make_run(model=name, gated_mlp="1")))[0].model
    assert model.window == window
    assert all(kind.window for kind in model.kinds) == bool(window)


def test_a_run_may_state_its_network():
    usual = training_of(completed(make_run()))[1].accelerator
    stated = training_of(completed(make_run(network_gb_s="6.25")))[1].accelerator
    assert stated.network_bytes_per_s == 6.25e9 != usual.network_bytes_per_s
    assert stated.reached == usual.reached


@pytest.mark.parametrize(("gated", "hardware", "old"), [("0", "a100-80", True), ("1", "a100-80", False)])
def test_gpt_on_old_devices_has_dropout_and_writes_scores(gated, hardware, old):
    training = training_of(completed(make_run(gated_mlp=gated, hardware=hardware)))[0]
    assert training.model.dropout is old
    assert training.software.fused_attention is not old
