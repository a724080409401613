"""The rows of experts as the planner sees them: which rows an expert has is known when the model runs, not before.

    tokens on devices     experts on devices    width on devices
    [experts, tokens / n, width]   [experts / n, tokens, width]   [experts, tokens, width / n]

So a tensor of rows is described as (experts, tokens, share of the width), and a device has a part along one of these
three: rows of its own tokens for all experts, those of all tokens for its own experts, or a part of each row.
"""

import math
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from evenflow.cluster import WholeTensor
from evenflow_torch.models.experts.costs import tensor_names

EXPERTS, TOKENS, WIDTH = 0, 1, 2
"""Dimensions of a tensor of rows."""
_PARTS = 8
"""Devices that may share the width of experts even where the share of a token is no multiple of them."""
OF_ROWS = frozenset(("rows", "inner", "activated", "of_inner", "weighed"))
"""Names of the tensors of rows."""


def expert_outputs(func: Any, args: Sequence[Any], values: Sequence[Tensor]) -> tuple[WholeTensor, ...]:
    """Return the results of an operator of experts; `args` and `values` are tensors without data."""
    names = tensor_names(func, args)[-len(values) :]
    named = {parameter.name: value for parameter, value in zip(func._schema.arguments, args, strict=True)}
    experts = named["up"].shape[0] if "up" in named else named["experts"]
    tokens, chosen = named["index"].shape

    def described(name: str, value: Tensor) -> WholeTensor:
        shape = tuple(map(int, value.shape))
        if name in OF_ROWS:
            # Each of tokens x k rows is k / experts of experts x tokens; rounded up to what several devices can share.
            share = chosen * math.prod(shape[1:]) / experts
            unit = math.gcd(math.prod(shape[1:]), _PARTS)
            shape = (experts, tokens, math.ceil(share / unit) * unit)
        return WholeTensor(shape=shape, item_bytes=value.element_size())

    return tuple(map(described, names, values))
