"""What a step of a training is worth beside its loss: the share of the peak, memory."""

import resource
import sys

import torch

from evenflow.cluster import Dtype
from evenflow.cluster.data_sheets import ACCELERATORS
from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.predict.model_flops import model_flops
from evenflow.predict.training import FORMATS, Degrees, Training
from evenflow.profiles.measured.logs.device_names import accelerator_of
from evenflow.profiles.transformer.config_file import transformer_of_config
from evenflow_torch.run.job.models import model_values
from evenflow_torch.run.values.run_job import RunJob

_PRECISIONS = {Dtype.BFLOAT16: "bf16", Dtype.FLOAT32: "fp32"}


def seconds_at_peak(job: RunJob, device: torch.device) -> float | None:
    """Return how long a step would take if all devices computed at their peak rate; None where that is not known."""
    precision = _PRECISIONS.get(job.dtype)
    name = accelerator_of(torch.cuda.get_device_name(device)) if device.type == "cuda" else None
    if precision is None or name is None:
        return None
    try:
        model = transformer_of_config(Fields(values=model_values(job), file=job.model)).model
    except InputError:  # a model that runs, and that no prediction knows
        return None
    training = Training(
        model=model,
        degrees=Degrees(),
        microbatch=job.microbatch_size,
        global_batch=job.num_samples,
        sequence=job.sequence_length,
    )
    return model_flops(training) / (ACCELERATORS[name].rate(FORMATS[precision]) * job.num_processes)


def most_memory_bytes(device: torch.device) -> int:
    """Return the most memory that this process has held so far: on a GPU by its allocator, else the process itself."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
