"""What an optimizer reads and writes."""


def optimizer_bytes(*, state_bytes: int = 12, gradient_bytes: int = 4, weight_bytes: int = 2) -> int:
    """Return the bytes that a step reads and writes for a parameter, its gradient's norm and clipping included.

    State is read and written, the gradient read, the weight written; by default Adam in mixed precision, with three
    32-bit numbers. The norm of all gradients reads them, and clipping reads and writes them.
    """
    return 2 * state_bytes + gradient_bytes + weight_bytes + 3 * gradient_bytes
