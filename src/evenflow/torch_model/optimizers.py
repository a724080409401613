"""Memory of parameters in training: weights, gradients and what the optimizer keeps. Imports no torch."""

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from evenflow.errors import InputError
from evenflow.language import _

if TYPE_CHECKING:
    import torch

OPTIMIZERS: Mapping[str, Callable[[int], int]] = {
    # Weight and gradient, and in 32 bits: a copy of a shorter weight and two moments. [ZeRO, arXiv:1910.02054, §3.1]
    "adam": lambda size: 2 * size + (12 if size < 4 else 2 * size),
    # torch.optim.Adam on the weights as they are: two moments of the weight's own type.
    "torch-adam": lambda size: 4 * size,
    # Weight and gradient.
    "sgd": lambda size: 2 * size,
}
"""For each optimizer, the bytes of a parameter in training from the bytes of its weight."""


def check_optimizer(name: str) -> None:
    """Raise `InputError` for a name that is not in `OPTIMIZERS`."""
    if name not in OPTIMIZERS:
        raise InputError(value=name, rule=_("must be one of {names}", names=", ".join(OPTIMIZERS)), place="optimizer")


def state_bytes(optimizer: str, item_bytes: int) -> int:
    """Return the bytes that `optimizer` keeps for a parameter of `item_bytes`, beside weight and gradient.

    Raises:
        InputError: as `check_optimizer`.
    """
    check_optimizer(optimizer)
    return OPTIMIZERS[optimizer](item_bytes) - 2 * item_bytes


def rest_of(bytes_per_parameter: int, item_bytes: int) -> int:
    """Return what of the bytes of a parameter in training is kept beside a weight of `item_bytes` and its gradient.

    Raises:
        InputError: less than these two.
    """
    if bytes_per_parameter < 2 * item_bytes:
        raise InputError(
            value=bytes_per_parameter,
            rule=_("must be at least the {least} of a weight and its gradient", least=2 * item_bytes),
            place="--bytes-per-parameter",
            remedy=_("count weight, gradient and optimizer state together"),
        )
    return bytes_per_parameter - 2 * item_bytes


def parameter_bytes(parameters: Iterable["torch.Tensor"], optimizer: str) -> int:
    """Return the bytes of `parameters` in training; a frozen one has neither gradient nor optimizer state."""
    per_parameter = OPTIMIZERS[optimizer]
    return sum(
        tensor.numel() * (per_parameter(tensor.element_size()) if tensor.requires_grad else tensor.element_size())
        for tensor in parameters
    )
