"""Bytes that training keeps for parameters: weights, gradients, optimizer, by what is shared out."""

from evenflow.predict.parameters import Parameters, dense_group, expert_group
from evenflow.predict.training import Sharding, Training

_OPTIMIZER = 12
"""Bytes of the optimizer for a parameter: a 32-bit copy and Adam's two moments."""


def state_bytes(training: Training, parameters: Parameters) -> int:
    """Return the bytes of one device for `parameters`."""
    sharding, half = training.degrees.sharding, 4 if training.precision == "fp32" else 2
    optimizer = 8 if training.precision == "fp32" else _OPTIMIZER
    total = 0.0
    groups = (parameters.dense, dense_group(training.degrees)), (parameters.expert, expert_group(training))
    for count, group in groups:
        weights = half / (group.size if sharding is Sharding.PARAMETERS else 1)
        shares_gradients = sharding in (Sharding.GRADIENTS, Sharding.PARAMETERS)
        gradients = training.software.gradient_bytes / (group.size if shares_gradients else 1)
        kept = optimizer / (1 if sharding is Sharding.NOTHING else group.size)
        total += count * (weights + gradients + kept)
    return round(total)
