"""What the loss of each microbatch counts in that of a step."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

LossWeight = Callable[[Any], Tensor | float]
"""What a microbatch counts, from its targets, such as the number of its tokens that have a loss."""


def loss_shares(
    sizes: Sequence[int],
    targets: Sequence[Any],
    weight: LossWeight | None,
    total: Callable[[Tensor], Tensor],
    device: torch.device,
) -> Tensor:
    """Return the factor of each microbatch's loss [microbatches], in float64; their sum is the loss of the step.

    With a `weight`, losses are sums over what it counts, and are divided by what counts in the whole step; a step in
    which nothing counts has the loss 0. Without one, they are means over samples, of which microbatches may have
    different numbers, `sizes`. `targets` are those of each microbatch; `total` adds up the numbers of all replicas.
    """
    counts = sizes if weight is None else [weight(part) for part in targets]
    own = torch.stack([torch.as_tensor(count, dtype=torch.float64, device=device) for count in counts])
    whole = total(own.sum())
    if weight is None:
        return own / whole
    return torch.where(whole == 0, 1.0, whole).reciprocal().expand(len(sizes))
