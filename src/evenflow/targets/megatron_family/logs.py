"""Logs of Megatron-LM and of what is built on it: Megatron-DeepSpeed, Megatron-Bridge, MindSpeed, Primus, FlagScale.

The last rank logs progress, the first one the arguments::

     [2025-03-31 05:54:07] iteration       50/  242204 | consumed samples: … | elapsed time per iteration (ms): 1552.8 |
      throughput per GPU (TFLOP/s/GPU): 134.0 | … | global batch size:  1008 | lm loss: 6.258318E+00 | …

[Megatron-LM, `training_log` in megatron/training/training.py, core 0.6 to 0.14, and `report_memory` in
megatron/training/utils.py; Megatron-DeepSpeed, megatron/training.py; Megatron-Bridge, src/megatron/bridge/training/
utils/train_utils.py at 031e7de, whose first rank also prints
``Step Time : 9.70s GPU utilization: 612.5MODEL_TFLOP/s/GPU``; Primus, whose lines add
``hip mem usage/free/total/usage_ratio: 121.5GB/…`` and a mean behind a stroke, at fd1eeabb]
"""

import re
from collections.abc import Iterator

from evenflow.profiles.measured.logs.log_format import (
    NUMBER,
    LogFormat,
    LoggedPeak,
    LoggedStep,
    PeakOf,
    number_in,
)
from evenflow.profiles.measured.logs.megatron_fields import NAMES, megatron_fields
from evenflow.targets.megatron_family.rank_peaks import rank_peaks

_ITERATION = re.compile(r"iteration +([0-9]{1,12})/ *[0-9]{1,12} \|")
_TIME = re.compile(rf"elapsed time per iteration \(ms\): *{NUMBER}")
_TFLOPS = re.compile(rf"(?:throughput per GPU \(TFLOP/s/GPU\)|TFLOPs): *{NUMBER}")
_BATCH = re.compile(r"global batch size: *([0-9]{1,12}) ")
_BRIDGE_STEP = re.compile(rf"Step Time : {NUMBER}s GPU utilization: {NUMBER}")
_PADDED = re.compile(r"padded vocab \(size: ([0-9]{1,12})\)")
_MICROBATCHES = re.compile(r"number of micro-?batches to constant ([0-9]{1,9})")
_DEVICE_MEMORY = re.compile(
    r"(?:mem usage/free/total/usage_ratio|max mem usage/usage_ratio): *([0-9]{1,6}\.[0-9]{1,6})Gi?B/"
)


def _step(line: str) -> LoggedStep | None:
    if "elapsed time per iteration" not in line:
        return None
    iteration, time_ms = _ITERATION.search(line), number_in(_TIME, line)
    if iteration is None or time_ms is None:
        return None
    batch = _BATCH.search(line)
    return LoggedStep(
        number=int(iteration[1]),
        time_s=time_ms / 1000,
        tflops=number_in(_TFLOPS, line),
        batch=None if batch is None else int(batch[1]),
    )


def _bridge_step(line: str) -> LoggedStep | None:
    match = _BRIDGE_STEP.search(line) if "Step Time" in line else None
    return None if match is None else LoggedStep(number=None, time_s=float(match[1]), tflops=float(match[2]))


def _sentences(line: str) -> Iterator[tuple[str, str]]:
    if match := _PADDED.search(line):
        yield "vocabulary before padding", match[1]
    elif match := _MICROBATCHES.search(line):
        yield "microbatches", match[1]


def _peaks(line: str, place: str) -> Iterator[LoggedPeak]:
    for peak in rank_peaks(line, place=place):
        yield LoggedPeak(rank=peak.rank, of=PeakOf.ALLOCATED, size_bytes=peak.allocated_bytes)
    if "usage_ratio" in line:
        for size in _DEVICE_MEMORY.findall(line):
            yield LoggedPeak(rank=None, of=PeakOf.DEVICE, size_bytes=round(float(size) * 2**30))


MEGATRON = LogFormat(
    name="Megatron-LM",
    step=_step,
    fields=megatron_fields,
    names=NAMES,
    sentences=_sentences,
    peaks=_peaks,
    beginnings=("-- arguments --",),
)
MEGATRON_BRIDGE = LogFormat(
    name="Megatron-Bridge",
    step=_bridge_step,
    fields=megatron_fields,
    names=NAMES,
    sentences=_sentences,
    peaks=_peaks,
    gives_way=True,
)
