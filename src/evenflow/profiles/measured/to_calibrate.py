"""Measured runs as what a calibration of one accelerator takes, and which of them cannot be taken."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.data_sheets import ACCELERATORS, accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.errors import InputError
from evenflow.language import _
from evenflow.predict.calibration.measurement import Measurement, MemoryOf
from evenflow.predict.limits.checks import check_training
from evenflow.profiles.measured.as_training import training_of
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.run import Assumption, MeasuredRun
from evenflow.profiles.measured.settings import is_read_from_device, is_reserved

_RACK = 8
"""Fast domains of more devices than a node has are racks, whatever a run says of its nodes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A run that the calibration leaves out, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RunsToCalibrate:
    """Runs on one accelerator."""

    accelerator: Accelerator
    measurements: tuple[Measurement, ...]
    assumed: tuple[tuple[Assumption, int], ...]
    """What runs do not state, with the number of runs, the most frequent first."""
    left_out: tuple[LeftOut, ...]


def runs_to_calibrate(runs: Sequence[MeasuredRun], accelerator: Accelerator | None) -> RunsToCalibrate:
    """Return the runs made on `accelerator`; None takes the one that all runs state.

    Raises:
        InputError: no accelerator, or several of them, or not one run that can be taken.
    """
    accelerator = _stated_accelerator(runs) if accelerator is None else accelerator
    measurements: list[Measurement] = []
    left_out: list[LeftOut] = []
    assumed: Counter[tuple[str, object, str]] = Counter()
    for run in runs:
        reason = _reason_against(run, accelerator)
        if not reason:
            whole = completed(replace(run, hardware=_hardware(run, accelerator)))
            try:
                measurements.append(_measurement(run, whole, accelerator))
            except InputError as error:
                reason = str(error)
            else:
                assumed.update(
                    (assumption.field, assumption.value, assumption.reason)
                    for assumption in whole.assumed
                    if assumption.field != "hardware"
                )
        if reason:
            left_out.append(LeftOut(name=run.id, reason=reason))
    if not measurements:
        first = left_out[0]
        rule = _("must be one that can be predicted: {reason}", reason=first.reason)
        remedy = _("fill it in: --runs FILE writes what was read as CSV") if runs[0].lacks else ""
        raise InputError(rule=rule, place=_("the run {name}", name=first.name), remedy=remedy)
    return RunsToCalibrate(
        accelerator=accelerator,
        measurements=tuple(measurements),
        assumed=tuple(
            (Assumption(field=field, value=value, reason=why), count)
            for (field, value, why), count in assumed.most_common()
        ),
        left_out=tuple(left_out),
    )


def _stated_accelerator(runs: Iterable[MeasuredRun]) -> Accelerator:
    names = list(dict.fromkeys(run.hardware for run in runs if run.hardware))
    remedy = _("name one, or the file of one")
    if not names:
        raise InputError(rule=_("must be given: no run states its hardware"), place="--accelerator", remedy=remedy)
    sheets = {accelerator_named(name).name: accelerator_named(name) for name in names}
    if len(sheets) > 1:
        rule = _("must be given: the runs are on {names}", names=", ".join(sheets))
        raise InputError(rule=rule, place="--accelerator", remedy=remedy)
    return next(iter(sheets.values()))


def _reason_against(run: MeasuredRun, accelerator: Accelerator) -> str:
    """Return why a run is left out; empty where it is used."""
    if run.lacks:
        return _("it does not state {names}", names=", ".join(run.lacks))
    if run.step_s is None and run.mem_gib is None:
        return _("it has neither a step nor memory")
    if run.hardware is None:
        return ""
    try:
        stated = accelerator_named(run.hardware)
    except InputError as error:
        return str(error)
    is_same = stated.name == accelerator.name
    if accelerator.name not in ACCELERATORS:
        is_same = accelerator.generation in ("", stated.generation)
    elif run.hardware not in ACCELERATORS:  # a name that leaves the size of its memory open
        is_same = accelerator.generation == stated.generation
    return "" if is_same else _("it ran on {hardware}", hardware=run.hardware)


def _hardware(run: MeasuredRun, accelerator: Accelerator) -> str | None:
    """Return the data sheet whose habits the run follows."""
    if accelerator.name in ACCELERATORS:
        return accelerator.name
    if run.hardware is not None:
        return run.hardware
    same = (name for name, sheet in ACCELERATORS.items() if sheet.generation == accelerator.generation)
    return next(same, None)


def _measurement(run: MeasuredRun, whole: MeasuredRun, accelerator: Accelerator) -> Measurement:
    measurement = measurement_of(whole)
    check_training(measurement.training, accelerator)
    is_rack = accelerator.link_devices > _RACK
    domain = accelerator.link_devices if is_rack else run.gpus_per_node or accelerator.link_devices
    topology = Topology.of(accelerator, domain, network_bytes_per_s=run.network_bytes_per_s)
    return replace(measurement, topology=topology)


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
        source=run.source,
    )


def memory_of(run: MeasuredRun) -> MemoryOf:
    """Return what the memory of a run counts: what is allocated, unless it says otherwise."""
    if is_read_from_device(run):
        return MemoryOf.DEVICE
    return MemoryOf.RESERVED if is_reserved(run) else MemoryOf.ALLOCATED
