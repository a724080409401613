"""The operators and exchanges of experts, in the place of an MLP or in attention."""

from evenflow.cluster import Collective
from evenflow.cluster.topology import DeviceGroup
from evenflow.predict.passes import HALF, Passes, activation, linear, mlp, tokens
from evenflow.predict.training import Training
from evenflow.predict.work import Exchange, Spent, elementwise

_ROUTING_CALLS = 16
"""Operators that route tokens to experts and back: scores and their choice, the map and the counts of tokens, the loss
of the load, permuting, sorting; and the same backward."""
_FUSED_CALLS = 8
"""Of these, the map, the counts, permuting and sorting: what HybridEP does in the kernels that send."""


def expert_passes(training: Training) -> Passes:
    """Return the work of experts in the place of an MLP: a router, tokens there and back, products, shared experts."""
    model, degrees, experts = training.model, training.degrees, training.model.experts
    assert experts is not None
    split = expert_tensor(training)
    own_experts, routed = experts.count / degrees.expert, routed_tokens(training)
    width, hidden = experts.ffn / split, experts.width or model.hidden
    inner = (2 if model.gated else 1) * width
    rows = routed / own_experts
    passed = HALF * routed * hidden
    scores = experts.scores
    passes = linear(
        training, tokens(training) / degrees.tensor, scores, experts.router_width or model.hidden, "moe", is_router=True
    )
    calls = _ROUTING_CALLS
    if training.software.permutes_sent and exchanges_tokens(training):
        calls -= _FUSED_CALLS
    passes += Passes((elementwise(4 * passed, calls, "moe"),), (elementwise(5 * passed, calls, "moe"),))
    if exchanges_tokens(training):
        exchange = _sent_tokens(training, passed, "moe")
        passes += Passes((exchange, exchange), (exchange, exchange))
    if experts.width:
        for ends in (model.hidden, hidden), (hidden, model.hidden):
            passes += linear(training, tokens(training) / degrees.tensor, *ends, "moe")
    passes += linear(training, rows, inner, hidden, "moe", own_experts)
    passes += activation(training, routed * inner, routed * width, "moe_act")
    passes += linear(training, rows, hidden, width, "moe", own_experts)
    if experts.shared_ffn:
        passes += mlp(training, experts.shared_ffn, module="shared_experts")
    return passes


def attention_experts(training: Training) -> Passes:
    """Return the work of the experts before and behind attention: a router, tokens there and back twice, products."""
    model, degrees, experts = training.model, training.degrees, training.model.experts
    assert experts is not None
    own_experts, routed, split = experts.count / degrees.expert, routed_tokens(training), expert_tensor(training)
    rows, (queried, read) = routed / own_experts, expert_widths(training)
    passed = HALF * routed * (2 * model.hidden + (queried + read) * split)
    passes = linear(training, tokens(training) / degrees.tensor, experts.count, model.hidden, "qkv", is_router=True)
    passes += Passes(
        (elementwise(2 * passed, _ROUTING_CALLS, "qkv"),), (elementwise(2.5 * passed, _ROUTING_CALLS, "qkv"),)
    )
    if exchanges_tokens(training):
        for numbers in (model.hidden, queried * split, read * split, model.hidden):
            exchange = _sent_tokens(training, HALF * routed * numbers, "qkv")
            passes += Passes((exchange,), (exchange,))
    passes += linear(training, rows, queried, model.hidden, "qkv", own_experts)
    return passes + linear(training, rows, model.hidden, read, "out", own_experts)


def expert_widths(training: Training) -> tuple[float, float]:
    """Return the numbers of queries that an expert of attention gives on a device, and those that it reads after."""
    model, experts = training.model, training.model.experts
    assert experts is not None
    parts = experts.active * expert_tensor(training)
    return model.heads * model.head_dim / parts, model.heads * model.value_width / parts


def routed_tokens(training: Training) -> float:
    """Return the tokens that a device's experts get, with equal loads, or the largest that they may be."""
    degrees, experts = training.degrees, training.model.experts
    assert experts is not None
    equal = tokens(training) / degrees.tensor * experts.computed * expert_tensor(training)
    return equal * (experts.bounded_load(degrees.expert) or 1.0)


def _sent_tokens(training: Training, passed: float, module: str) -> Exchange:
    """Return the exchange that sends a device's tokens to their experts, or back: `passed` bytes."""
    split, software, experts = expert_tensor(training), training.software, training.model.experts
    assert experts is not None
    group = DeviceGroup(size=training.degrees.expert * split)
    return Exchange(
        spent=Spent.EXPERT, module=module, group=group, collective=Collective.ALL_TO_ALL,
        size_bytes=passed * group.size / split, copies=experts.active if software.sends_tokens_once else 0,
        groups=(experts.groups, experts.chosen_groups),
    )  # fmt: skip


def exchanges_tokens(training: Training) -> bool:
    """Return whether devices exchange tokens between experts, in a layer that is trained."""
    return training.model.experts is not None and training.degrees.expert * expert_tensor(training) > 1


def expert_tensor(training: Training) -> int:
    """Return over how many devices an expert's matrices are split."""
    degrees = training.degrees
    if degrees.expert_tensor is not None:
        return degrees.expert_tensor
    return 1 if degrees.expert > 1 else degrees.tensor
