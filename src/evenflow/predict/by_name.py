"""Predicts a training on accelerators that are given by name."""

from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.data_sheets import accelerator_named
from evenflow.cluster.topology import Topology
from evenflow.predict.evidence import counted
from evenflow.predict.limits.checks import check_training
from evenflow.predict.prediction import Prediction
from evenflow.predict.prediction import predict as predict_on
from evenflow.predict.training import Training


def predict(training: Training, accelerator: str | Accelerator, *, devices_per_node: int | None = None) -> Prediction:
    """Predict the step time and the memory of `training`, and what both are spent on.

    Args:
        training: the model, how it is split, its batch and its software.
        accelerator: the name of a data sheet, such as ``h100``, or the rates of another device.
        devices_per_node: devices that fast links connect; None: those of the accelerator.

    Raises:
        InputError: an unknown name, or settings that cannot be (`check_training`).
    """
    device = accelerator_named(accelerator) if isinstance(accelerator, str) else accelerator
    check_training(training, device)
    return predict_on(training, counted(training, Topology.of(device, devices_per_node)))
