"""Logs of MindFormers."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.profiles.measured.logs.log_file import parse_log
from evenflow.profiles.measured.logs.log_format import LoggedStep, PeakOf
from evenflow.targets.frameworks.mindformers.logs import MINDFORMERS
from evenflow.targets.registry import log_formats
from tests.profiles.measured.logs.written import mindformers_step, pynative_step


def fields(lines: list[str]) -> dict[str, object]:
    found = MINDFORMERS.fields(parse_log(lines, place="log", formats=log_formats()).stated)
    return {name: value for name, value in found.items() if value is not None}


@given(st.integers(1, 99), st.integers(1, 10**6), st.integers(1, 3))
def test_a_line_of_progress_reads_back_and_epochs_count_on(number: int, time_ms: int, epoch: int) -> None:
    step = MINDFORMERS.step(mindformers_step(number, time_ms, epoch=epoch, steps=100))
    assert step == LoggedStep(number=(epoch - 1) * 100 + number, time_s=time_ms / 1000, tflops=171.176)


@given(st.integers(1, 99), st.integers(1, 10**5))
def test_a_line_of_pynative_mode_reads_back(number: int, time_ms: int) -> None:
    assert MINDFORMERS.step(pynative_step(number, time_ms)) == LoggedStep(
        number=number, time_s=time_ms / 1000, tflops=171.18
    )


def test_lines_that_are_no_progress() -> None:
    for line in (
        "per_step_time: 5ms",
        "step:[ 1/ 2], per_step_time: soon",
        "   0.2% |  | 0.11 samples/s/p  12:01:34 }",
    ):
        assert MINDFORMERS.step(line) is None


@pytest.mark.parametrize(
    ("sentence", "wanted"),
    [
        (
            "Pipeline parallel was opened: pipeline_stages = 4, full batch is True, gradient_accumulation_steps will "
            "not take effect in pipeline parallel, global batch size will be changed: global_batch_size = batch_size * "
            "data_parallel * micro_batch_num * micro_batch_interleave_num = 256 = 1 * 8 * 32 * 1).",
            {"pp": 4, "mbs": 1, "dp": 8, "gbs": 256},
        ),
        (
            "Pipeline parallel was opened: pipeline_stages = 2, full batch is True, global batch size will be changed: "
            "global_batch_size = batch_size * data_parallel * micro_batch_num * micro_batch_interleave_num = "
            "2 * 4 * 8 * 2 = 128).",
            {"pp": 2, "mbs": 4, "dp": 4, "gbs": 128},
        ),
        (
            "The current parallel mode is semi_auto_parallel, full batch is True,so global batch size will be changed: "
            "global_batch_size = batch_size * data_parallel * micro_batch_interleave_num * gradient_accumulation_steps "
            "= 16 = 1 * 8 * 1 * 2",
            {"pp": 1, "mbs": 1, "dp": 8, "gbs": 16},
        ),
        ("global_batch_size = batch_size * data_parallel = soon", {}),
    ],
)
def test_the_sentence_of_the_batch(sentence: str, wanted: dict[str, int]) -> None:
    assert fields([sentence]) == wanted


def test_the_converted_configuration() -> None:
    line = str({
        "num_layers": 61, "hidden_size": 7168, "num_attention_heads": 128, "num_query_groups": None,
        "ffn_hidden_size": 18432, "moe_ffn_hidden_size": 2048, "num_moe_experts": 256, "moe_router_topk": 8,
        "shared_expert_num": 1, "vocab_size": 129280, "seq_length": 4096, "compute_dtype": "bfloat16",
        "tensor_model_parallel_size": 4, "expert_model_parallel_size": 16, "gated_linear_unit": True,
        "use_seq_parallel": True,
    })  # fmt: skip
    assert fields(["INFO - The converted MLATransformerConfig is: ", line]) == {
        "hidden": 7168, "ffn": 18432, "layers": 61, "heads": 128, "kv_heads": 128, "vocab": 129280, "seq": 4096,
        "experts": 256, "active_experts": 8, "expert_ffn": 2048, "notes": "moe-shared-expert-intermediate-size=2048",
        "gated_mlp": True,
        "precision": "bf16", "tp": 4, "ep": 16, "sequence_parallel": True,
    }  # fmt: skip


def test_peaks_are_those_that_mindspore_writes() -> None:
    run = parse_log(
        [
            "Actual peak memory usage (with fragments): 54533M",
            "Used peak memory usage (without fragments): 51200M",
        ],
        place="log",
        formats=log_formats(),
    )
    assert run.peaks == {PeakOf.RESERVED: {None: 54533 * 2**20}, PeakOf.ALLOCATED: {None: 50 * 2**30}}
