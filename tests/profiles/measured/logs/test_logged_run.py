"""Logs as measured runs."""

from pathlib import Path

import pytest

from evenflow.errors import InputError
from evenflow.predict.training import Sharding
from evenflow.profiles.measured.as_training import training_of
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.logs.log_file import LogFile, parse_log
from evenflow.profiles.measured.logs.logged_run import measured_run
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.profiles.measured.settings import is_read_from_device
from evenflow.targets.registry import log_formats
from tests.profiles.measured.logs import written
from tests.profiles.measured.logs.written import LLAMA, arguments, memory, steps, titan_head, titan_step


def run_of(*logs: list[str], names: tuple[str, ...] = ()) -> MeasuredRun:
    paths = [Path("runs/a") / name for name in names] or [Path("runs/a.log")] * len(logs)
    files = [
        LogFile(
            path=path, run=parse_log([line.replace("\x1b", "") for line in log], place=str(path), formats=log_formats())
        )
        for path, log in zip(paths, logs, strict=True)
    ]
    return measured_run(files, place=Path("runs/a.log"))


def test_a_log_of_megatron_has_all_that_a_prediction_needs() -> None:
    run = run_of(
        [*arguments(LLAMA), memory(0, 40960.0, 45000.0), memory(8, 30720.0, 45000.0), *steps([9000, 3000, *[2000] * 8])]
    )
    assert (run.id, run.source, run.lacks) == ("runs/a.log", "runs", ())
    assert (run.step_s, run.tflops_gpu, run.mem_gib, run.mem_rank) == (2.0, 400.0, 40.0, "max")
    assert (run.gpus, run.dp, run.microbatches, run.schedule, run.model) == (16, 4, 32, "1f1b", "h4096 L32")
    assert run.notes == ("log of Megatron-LM: median of 8 of 10 lines, the middle half within 0.00%; peak=allocated")
    assert {each.field for each in completed(run).assumed} == {"hardware", "gpus_per_node", "vocab"}


def test_the_training_of_a_log_is_what_its_arguments_ask_for() -> None:
    sizes = LLAMA | {"padded_vocab_size": 128256, "virtual_pipeline_model_parallel_size": 4, "fp8": "hybrid"}
    run = run_of([*arguments(sizes), *steps([9000, 3000, *[2000] * 8])])
    training, _topology = training_of(completed(run))
    model = training.model
    assert (model.hidden, model.layers, model.heads, model.kv_heads, model.head_dim) == (4096, 32, 32, 8, 128)
    assert (model.ffn, model.vocabulary, model.gated, model.tied, model.experts) == (14336, 128256, True, False, None)
    degrees = training.degrees
    assert (degrees.tensor, degrees.pipeline, degrees.chunks, degrees.context, degrees.data) == (2, 2, 4, 1, 4)
    assert (degrees.devices, degrees.sequence_parallel, degrees.sharding) == (16, True, Sharding.OPTIMIZER)
    assert (training.microbatch, training.global_batch, training.microbatches) == (1, 128, 32)
    assert (training.sequence, training.precision, training.recompute) == (8192, "fp8", "none")


def test_a_step_of_torchtitan_follows_from_its_rate() -> None:
    run = run_of([*titan_head(batch=128), *(titan_step(number, 8192) for number in range(1, 12))])
    assert run.step_s == pytest.approx(128 * 8192 / (8192 * 64)) == 2.0
    assert (run.tokens_s_gpu, run.mem_gib, run.mem_rank, run.lacks) == (8192, 47.25, "max", ())


def test_a_rate_without_the_size_of_the_batch_gives_no_step() -> None:
    run = run_of([titan_step(number, 8192) for number in range(1, 12)])
    assert (run.step_s, run.tokens_s_gpu) == (None, 8192)
    assert run.lacks == ("hidden", "layers", "seq", "gbs", "mbs", "tp", "pp")


def test_a_step_of_deepspeed_follows_from_sequences_per_second() -> None:
    head = ["[INFO] [config.py:1001:print]   train_batch_size ............. 128"]
    run = run_of([*head, *(written.deepspeed_step(number, 64.0) for number in range(1, 12))])
    assert (run.step_s, run.gbs, run.mem_gib) == (2.0, 128, pytest.approx(38.49))


