"""JSON of where a prediction goes beyond the runs of a calibration."""

from evenflow.cluster.topology import Topology
from evenflow.predict.evidence import outside
from evenflow.predict.training import Training


def extrapolation_fields(training: Training, topology: Topology) -> dict[str, object]:
    """Return what no run of the calibration covers, and how much of it counts; nothing without a calibration."""
    calibration = topology.accelerator.calibration
    if calibration is None or not calibration.covered:
        return {}
    return {
        "calibration_counts": calibration.counts,
        "extrapolates": [
            {"name": trait.name, "value": trait.value, "runs": list(trait.covered)}
            for trait in outside(training, topology)
        ],
    }
