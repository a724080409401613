"""The axes of the space: what a configuration chooses, by the name that options and results have for it."""

from collections.abc import Callable, Mapping
from enum import StrEnum

from evenflow.predict.expert_work import expert_tensor
from evenflow.predict.training import Training
from evenflow.schedule import default_family


class Axis(StrEnum):
    """What a configuration chooses."""

    TENSOR = "tensor"
    CONTEXT = "context"
    EXPERT = "expert"
    EXPERT_TENSOR = "expert-tensor"
    PIPELINE = "pipeline"
    DATA = "data"
    CHUNKS = "chunks"
    MICROBATCH = "microbatch"
    ZERO = "zero"
    SCHEDULE = "schedule"


Value = int | str


def schedule_of(training: Training) -> str:
    """Return the name of the schedule family, also where it is the usual one."""
    return training.schedule or default_family(num_chunks=training.degrees.chunks, less_memory=False)


_VALUES: Mapping[Axis, Callable[[Training], Value]] = {
    Axis.TENSOR: lambda training: training.degrees.tensor,
    Axis.CONTEXT: lambda training: training.degrees.context,
    Axis.EXPERT: lambda training: training.degrees.expert,
    Axis.EXPERT_TENSOR: expert_tensor,
    Axis.PIPELINE: lambda training: training.degrees.pipeline,
    Axis.DATA: lambda training: training.degrees.data,
    Axis.CHUNKS: lambda training: training.degrees.chunks,
    Axis.MICROBATCH: lambda training: training.microbatch,
    Axis.ZERO: lambda training: int(training.degrees.sharding),
    Axis.SCHEDULE: schedule_of,
}


def value_of(training: Training, axis: Axis) -> Value:
    """Return what a training has chosen on one axis."""
    return _VALUES[axis](training)
