"""Sharding rules that DTensor's registries lack, for one mesh axis; public names of torch only."""

import math
from collections.abc import Callable
from functools import cache

import torch

from evenflow.cluster import PARTIAL, REPLICATE
from evenflow_torch.auto.sharding.rules import elementwise_rules, image_rules
from evenflow_torch.auto.sharding.rules.attention_rules import attention
from evenflow_torch.auto.sharding.rules.experts import expert_rules
from evenflow_torch.auto.sharding.rules.named_arguments import alike, argument, linear
from evenflow_torch.models.experts.costs import is_of_experts
from evenflow_torch.models.trace.dtensor_adapter import Call, TensorArgument
from evenflow_torch.models.trace.operator_graph import AxisRule

_Make = Callable[[Call], set[AxisRule] | None]

_ELEMENTWISE = """
    hardswish hardswish_backward hardtanh_backward leaky_relu_backward mish_backward elu_backward softplus_backward
    bernoulli hardsigmoid_backward log_sigmoid_forward log_sigmoid_backward lift_fresh_copy fill
"""
_LOSSES = """
    mse_loss smooth_l1_loss huber_loss binary_cross_entropy binary_cross_entropy_with_logits
"""
_EACH_IMAGE = """
    avg_pool2d_backward avg_pool3d_backward upsample_nearest2d upsample_nearest2d_backward upsample_bilinear2d
    upsample_bilinear2d_backward upsample_bicubic2d upsample_bicubic2d_backward reflection_pad2d
    reflection_pad2d_backward replication_pad2d replication_pad2d_backward adaptive_max_pool2d_backward
    max_pool3d_with_indices_backward _adaptive_avg_pool3d_backward
"""


def extra_rules(call: Call, *, expert_capacity: float | None = None) -> set[AxisRule] | None:
    """Return the rules of `call` where this module knows the operator, else None.

    An expert takes at most `expert_capacity` shares of an equal load, or as many tokens as come.
    """
    if is_of_experts(call.overload):
        return expert_rules(call, expert_capacity)
    make = _known().get(getattr(call.overload, "overloadpacket", None))
    return make(call) if make else None


@cache
def _known() -> dict[object, _Make]:
    aten = torch.ops.aten
    losses = dict.fromkeys(_LOSSES.split(), elementwise_rules.loss)
    named: dict[str, _Make] = {
        **dict.fromkeys(_ELEMENTWISE.split(), elementwise_rules.elementwise),
        **losses,
        **{
            f"{name}_backward": elementwise_rules.elementwise
            for name in losses
            if name != "binary_cross_entropy_with_logits"
        },
        **dict.fromkeys(_EACH_IMAGE.split(), image_rules.each_image),
    }
    return {
        **{getattr(aten, name): make for name, make in named.items()},
        aten._scaled_dot_product_flash_attention_for_cpu: attention,
        aten._scaled_dot_product_flash_attention_for_cpu_backward: attention,
        aten.unbind: _unbind,
        aten.stack: _stack,
        aten.expand: _expand,
        aten.copy: _copy,
        aten.index_put: _masked_put,
        aten.convolution: image_rules.convolution,
        aten.convolution_backward: image_rules.convolution_backward,
        aten._native_batch_norm_legit_functional: image_rules.batch_norm,
        aten.native_batch_norm: image_rules.batch_norm,
        aten.native_batch_norm_backward: image_rules.batch_norm_backward,
        aten.native_group_norm_backward: image_rules.group_norm_backward,
        aten.glu: _glu,
        aten.glu_backward: _glu,
    }


def _glu(call: Call) -> set[AxisRule]:
    """Split any dimension but the one whose two halves are multiplied."""
    return elementwise_rules.all_but(call, argument(call, "dim"))


def _unbind(call: Call) -> set[AxisRule]:
    """Split any dimension but the one along which the tensor is taken apart."""
    shape = call.tensors()[0].shape
    taken = (call.arguments[1] if len(call.arguments) > 1 else 0) % len(shape)
    count = shape[taken]
    rules = linear(1, count)
    for dimension in range(len(shape)):
        if dimension != taken:
            rules.add(AxisRule(inputs=(dimension,), outputs=(dimension - (dimension > taken),) * count))
    return rules


def _stack(call: Call) -> set[AxisRule]:
    """Split any dimension of all tensors, which then lies behind the new one or before it."""
    tensors = call.tensors()
    count, rank = len(tensors), len(tensors[0].shape)
    new = argument(call, "dim") % (rank + 1)
    rules = linear(count, 1)
    for dimension in range(rank):
        rules.add(AxisRule(inputs=(dimension,) * count, outputs=(dimension + (dimension >= new),)))
    return rules


def _expand(call: Call) -> set[AxisRule]:
    """Split dimensions that keep their size as before; repeated ones may be split in the result for free."""
    shape = call.tensors()[0].shape
    wanted = call.arguments[1]
    new = len(wanted) - len(shape)
    rules = linear(1, 1)
    for dimension, size in enumerate(wanted):
        if dimension >= new and (size in (-1, shape[dimension - new])):
            rules.add(AxisRule(inputs=(dimension - new,), outputs=(dimension,)))
        else:
            rules.add(AxisRule(inputs=(REPLICATE,), outputs=(dimension,)))
    return rules


def _copy(call: Call) -> set[AxisRule]:
    """Split the source of a copy like its destination, whose old values do not count."""
    target, written = (tensor.shape for tensor in call.tensors())
    rules = {AxisRule(inputs=(REPLICATE, kind), outputs=(kind,)) for kind in (REPLICATE, PARTIAL)}
    new = len(target) - len(written)
    for dimension, size in enumerate(target):
        is_there = dimension >= new and written[dimension - new] == size
        rules.add(AxisRule(inputs=(dimension, dimension - new if is_there else REPLICATE), outputs=(dimension,)))
    return rules


def _masked_put(call: Call) -> set[AxisRule] | None:
    """Split any dimension where one value is written wherever a mask says so; other indices are left to torch."""
    target, *_rest = call.tensors()
    indices = argument(call, "indices")
    mask = indices[0] if len(indices) == 1 else None
    if not isinstance(mask, TensorArgument) or mask.dtype != torch.bool:
        return None
    if math.prod(argument(call, "values").shape) != 1:
        return None
    rules = {alike(3, 1, REPLICATE)}
    for dimension in range(len(target.shape)):
        in_mask = dimension if dimension < len(mask.shape) else REPLICATE
        rules.add(AxisRule(inputs=(dimension, in_mask, REPLICATE), outputs=(dimension,)))
    return rules
