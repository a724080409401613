"""Bytes that training keeps for one parameter: weight, gradient and optimizer state."""

from dataclasses import dataclass

from evenflow.errors import InputError
from evenflow.fields import check_one_of
from evenflow.language import _

OPTIMIZERS = ("adam", "torch-adam", "sgd")
"""Names of what keeps state: mixed-precision Adam, and PyTorch's own Adam and SGD on the weights as they are."""
_SINGLE = 4
"""Bytes of a number in 32 bits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptBytes:
    """The bytes of one parameter in training."""

    weight: int
    gradient: int
    state: int
    """Of the optimizer: moments, and copies in 32 bits."""

    @property
    def total(self) -> int:
        """All bytes of one parameter."""
        return self.weight + self.gradient + self.state


def kept_bytes(optimizer: str, *, weight_bytes: int, gradient_bytes: int | None = None) -> KeptBytes:
    """Return the bytes kept for a parameter whose weight has `weight_bytes`, under `optimizer`.

    Mixed-precision Adam keeps two moments in 32 bits and a 32-bit copy of each shorter weight and gradient [ZeRO,
    arXiv:1910.02054, §3.1]. It adds gradients up in `gradient_bytes`; None: in 32 bits, as Megatron-LM does with bf16.
    PyTorch's own optimizers keep gradients and moments in the format of the weight.

    Raises:
        InputError: as `check_optimizer`.
    """
    check_optimizer(optimizer)
    if optimizer != "adam":
        moments = 2 if optimizer == "torch-adam" else 0
        return KeptBytes(weight=weight_bytes, gradient=weight_bytes, state=moments * weight_bytes)
    gradient = max(weight_bytes, _SINGLE) if gradient_bytes is None else gradient_bytes
    copies = sum(_SINGLE for size in (weight_bytes, gradient) if size < _SINGLE)
    return KeptBytes(weight=weight_bytes, gradient=gradient, state=2 * max(weight_bytes, _SINGLE) + copies)


def check_optimizer(name: str) -> None:
    """Raise `InputError` for a name that is not in `OPTIMIZERS`."""
    check_one_of(name, OPTIMIZERS, place="optimizer")


def rest_of(bytes_per_parameter: int, item_bytes: int) -> int:
    """Return the bytes kept for a parameter beside its weight of `item_bytes` and its gradient.

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
