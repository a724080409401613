"""evenflow's prediction for a measured run, with nothing known, or after a fit to runs that are."""

from collections.abc import Sequence
from dataclasses import replace

from benchmarks.published.predictor import Predicted, Predictor
from evenflow.errors import InputError
from evenflow.predict.calibration.fit import fit
from evenflow.predict.calibration.fitted import FittedReach
from evenflow.predict.calibration.measurement import Measurement, Quantity
from evenflow.predict.evidence import counted
from evenflow.profiles.measured.run import MeasuredRun
from evenflow.profiles.measured.to_calibrate import measurement_of

FITTED = (
    "product_share", "operator_ns", "network_share", "link_share", "memory_share", "latency_ns",
    "reserve_share", "driver_bytes",
)  # fmt: skip
"""At most six parameters of step times, and those of memory."""


def predicted(run: MeasuredRun, fitted: FittedReach | None = None) -> Predicted:
    """Return step and memory of a completed run."""
    measurement = measurement_of(run)
    topology = measurement.topology
    if fitted is not None:
        topology = replace(topology, accelerator=fitted.calibrated(topology.accelerator))
    prediction = measurement.prediction(counted(measurement.training, topology).accelerator.reached)
    return Predicted(
        step_s=measurement.of(prediction, Quantity.TIME) / 1e9,
        memory_gib=measurement.of(prediction, Quantity.MEMORY) / 2**30,
    )


def calibrated(predictor: Predictor, known: Sequence[MeasuredRun]) -> Predictor:
    """Return `predicted` after a fit to those of the completed runs that can be predicted."""
    fitted = fit([measurement for run in known if (measurement := _measurement(predictor, run))], FITTED)
    return lambda run: predicted(run, fitted)


def _measurement(predictor: Predictor, run: MeasuredRun) -> Measurement | None:
    try:
        predictor(run)
    except InputError:
        return None
    return measurement_of(run)
