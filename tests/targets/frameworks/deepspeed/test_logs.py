"""Logs of DeepSpeed without Megatron."""

from hypothesis import given
from hypothesis import strategies as st

from evenflow.profiles.measured.logs.log_file import parse_log
from evenflow.profiles.measured.logs.log_format import LoggedStep, PeakOf
from evenflow.targets.frameworks.deepspeed.logs import DEEPSPEED
from evenflow.targets.registry import log_formats
from tests.profiles.measured.logs.written import deepspeed_step

CONFIGURATION = (
    "[2023-11-07 01:55:23,000] [INFO] [config.py:1001:print]   train_batch_size ............. 128",
    "[2023-11-07 01:55:23,000] [INFO] [config.py:1001:print]   train_micro_batch_size_per_gpu  4",
    "[2023-11-07 01:55:23,000] [INFO] [config.py:1001:print]   world_size ................... 8",
    "[2023-11-07 01:55:23,000] [INFO] [config.py:1001:print]   bfloat16_enabled ............. True",
    "[2023-11-07 01:55:23,000] [INFO] [config.py:1001:print]   zero_optimization_stage ...... 3",
)


@given(st.integers(1, 10**6), st.floats(min_value=0.001, max_value=1e5))
def test_a_line_of_progress_reads_back(number: int, rate: float) -> None:
    step = DEEPSPEED.step(deepspeed_step(number, rate))
    assert step is not None
    assert step == LoggedStep(number=number, samples_s=rate)


def test_older_versions_number_steps_behind_the_epoch() -> None:
    line = "[timer.py:198:stop] 0/20, RunningAvgSamplesPerSec=232.7, CurrSamplesPerSec=227.5, MemAllocated=0.36GB"
    assert DEEPSPEED.step(line) == LoggedStep(number=20, samples_s=227.5)
    assert DEEPSPEED.step("CurrSamplesPerSec=227.5") is None


def test_configuration_and_memory() -> None:
    run = parse_log(
        [*CONFIGURATION, *(deepspeed_step(number, 25.0, 30.5) for number in range(5))],
        place="log",
        formats=log_formats(),
    )
    found = {name: value for name, value in DEEPSPEED.fields(run.stated).items() if value is not None}
    assert found == {"gpus": 8, "mbs": 4, "gbs": 128, "zero": "3", "precision": "bf16"}
    assert run.peaks == {PeakOf.ALLOCATED: {None: round(30.5 * 2**30)}}
