"""A measured run as what a calibration takes."""

from evenflow.predict.calibration.measurement import Measurement, MemoryOf
from evenflow.profiles.measured.as_training import training_of
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.profiles.measured.settings import is_read_from_device, is_reserved


def measurement_of(run: MeasuredRun) -> Measurement:
    """Return a completed run, which lacks nothing, beside its training.

    Raises:
        InputError: a run that `training_of` refuses.
    """
    training, topology = training_of(run)
    return Measurement(
        name=run.id,
        training=training,
        topology=topology,
        step_ns=None if run.step_s is None else run.step_s * 1e9,
        memory_bytes=None if run.mem_gib is None else run.mem_gib * 2**30,
        is_last_rank=run.mem_rank == "last",
        memory_of=memory_of(run),
    )


def memory_of(run: MeasuredRun) -> MemoryOf:
    """Return what the memory of a run counts: what is allocated, unless it says otherwise."""
    if is_read_from_device(run):
        return MemoryOf.DEVICE
    return MemoryOf.RESERVED if is_reserved(run) else MemoryOf.ALLOCATED
