"""Sharding rules that DTensor's registries lack, for one mesh axis; public names of torch only."""

from collections.abc import Callable

import torch

from evenflow.auto.sharding.rules.experts import expert_rules
from evenflow.auto.trace.dtensor_adapter import Call
from evenflow.auto.trace.operator_graph import AxisRule
from evenflow.cluster import PARTIAL, REPLICATE
from evenflow.torch_model.experts.costs import is_of_experts


def extra_rules(call: Call) -> set[AxisRule] | None:
    """Return the rules of `call` where this module knows the operator, else None."""
    if is_of_experts(call.overload):
        return expert_rules(call)
    aten = torch.ops.aten
    known: dict[object, Callable[[Call], set[AxisRule]]] = {
        aten._scaled_dot_product_flash_attention_for_cpu.default: _attention,
        aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _attention,
        aten.unbind.int: _unbind,
        aten.expand.default: _expand,
        aten.copy.default: _copy,
    }
    make = known.get(call.overload)
    return make(call) if make else None


def _attention(call: Call) -> set[AxisRule]:
    """Split the independent batch or heads of tensors (batch, heads, …). A mask may have one of either for all."""
    tensors = call.tensors()
    num_outputs = len(call.overload._schema.returns)
    rules = {AxisRule(inputs=(REPLICATE,) * len(tensors), outputs=(REPLICATE,) * num_outputs)}
    for dimension in (0, 1):
        inputs = []
        for tensor in tensors:
            has_it = len(tensor.shape) > dimension and tensor.shape[dimension] > 1
            inputs.append(dimension if has_it else REPLICATE)
        rules.add(AxisRule(inputs=tuple(inputs), outputs=(dimension,) * num_outputs))
    return rules


def _unbind(call: Call) -> set[AxisRule]:
    """Split any dimension but the one that is taken apart."""
    shape = call.tensors()[0].shape
    taken = (call.arguments[1] if len(call.arguments) > 1 else 0) % len(shape)
    count = shape[taken]
    rules = {AxisRule(inputs=(kind,), outputs=(kind,) * count) for kind in (REPLICATE, PARTIAL)}
    for dimension in range(len(shape)):
        if dimension != taken:
            rules.add(AxisRule(inputs=(dimension,), outputs=(dimension - (dimension > taken),) * count))
    return rules


def _expand(call: Call) -> set[AxisRule]:
    """Split dimensions that keep their size as before; those that are repeated may be split afterwards for free."""
    shape = call.tensors()[0].shape
    wanted = call.arguments[1]
    new = len(wanted) - len(shape)
    rules = {AxisRule(inputs=(kind,), outputs=(kind,)) for kind in (REPLICATE, PARTIAL)}
    for dimension, size in enumerate(wanted):
        if dimension >= new and (size in (-1, shape[dimension - new])):
            rules.add(AxisRule(inputs=(dimension - new,), outputs=(dimension,)))
        else:
            rules.add(AxisRule(inputs=(REPLICATE,), outputs=(dimension,)))
    return rules


def _copy(call: Call) -> set[AxisRule]:
    """Split what is written as the tensor it is written to, whose values do not count."""
    target, written = (tensor.shape for tensor in call.tensors())
    rules = {AxisRule(inputs=(REPLICATE, kind), outputs=(kind,)) for kind in (REPLICATE, PARTIAL)}
    new = len(target) - len(written)
    for dimension, size in enumerate(target):
        is_there = dimension >= new and written[dimension - new] == size
        rules.add(AxisRule(inputs=(dimension, dimension - new if is_there else REPLICATE), outputs=(dimension,)))
    return rules