def test_the_batch_of_the_steps_goes_before_that_of_the_arguments() -> None:
    run = run_of([*arguments(LLAMA), *(written.iteration(number, 100.0, batch=64) for number in range(1, 9))])
    assert (run.gbs, run.microbatches) == (64, 16)


@pytest.mark.parametrize("sentence", [
    "INFO:megatron.core.num_microbatches_calculator:setting number of microbatches to constant 32",
    "setting number of micro-batches to constant 32",
])  # fmt: skip
def test_devices_follow_from_the_microbatches(sentence: str) -> None:
    sizes = {name: value for name, value in LLAMA.items() if name not in ("world_size", "data_parallel_size")}
    run = run_of([*arguments(sizes), sentence, *steps([9000, 3000, *[2000] * 8])])
    assert (run.microbatches, run.dp, run.gpus) == (32, 4, 16)


def test_ranks_give_what_they_have() -> None:
    """The first rank prints the arguments, the last one progress, each its memory."""
    first = [*arguments(LLAMA), memory(0, 40960.0, 45000.0)]
    last = [memory(8, 30720.0, 45000.0), *steps([9000, 3000, *[2000] * 8])]
    run = run_of(first, last)
    assert run == run_of([*first, *last])
    assert (run.step_s, run.layers, run.mem_gib, run.mem_rank) == (2.0, 32, 40.0, "max")
    alone = run_of(last)
    assert (alone.step_s, alone.layers, alone.mem_gib) == (2.0, None, 30.0)


def test_a_rank_may_be_named_by_its_log() -> None:
    logs = [
        ["Used peak memory usage (without fragments): 1024M", *(written.mindformers_step(n, 2000) for n in range(9))],
        ["Used peak memory usage (without fragments): 2048M", "Pipeline parallel was opened: pipeline_stages = 2, "
         "global_batch_size = batch_size * data_parallel * micro_batch_num = 8 = 1 * 1 * 8", "model_parallel: 1"],
    ]  # fmt: skip
    run = run_of(*logs, names=("rank_0/info.log", "rank_1/info.log"))
    assert (run.pp, run.gpus, run.mem_gib, run.mem_rank, run.step_s) == (2, 2, 2.0, "max", 2.0)
    assert run_of(*logs, names=("a.log", "b.log")).mem_gib is None


def test_a_run_may_have_memory_alone() -> None:
    run = run_of([*arguments(LLAMA), memory(8, 30720.0, 45000.0)])
    assert (run.step_s, run.mem_gib, run.mem_rank) == (None, 30.0, "last")


def test_a_calibration_knows_memory_of_the_device_from_that_of_the_framework() -> None:
    device = " | hip mem usage/free/total/usage_ratio: 205.00GB/83.00GB/288.00GB/71.18% |"
    lines = steps([9000, 3000, *[2000] * 8])
    alone = run_of([*arguments(LLAMA | {"pipeline_model_parallel_size": 1}), *(line + device for line in lines)])
    assert (alone.mem_gib, alone.mem_rank, is_read_from_device(alone)) == (205.0, "max", True)
    both = run_of([*arguments(LLAMA), memory(8, 1024.0, 2048.0), *(line + device for line in lines)])
    assert (both.mem_gib, both.mem_rank, is_read_from_device(both)) == (1.0, "last", False)


def test_what_cannot_be_is_not_measured() -> None:
    run = run_of([*titan_head(), *(titan_step(number, 5e10) for number in range(1, 12))])
    assert (run.step_s, run.tokens_s_gpu, run.tflops_gpu) == (None, None, 1407.91)


def test_restarts_are_told() -> None:
    run = run_of([*arguments(LLAMA), *steps([9000, 3000, 2000, 2000]), *steps([9000, 3000, 1000, 1000])])
    assert run.step_s == 1.0
    assert run.notes is not None
    assert "after 1 restart;" in run.notes + ";"


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "must have lines of progress of Megatron-LM"),
        (arguments(LLAMA), "must have lines of progress of Megatron-LM"),
        ([*arguments(LLAMA), *steps([1000, 1000])], "must log at least 3 steps"),
        ([memory(0, 1.0, 1.0)], "must have lines of progress"),
        ([*arguments(LLAMA), memory(0, 0.0, 1.0)], "the peak memory must be above zero"),
    ],
)
def test_what_is_no_measurement(lines: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message):
        run_of(lines)
