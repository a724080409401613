"""What an optimizer reads and writes."""


def optimizer_bytes(*, state_bytes: int = 12, gradient_bytes: int = 4, weight_bytes: int = 2) -> int:
    """Return the bytes that a step reads and writes for a parameter, its gradient's norm and clipping included.

    State is read and written, the gradient read, the weight written; by default Adam in mixed precision, with three
    32-bit numbers.
    """
    return 2 * state_bytes + gradient_bytes + weight_bytes + clipped_bytes(gradient_bytes=gradient_bytes)


def clipped_bytes(*, gradient_bytes: int = 4) -> int:
    """Return those of them for the norm of all gradients, which reads them, and clipping, which reads and writes."""
    return 3 * gradient_bytes
