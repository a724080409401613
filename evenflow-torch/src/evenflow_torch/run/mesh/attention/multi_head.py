"""The attention of `torch.nn.MultiheadAttention` on DTensors: samples are independent, and so are rows of the query.

Every device runs torch's function on its samples and its rows, with all keys and values of these, and whole weights.
Mesh axes that split the query's features compute the same twice.
"""

import inspect
from typing import Any

from torch import Tensor
from torch.distributed.tensor import DTensor, Placement, Replicate, Shard
from torch.nn import functional

from evenflow_torch.run.mesh.local_parts import local_part, split_like

ROWS, BATCH = 0, 1
"""Dimensions of the query: (length, batch, width)."""
_SIGNATURE = inspect.signature(functional.multi_head_attention_forward)


def multi_head_attention(*arguments: Any, **keywords: Any) -> tuple[DTensor, DTensor | None]:
    """Run `torch.nn.functional.multi_head_attention_forward` on this device's samples and rows."""
    bound = _SIGNATURE.bind(*arguments, **keywords)
    query: DTensor = bound.arguments["query"]
    result = _result(query)
    splits = _splits(bound.arguments)
    # torch looks whether query, key and value are one tensor, so each is made local only once.
    local_tensors: dict[tuple[int, tuple[Placement, ...]], Tensor] = {}

    def local(name: str, value: Any) -> Any:
        if not isinstance(value, DTensor):
            return value
        wanted = split_like(result, splits.get(name, {}))
        key = id(value), tuple(wanted)
        if key not in local_tensors:
            local_tensors[key] = local_part(value, wanted, result)
        return local_tensors[key]

    own = {name: local(name, value) for name, value in bound.arguments.items()}
    if any(isinstance(placement, Shard) and placement.dim == ROWS for placement in result):
        own["is_causal"] = False  # the mask is that of these rows, and torch would make one of the first rows
    output, weights = functional.multi_head_attention_forward(**own)
    of_weights = split_like(result, {BATCH: 0, ROWS: 1 if own.get("average_attn_weights", True) else 2})
    return (
        DTensor.from_local(output.contiguous(), query.device_mesh, result),
        None if weights is None else DTensor.from_local(weights, query.device_mesh, of_weights),
    )


def _splits(arguments: dict[str, Any]) -> dict[str, dict[int, int]]:
    """Return which dimension of an argument goes with the query's rows and which with its batch."""
    mask = arguments.get("attn_mask")
    of_all = isinstance(mask, Tensor) and mask.ndim == 2
    return {
        "query": {ROWS: ROWS, BATCH: BATCH},
        "key": {BATCH: BATCH},
        "value": {BATCH: BATCH},
        "key_padding_mask": {BATCH: 0},
        "attn_mask": {ROWS: 0} if of_all else {BATCH: 0, ROWS: 1},
        "static_k": {BATCH: 0},
        "static_v": {BATCH: 0},
    }


def _result(query: DTensor) -> list[Placement]:
    """Return the query's splits of rows and batch; whole along axes that split its features."""
    features = query.ndim - 1
    return [
        placement if type(placement) is Shard and placement.dim < features else Replicate()
        for placement in query.placements
    ]
