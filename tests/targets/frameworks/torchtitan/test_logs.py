"""Logs of torchtitan."""

import json
from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.predict.stated_software import stated_software
from evenflow.profiles.logs.log_lines import log_lines
from evenflow.profiles.measured.logs.log_file import LoggedRun, parse_log
from evenflow.profiles.measured.logs.log_format import LoggedStep, PeakOf
from evenflow.targets.frameworks.torchtitan.logs import TORCHTITAN
from evenflow.targets.registry import log_formats
from tests.profiles.measured.logs.written import titan_head, titan_line, titan_step


def parsed(lines: list[str]) -> LoggedRun:
    return parse_log(log_lines(BytesIO("\n".join(lines).encode())), place="log", formats=log_formats())


def fields(lines: list[str]) -> dict[str, object]:
    found = TORCHTITAN.fields(parsed(lines).stated)
    return {name: value for name, value in found.items() if value is not None}


@given(st.integers(min_value=1, max_value=10**6), st.integers(min_value=1, max_value=10**7))
def test_a_line_of_progress_reads_back_without_its_colours(number: int, tps: int) -> None:
    (line,) = log_lines(BytesIO(titan_step(number, tps).encode()))
    assert TORCHTITAN.step(line) == LoggedStep(number=number, tokens_s=tps, tflops=1407.91)


@pytest.mark.parametrize(
    ("text", "step"),
    [
        (
            "step: 10  loss:  8.1  memory: 38.05GiB(40.06%)  wps: 5,720  mfu: 33.5%",
            LoggedStep(number=10, tokens_s=5720),
        ),
        (
            "step:  2  loss: 7.7  memory:  1.34GiB(0.86%)  tps: 301,092  tflops: 21.5  mfu: N/A",
            LoggedStep(number=2, tokens_s=301092, tflops=21.5),
        ),
        (
            "step:  2  loss: 7.7  memory:  1.34GiB(0.86%)  tps: 301  tflops: 21.5  elapsed_time_per_step: 1.234s",
            LoggedStep(number=2, tokens_s=301, tflops=21.5, time_s=1.234),
        ),
        ("validate step: 10  loss:  8.1  memory: 38.05GiB(40.06%)  tps: 5,720", None),
        ("step: 10  loss: 3", None),
    ],
)
def test_other_versions(text: str, step: LoggedStep | None) -> None:
    assert TORCHTITAN.step(titan_line(text)) == step


def test_the_memory_of_a_line_is_what_the_allocator_reserved() -> None:
    run = parsed([titan_step(number, 10, memory_gib=size) for number, size in enumerate((3.5, 47.25, 5.0))])
    assert run.peaks == {PeakOf.RESERVED: {0: round(47.25 * 2**30)}}


def test_the_configuration_of_a_llama() -> None:
    assert fields(titan_head()) == {
        "hardware": "h100", "model": "llama3 8B", "hidden": 4096, "ffn": 14336, "layers": 32, "heads": 32,
        "kv_heads": 8, "vocab": 128256, "seq": 8192, "gated_mlp": True, "tied_embeddings": False, "precision": "bf16",
        "tp": 1, "cp": 1, "ep": 1, "dp": 64, "pp": 1, "vpp": 1, "sequence_parallel": False, "zero": "fsdp", "mbs": 1,
        "gbs": 64, "recompute": "selective", "overlap_flags": "torch.compile",
    }  # fmt: skip


def test_a_pipeline_splits_the_local_batch_and_has_several_stages_a_rank() -> None:
    mesh = "pp=4, dp_replicate=2, dp_shard=1, cp=1, tp=8, ep=1"
    lines = [
        *titan_head(mesh=mesh),
        titan_line("Using pipeline schedule Interleaved1F1B with 8 microbatches and 8 stages."),
        titan_line("Trainer is initialized with local batch size 8, global batch size 16, gradient accumulation steps "
                   "1, sequence length 4096, total steps 10 (warmup 2)."),
        titan_line("Float8 training active"),
    ]  # fmt: skip
    found = fields(lines)
    wanted = {
        "pp": 4, "vpp": 2, "dp": 2, "tp": 8, "mbs": 1, "gbs": 16, "seq": 4096, "schedule": "interleaved",
        "zero": "0", "precision": "fp8", "sequence_parallel": True,
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted


@pytest.mark.parametrize(
    ("sentence", "software"),
    [
        ("Float8 training active", "torch.compile"),
        ("Float8 tensorwise scaled training active", "torch.compile, tensorwise"),
        ("Float8 training active with recipe rowwise", "torch.compile, rowwise"),
        ("MX training active with recipe mxfp8_cublas", "torch.compile, mxfp8_cublas"),
        ("MXFP8 training active", "torch.compile, mxfp8"),
    ],
)
def test_the_recipe_of_eight_bits(sentence: str, software: str) -> None:
    found = fields([*titan_head(), titan_line(sentence)])
    assert (found["precision"], found["overlap_flags"]) == ("fp8", software)
    stated_software(software, place="here")


def test_the_mesh_of_older_versions() -> None:
    lines = [titan_line("Building 3-D device mesh with ['pp', 'dp_shard', 'tp'], [2, 16, 8]")]
    found = fields(lines)
    assert [found[name] for name in ("pp", "dp", "tp", "cp")] == [2, 16, 8, 1]
    experts = [titan_line("Building 2-D device mesh with ['dp_shard_mod_ep', 'dp_shard_in_ep'], [2, 4]")]
    assert fields(experts)["dp"] == 8


def test_a_model_may_be_printed_over_several_lines() -> None:
    layer = {"attention": {"n_heads": 32, "n_kv_heads": 8, "dim": 7}, "feed_forward": {"hidden_dim": 14336}}
    model = {"dim": 4096, "n_layers": 32, "vocab_size": 128256, "layer": layer, "rope": {"dim": 128}}
    text = "[rank0]:[titan] - root - INFO - Building llama3 8B with " + json.dumps(model, indent=2)
    lines = ["[rank0]:" + line if number else line for number, line in enumerate(text.split("\n"))]
    found = fields([*lines, titan_line("Model llama3 8B size: 8,030,261,248 total parameters")])
    wanted = {
        "model": "llama3 8B", "hidden": 4096, "layers": 32, "vocab": 128256, "heads": 32, "kv_heads": 8, "ffn": 14336,
        "gated_mlp": True,
    }  # fmt: skip
    assert {name: found[name] for name in wanted} == wanted


def test_no_recomputation_is_silent_and_a_cut_log_says_nothing() -> None:
    lines = [line for line in titan_head() if "checkpointing" not in line]
    assert fields(lines)["recompute"] == "none"
    assert "recompute" not in fields(lines[:3])
    full = [line.replace("Applied selective", "Applied FullAC") for line in titan_head()]
    assert fields(full)["recompute"] == "full"


def test_settings_stand_in_for_sentences_that_are_missing() -> None:
    lines = titan_head()[:2]
    assert fields(lines) == {"tp": 1, "seq": 8192, "mbs": 1, "precision": "bf16", "sequence_parallel": False}
