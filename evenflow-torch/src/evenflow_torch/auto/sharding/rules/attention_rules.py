"""Sharding rules of fused attention on tensors (batch, heads, length, width).

Where devices have other rows of the query (context parallelism), keys and values come to them in one of these ways:

    gathered   all keys and values on every device; with a causal mask the last device computes twice an equal share
    balanced   of causal attention: likewise, but every device exchanges the second half of its rows with its mirror
               image before and after. Of 2 n halves, device i of n then has those of number 2 i and 2 n - 1 - 2 i,
               whose keys add up to the same on all devices
    ring       keys and values go around in n - 1 messages, each under the computation with the block before it, and in
               the backward so do their gradients; of causal attention halves are exchanged as above, those of keys and
               values too, so that every device computes half a block in each step
"""

from collections.abc import Iterator
from dataclasses import replace

from evenflow.cluster import PARTIAL, REPLICATE, Collective, RowExchange
from evenflow_torch.auto.sharding.rules.named_arguments import argument, rule, tensor_names, whole
from evenflow_torch.models.trace.dtensor_adapter import Call
from evenflow_torch.models.trace.operator_graph import AxisRule, InnerExchange

BATCH, HEADS, LENGTH = 0, 1, 2
_HALF = 0.5
_KEYS_AND_VALUES = 2.0
"""Times the bytes of the keys: fused kernels have values of the same width."""


def attention(call: Call) -> set[AxisRule]:
    """Split batch or heads, which are independent, or the rows of the query, which need all keys and values."""
    rules = {whole(call), *_rows(call)}
    for dimension in (BATCH, HEADS):
        inputs = []
        for tensor in call.tensors():  # a mask may have one of either for all
            has_it = len(tensor.shape) > dimension and tensor.shape[dimension] > 1
            inputs.append(dimension if has_it else REPLICATE)
        rules.add(AxisRule(inputs=tuple(inputs), outputs=(dimension,) * call.num_outputs))
    return rules


def _rows(call: Call) -> Iterator[AxisRule]:
    """Yield the ways to split the rows of the query; where scores are dropped by chance, only the first one."""
    names, is_causal = tensor_names(call), bool(argument(call, "is_causal"))
    is_backward = "grad_out" in names
    splits = dict.fromkeys(("grad_out", "query", "out", "logsumexp"), LENGTH)
    if "attn_mask" in names:  # it is taken in pieces by its columns, which all devices have
        shape = argument(call, "attn_mask").shape
        splits["attn_mask"] = len(shape) - 2 if shape[-2] > 1 else REPLICATE
    rows = (LENGTH,) * call.num_outputs
    gathered = rule(call, splits, (LENGTH, PARTIAL, PARTIAL) if is_backward else rows)
    yield replace(gathered, work=2.0 if is_causal else 1.0)
    lengths = {argument(call, name).shape[LENGTH] for name in ("query", "key")}
    if argument(call, "dropout_p") or (is_causal and ("attn_mask" in names or len(lengths) > 1)):
        return
    if is_causal:
        yield replace(gathered, exchanges=_halves(names, is_backward=is_backward), rows=RowExchange.BALANCED)
    around = rule(call, splits | {"key": LENGTH, "value": LENGTH}, rows)
    halves = (*_halves(names, is_backward=is_backward), *_halves_of_keys(names, is_backward=is_backward))
    exchanges = (*(halves if is_causal else ()), *_around(names, is_backward=is_backward))
    yield replace(around, exchanges=exchanges, rows=RowExchange.RING)


def _halves(names: tuple[str, ...], *, is_backward: bool) -> tuple[InnerExchange, ...]:
    """Return the exchanges of half the rows with the mirrored device: queries, results and their gradients."""
    query = names.index("query")  # all of them have its size
    return (InnerExchange(collective=Collective.SEND, tensor=query, share=_HALF),) * (4 if is_backward else 2)


def _halves_of_keys(names: tuple[str, ...], *, is_backward: bool) -> tuple[InnerExchange, ...]:
    """Return the exchanges of half the keys and values with the mirrored device, and of their gradients."""
    share = _HALF * _KEYS_AND_VALUES
    message = InnerExchange(collective=Collective.SEND, tensor=names.index("key"), share=share)
    return (message,) * (2 if is_backward else 1)


def _around(names: tuple[str, ...], *, is_backward: bool) -> tuple[InnerExchange, ...]:
    """Return the exchanges of a ring of keys and values; gradients follow a step later, then go home exposed."""
    key = names.index("key")
    around = InnerExchange(collective=Collective.RING, tensor=key, share=_KEYS_AND_VALUES, hides=True)
    home = InnerExchange(collective=Collective.SEND, tensor=key, share=_KEYS_AND_VALUES)
    return (around, around, home) if is_backward else (around,)
