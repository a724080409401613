"""Bytes that training keeps for parameters: weights, gradients, optimizer, by what is shared out."""

from evenflow.predict.held import Held, total
from evenflow.predict.layer_work import SINGLE
from evenflow.predict.parameters import Parameters, shares
from evenflow.predict.training import Sharding, Training

_MOMENTS = 8
"""Bytes of Adam's two moments of a parameter."""


def state_parts(training: Training, parameters: Parameters) -> dict[Held, int]:
    """Return the bytes of one device for `parameters`, by what they are held for.

    Fully sharded parameters are the 32-bit ones themselves; else the optimizer has 32-bit copies of 16-bit ones. Where
    gradients are kept in 16 bits, the optimizer's share of them is copied to 32. [ZeRO, arXiv:1910.02054, §3.1]
    Weights of products in 8 bits are kept in 8 bits, once in each order of the matrix, or in 16: two bytes either way.
    """
    sharding, software = training.degrees.sharding, training.software
    is_single = training.precision == "fp32" or sharding is Sharding.PARAMETERS
    half = SINGLE if is_single else 2
    weights = gradients = optimizer = 0.0
    for group, count in shares(training, parameters):
        weights += count * half / (group.size if sharding is Sharding.PARAMETERS else 1)
        shares_gradients = sharding in (Sharding.GRADIENTS, Sharding.PARAMETERS)
        gradients += count * software.gradient_bytes / (group.size if shares_gradients else 1)
        copies = (0 if is_single else SINGLE) + (0 if software.gradient_bytes == SINGLE else SINGLE)
        optimizer += count * (_MOMENTS + copies) / (1 if sharding is Sharding.NOTHING else group.size)
    return {Held.PARAMETERS: round(weights), Held.GRADIENTS: round(gradients), Held.OPTIMIZER: round(optimizer)}


def state_bytes(training: Training, parameters: Parameters) -> int:
    """Return all bytes of one device for `parameters`."""
    return total(state_parts(training, parameters))
