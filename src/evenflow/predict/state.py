"""Bytes that training keeps for parameters: weights, gradients and optimizer state, as sharding leaves them."""

from evenflow.model.kept_per_parameter import kept_bytes
from evenflow.predict.held import Held, total
from evenflow.predict.parameters import Parameters, dense_group, shares
from evenflow.predict.passes import HALF, SINGLE
from evenflow.predict.training import Sharding, Training


def state_parts(training: Training, parameters: Parameters) -> dict[Held, int]:
    """Return the bytes of one device for `parameters`, by purpose.

    The optimizer is mixed-precision Adam (see `kept_bytes`), but for what the host keeps. Fully sharded parameters are
    the 32-bit ones themselves. A pipeline keeps whole what it has gathered, in 16 bits, and reduces gradients once a
    step: they are whole until then. What is not trained has weights alone. Weights of products in 8 bits are kept in 8
    bits, once in each order of the matrix, or in 16: two bytes either way.
    """
    sharding, software = training.degrees.sharding, training.software
    is_single = training.precision == "fp32" or sharding is Sharding.PARAMETERS
    kept = kept_bytes("adam", weight_bytes=SINGLE if is_single else HALF, gradient_bytes=software.gradient_bytes)
    is_alone = training.degrees.pipeline == 1
    shares_gradients = is_alone and sharding in (Sharding.GRADIENTS, Sharding.PARAMETERS)
    weights = gradients = optimizer = 0.0
    for group, count in shares(training, parameters):
        weights += count * kept.weight / (group.size if sharding is Sharding.PARAMETERS else 1)
        if sharding is Sharding.PARAMETERS and not is_alone and group.size > 1:
            weights += count * HALF
        gradients += count * kept.gradient / (group.size if shares_gradients else 1)
        here = 1 - training.degrees.optimizer_offload
        optimizer += here * count * kept.state / (1 if sharding is Sharding.NOTHING else group.size)
    whole = SINGLE if training.precision == "fp32" else HALF
    is_shared = sharding is Sharding.PARAMETERS and is_alone
    weights += parameters.frozen * whole / (dense_group(training.degrees).size if is_shared else 1)
    return {Held.PARAMETERS: round(weights), Held.GRADIENTS: round(gradients), Held.OPTIMIZER: round(optimizer)}


def updated_by_host(training: Training, parameters: Parameters) -> float:
    """Return how many of a device's `parameters` the host updates for it."""
    offloaded, sharding = training.degrees.optimizer_offload, training.degrees.sharding
    is_whole = sharding is Sharding.NOTHING
    return offloaded * sum(count / (1 if is_whole else group.size) for group, count in shares(training, parameters))


def state_bytes(training: Training, parameters: Parameters) -> int:
    """Return all bytes of one device for `parameters`."""
    return total(state_parts(training, parameters))
