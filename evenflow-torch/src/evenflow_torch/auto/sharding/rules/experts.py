"""Sharding rules of the operators of experts, for one mesh axis: what devices have of tokens, experts and their width.

tokens    split    experts  whole       as data parallel: a partial sum of every gradient
whole              split in their width a partial sum of the result, as tensor parallel
split              split                expert parallel: tokens go to their experts and back, all-to-all
whole              split                each device adds what its experts give: a partial sum of the result
"""

from collections.abc import Mapping

from evenflow.cluster import PARTIAL, REPLICATE, Collective
from evenflow.predict.layer_tensors import FULLEST
from evenflow.predict.transformer import fullest_load
from evenflow_torch.models.experts.costs import tensor_names
from evenflow_torch.models.trace.dtensor_adapter import Call, TensorArgument
from evenflow_torch.models.trace.expert_tensors import EXPERTS, OF_ROWS, TOKENS, WIDTH
from evenflow_torch.models.trace.operator_graph import AxisRule, InnerExchange

_BY_TOKEN = frozenset(("hidden", "index", "weights", "result", "gradient", "of_hidden", "of_weights"))
_SENT = {"evenflow::experts": "rows", "evenflow::experts_backward": "weighed"}
"""The rows that go to the experts, and as many come back."""


def expert_rules(call: Call, capacity: float | None) -> set[AxisRule]:
    """Return the rules of one of the operators of experts.

    Where experts are split, a device may have more rows than others. With a capacity, in shares of an equal load, all
    is that of the fullest one: what it keeps, computes and exchanges. Without one only what it keeps is.
    """
    name = call.overload._schema.name
    names = tensor_names(call.overload, call.arguments)
    num_inputs = len(call.tensors())
    by_name = dict(zip(names, call.tensors(), strict=False))
    fullest = 1.0 if capacity is None else _fullest(call, by_name, capacity)
    kept = FULLEST if capacity is None else fullest

    def rule(placed: Mapping[str, int], *, exchanged: str = "", load: float = 1.0, work: float = 1.0) -> AxisRule:
        placements = tuple(placed.get(tensor, REPLICATE) for tensor in names)
        inputs, outputs = placements[:num_inputs], placements[num_inputs:]
        if not exchanged:
            return AxisRule(inputs=inputs, outputs=outputs, load=load, work=work)
        sent = InnerExchange(collective=Collective.ALL_TO_ALL, tensor=names.index(exchanged), share=fullest)
        return AxisRule(inputs=inputs, outputs=outputs, exchanges=(sent, sent), load=load, work=work)

    tokens = {tensor: 0 for tensor in names if tensor in _BY_TOKEN}
    rows = [tensor for tensor in names if tensor in OF_ROWS]
    own = {tensor: 0 for tensor in names if tensor not in _BY_TOKEN} | dict.fromkeys(rows, EXPERTS)
    sums = dict.fromkeys(names[num_inputs:], PARTIAL)
    whole_tokens = own | {tensor: PARTIAL for tensor in sums if tensor in _BY_TOKEN}
    rules = {
        rule({}),
        rule(
            {
                **tokens,
                **dict.fromkeys(rows, TOKENS),
                **{tensor: PARTIAL for tensor in sums if tensor not in (*tokens, *rows)},
            }
        ),
        rule({**tokens, **own}, exchanged=_SENT.get(name, ""), load=kept, work=fullest),
        rule(whole_tokens, load=kept, work=fullest),
    }
    width = _width(name, by_name, transposed=bool(call.arguments[-1]))
    if width is not None:
        split = {tensor: PARTIAL for tensor in (*sums, "down_bias") if tensor in (*_BY_TOKEN, "down_bias")}
        rules.add(rule({**split, **dict.fromkeys(rows, WIDTH), "rows": REPLICATE, "weighed": REPLICATE, **width}))
    return rules


def _fullest(call: Call, tensors: Mapping[str, TensorArgument], capacity: float) -> float:
    """Return how many times an equal share of the rows the fullest expert may have."""
    experts = tensors["up"].shape[0] if "up" in tensors else call.arguments[-2]
    return fullest_load(capacity, count=experts, active=tensors["index"].shape[1])


def _width(name: str, tensors: Mapping[str, TensorArgument], *, transposed: bool) -> dict[str, int] | None:
    """Return which dimension of each matrix and bias is the experts' width; None if it cannot be told apart."""
    inner_dimensions: tuple[int, ...]
    if name == "evenflow::experts_weight_gradients":
        width, inner_dimensions = tensors["activated"].shape[1], tensors["of_inner"].shape[1:]
    else:
        width = tensors["down"].shape[1 if transposed else 2]
        inner_dimensions = tensors["up"].shape[2:] if transposed else tensors["up"].shape[1:-1]
    if inner_dimensions.count(width) != 1:
        return None
    at = inner_dimensions.index(width)
    width_at = {"up": at + (2 if transposed else 1), "up_bias": at + 1, "down": 1 if transposed else 2}
    return {**width_at, **{f"of_{matrix}": dimension for matrix, dimension in width_at.items()}}
