"""Rules of fused attention of tensors (batch, heads, length, width)."""

from evenflow.auto.sharding.rules.named_arguments import argument, rule, tensor_names
from evenflow.auto.trace.dtensor_adapter import Call
from evenflow.auto.trace.operator_graph import AxisRule
from evenflow.cluster import PARTIAL, REPLICATE

BATCH, HEADS, LENGTH = 0, 1, 2


def attention(call: Call) -> set[AxisRule]:
    """Split batch or heads, which are independent, or the rows of the query, for which keys and values are gathered."""
    num_outputs = len(call.overload._schema.returns)
    rules = {
        AxisRule(inputs=(REPLICATE,) * len(call.tensors()), outputs=(REPLICATE,) * num_outputs),
        _rows(call, num_outputs),
    }
    for dimension in (BATCH, HEADS):
        inputs = []
        for tensor in call.tensors():  # a mask may have one of either for all
            has_it = len(tensor.shape) > dimension and tensor.shape[dimension] > 1
            inputs.append(dimension if has_it else REPLICATE)
        rules.add(AxisRule(inputs=tuple(inputs), outputs=(dimension,) * num_outputs))
    return rules


def _rows(call: Call, num_outputs: int) -> AxisRule:
    """Context parallelism with contiguous rows: a device masks the keys behind each of its rows.

    A causal kernel skips the half that is masked, but for rows further down in the matrix, which are all that a device
    has, the runtime masks it: the last device, whose rows see all keys, computes twice an equal share.
    """
    is_backward = "grad_out" in tensor_names(call)
    splits = dict.fromkeys(("grad_out", "query", "out", "logsumexp"), LENGTH)
    if "attn_mask" in tensor_names(call):
        shape = argument(call, "attn_mask").shape
        splits["attn_mask"] = len(shape) - 2 if shape[-2] > 1 else REPLICATE
    outputs = (LENGTH, PARTIAL, PARTIAL) if is_backward else (LENGTH,) * num_outputs
    made = rule(call, splits, outputs)
    return AxisRule(inputs=made.inputs, outputs=made.outputs, work=2.0 if argument(call, "is_causal") else 1.0)
