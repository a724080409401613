"""Logs of NeMo: lines of progress that a printer writes, or a bar that writes over itself::

    Training epoch 0, iteration 3/99 | lr: 1.96e-06 | global_batch_size: 512 | global_step: 3 | reduced_train_loss: … |
      train_step_timing in s: 2.505 | consumed_samples: 2048
    Epoch 0: : 4%|▍   | 4/100 [00:31<…, reduced_train_loss=11.0, global_step=3.000, …, train_step_timing in s=2.505]

The degrees are in the groups that it builds, sizes where the experiment's YAML is printed, and the device where
Lightning says that it has Tensor Cores.
[NeMo 1.20 to 2.5: nemo/lightning/pytorch/callbacks/progress_printer.py at 01f7dbc, nemo/lightning/megatron_init.py,
`OmegaConf.to_yaml` in examples/nlp/language_modeling; Lightning 2, lightning/fabric/accelerators/cuda.py]
"""

import re
from collections.abc import Iterator

from evenflow.profiles.measured.logs.device_names import accelerator_of
from evenflow.profiles.measured.logs.log_format import NUMBER, LogFormat, LoggedStep, number_in
from evenflow.profiles.measured.logs.megatron_fields import NAMES, megatron_fields

_TIME = re.compile(rf"train_step_timing in s(?:: |=){NUMBER}")
_NUMBER = re.compile(r"global_step(?:: |=)([0-9]{1,12})")
_BATCH = re.compile(r"global_batch_size(?:: |=)([0-9]{1,12})")
_TFLOPS = re.compile(rf"(?:TFLOPS_per_GPU|tflops_per_sec_per_gpu)(?:: |=){NUMBER}")
_GROUP = re.compile(
    r"Rank [0-9]{1,9} has (tensor model|pipeline model|context|data) parallel group ?: \[([0-9, ]{1,100000})\]"
)
_DEVICE = re.compile(r"You are using a CUDA device \('([^']{1,80})'\)")
_SIZES = {
    "tensor model": "tensor_model_parallel_size",
    "pipeline model": "pipeline_model_parallel_size",
    "context": "context_parallel_size",
    "data": "data_parallel_size",
}


def _step(line: str) -> LoggedStep | None:
    time_s = number_in(_TIME, line) if "train_step_timing" in line else None
    if time_s is None:
        return None
    number, batch = _NUMBER.search(line), _BATCH.search(line)
    return LoggedStep(
        number=None if number is None else int(number[1]),
        time_s=time_s,
        tflops=number_in(_TFLOPS, line),
        batch=None if batch is None else int(batch[1]),
    )


def _sentences(line: str) -> Iterator[tuple[str, str]]:
    if match := _GROUP.search(line):
        yield _SIZES[match[1]], str(match[2].count(",") + 1)
    elif match := _DEVICE.search(line):
        yield "device", accelerator_of(match[1]) or ""


NEMO = LogFormat(name="NeMo", step=_step, fields=megatron_fields, names=NAMES, sentences=_sentences)
