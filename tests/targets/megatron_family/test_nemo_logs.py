"""Logs of NeMo."""

from io import BytesIO

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.profiles.logs.log_lines import log_lines
from evenflow.profiles.measured.logs.log_file import parse_log
from evenflow.profiles.measured.logs.log_format import LoggedStep
from evenflow.targets.megatron_family.nemo_logs import NEMO
from evenflow.targets.registry import log_formats
from tests.profiles.measured.logs.written import nemo_bar, nemo_step


@given(st.integers(min_value=0, max_value=10**6), st.floats(min_value=0.01, max_value=9000), st.integers(1, 10**5))
def test_a_line_of_the_printer_reads_back(number: int, time_s: float, batch: int) -> None:
    step = NEMO.step(nemo_step(number, time_s, batch=batch))
    assert step == LoggedStep(number=number, time_s=float(f"{time_s:.4}"), batch=batch)


def test_a_bar_that_writes_over_itself_is_a_line_each_time() -> None:
    text = "".join(nemo_bar(number, 2.5 + number / 1000) for number in range(1, 30))
    run = parse_log(log_lines(BytesIO(text.encode())), place="log", formats=log_formats())
    assert run.format is NEMO
    assert run.steady is not None
    assert (run.steady.logged, run.steady.used, run.steady.time_s) == (29, 26, pytest.approx(2.5165))


def test_degrees_are_in_the_groups_and_sizes_in_the_experiment() -> None:
    text = """
You are using a CUDA device ('NVIDIA H100 80GB HBM3') that has Tensor Cores.
[NeMo I 2024-11-14 19:42:15 exp:1] ************** Experiment configuration ***********
[NeMo I 2024-11-14 19:42:15 exp:2]
    trainer:
      devices: 8
      num_nodes: 4
      precision: bf16-mixed
    model:
      micro_batch_size: 1
      global_batch_size: 128
      encoder_seq_length: 4096
      num_layers: 24
      hidden_size: 2048
      num_attention_heads: 16
      activations_checkpoint_granularity: selective
[NeMo I 2024-11-14 19:42:15 megatron_init:396] Rank 0 has data parallel group : [0, 8, 16, 24]
[NeMo I 2024-11-14 19:42:15 megatron_init:418] Rank 0 has context parallel group: [0]
[NeMo I 2024-11-14 19:42:15 megatron_init:429] Rank 0 has model parallel group: [0, 1, 2, 3, 4, 5, 6, 7]
[NeMo I 2024-11-14 19:42:15 megatron_init:439] Rank 0 has tensor model parallel group: [0, 1]
[NeMo I 2024-11-14 19:42:15 megatron_init:464] Rank 0 has pipeline model parallel group: [0, 8, 16, 24]
"""
    found = NEMO.fields(parse_log(text.split("\n"), place="log", formats=log_formats()).stated)
    assert {name: value for name, value in found.items() if value is not None} == {
        "hardware": "h100",
        "gpus": 32, "gpus_per_node": 8, "hidden": 2048, "layers": 24, "heads": 16, "kv_heads": 16, "seq": 4096,
        "precision": "bf16", "tp": 2, "cp": 1, "dp": 4, "pp": 4, "mbs": 1, "gbs": 128, "recompute": "selective",
    }  # fmt: skip


def test_lines_that_are_no_progress() -> None:
    for line in ("train_step_timing in s", "train_step_timing in s: soon", "Validation: iteration 3/5"):
        assert NEMO.step(line) is None
