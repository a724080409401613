"""Logs of DeepSpeed, which knows no model: its engine's lines of progress and the configuration that it prints::

    [INFO] [timer.py:260:stop] epoch=0/micro_step=40/global_step=10, RunningAvgSamplesPerSec=25.0,
      CurrSamplesPerSec=25.7, MemAllocated=4.32GB, MaxMemAllocated=38.49GB
    [INFO] [config.py:1001:print]   train_batch_size ............. 128

[DeepSpeed 0.7 to 0.17, deepspeed/utils/timer.py and deepspeed/runtime/config.py]
"""

import re
from collections.abc import Iterator

from evenflow.profiles.measured.logs.log_format import NUMBER, LogFormat, LoggedPeak, LoggedStep, PeakOf, number_in
from evenflow.profiles.measured.logs.stated import Stated

_STEP = re.compile(r"(?:global_step=|[0-9]/)([0-9]{1,12}), RunningAvgSamplesPerSec=")
_RATE = re.compile(rf"CurrSamplesPerSec={NUMBER}")
_PEAK = re.compile(r"MaxMemAllocated=([0-9]{1,6}(?:\.[0-9]{1,6})?)GB")

_LONG_NAME = re.compile(r"print\] +(train_micro_batch_size_per_gpu)  ([0-9]{1,12})")
"""A name without room for dots."""


def _step(line: str) -> LoggedStep | None:
    rate = number_in(_RATE, line) if "CurrSamplesPerSec" in line else None
    step = _STEP.search(line)
    return None if rate is None or step is None else LoggedStep(number=int(step[1]), samples_s=rate)


def _sentences(line: str) -> Iterator[tuple[str, str]]:
    yield from _LONG_NAME.findall(line)


def _peaks(line: str, place: str) -> Iterator[LoggedPeak]:
    size = number_in(_PEAK, line) if "MaxMemAllocated" in line else None
    if size:
        yield LoggedPeak(rank=None, of=PeakOf.ALLOCATED, size_bytes=round(size * 2**30))


def _fields(stated: Stated) -> dict[str, object]:
    stage = stated.word("zero_optimization_stage")
    precisions = (("bfloat16_enabled", "bf16"), ("fp16_enabled", "fp16"))
    return {
        "gpus": stated.whole("world_size"),
        "mbs": stated.whole("train_micro_batch_size_per_gpu"),
        "gbs": stated.whole("train_batch_size"),
        "zero": stage if stage in ("0", "1", "2", "3") else None,
        "precision": next((kind for name, kind in precisions if stated.flag(name)), None),
    }


DEEPSPEED = LogFormat(
    name="DeepSpeed",
    step=_step,
    gives_way=True,
    fields=_fields,
    names=frozenset(
        (
            "world_size", "train_batch_size", "train_micro_batch_size_per_gpu", "zero_optimization_stage",
            "bfloat16_enabled", "fp16_enabled",
        )
    ),
    sentences=_sentences,
    peaks=_peaks,
)  # fmt: skip
