"""What each axis of a mesh is used for, read off where the tensors of layers lie: data, tensor, context, or experts.

A product with a parameter tells. Where every device reads and gives other rows, its samples or its tokens are split;
where it reads all rows and gives other columns, or reads columns and gives a part of the sum, its matrix is split. The
state of the parameters tells the stage of ZeRO. Every parameter has as many votes as elements, and most votes win.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import TypeVar

from evenflow.cluster import Collective, RowExchange
from evenflow.cluster.placement import PARTIAL, REPLICATE, blocks_of, dimension_of
from evenflow.predict.training import Sharding
from evenflow_torch.auto.sharding.mesh_costs import LayerCost
from evenflow_torch.auto.sharding.sharding_plan import ActivationSharding, ParameterSharding
from evenflow_torch.auto.sharding.ways import AxisRole

_TOKENS = 1
"""The dimension of tokens in what comes into a layer."""
_ROWS = 2
"""The dimension of the rows of queries."""
_MATRICES = 3
"""Dimensions of a parameter that holds a matrix for each expert, which the first one counts."""
_T = TypeVar("_T")

SAME = 0.95
"""From this share of votes on the rest is not worth a word: norms, biases, what does not split evenly."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AxisUse:
    """What one axis of a mesh is used for."""

    role: AxisRole | None
    """None: every device does the same."""
    sharding: Sharding = Sharding.NOTHING
    """What devices share out of the state of parameters that they use alike; of a tensor axis nothing."""
    share: float = field(default=1.0, compare=False)
    """The share of the parameters that agree."""
    splits_tokens: bool = field(default=False, compare=False)
    """Whether what comes into the layers is split by tokens, which on a tensor axis is sequence parallelism."""
    has_ring: bool = field(default=False, compare=False)
    """Whether, on a context axis, keys and values go around a ring."""


def axis_uses(layers: Iterable[tuple[LayerCost, int]]) -> tuple[AxisUse, ...]:
    """Return what each mesh axis is used for by layers of several kinds, each given with how many there are."""
    costs = list(layers)
    return tuple(_axis_use(costs, axis) for axis in range(len(costs[0][0].entry)))


def _axis_use(costs: Sequence[tuple[LayerCost, int]], axis: int) -> AxisUse:
    roles: Counter[AxisRole | None] = Counter()
    states: Counter[Sharding] = Counter()
    for cost, count in costs:
        roles_of = dict(_roles(cost, axis))
        for parameter in cost.plan.parameters:
            votes = count * prod(parameter.shape)
            role = roles_of.get(parameter.name)
            if parameter.name in roles_of:
                roles[role] += votes
            if role not in (AxisRole.TENSOR, AxisRole.EXPERT):
                states[_state(parameter, axis)] += votes
    if roles[AxisRole.EXPERT]:  # around its experts a layer is data parallel
        roles[AxisRole.EXPERT] += roles.pop(AxisRole.DATA, 0)
    role, share = _most(roles, None)
    sharding, agreed = _most(states, Sharding.NOTHING)
    if role is AxisRole.TENSOR:
        by_tokens = sum(count for cost, count in costs if cost.entry[axis] == _TOKENS)
        return AxisUse(role=role, share=share, splits_tokens=2 * by_tokens > sum(count for _cost, count in costs))
    has_ring = role is AxisRole.CONTEXT and any(_has_ring(cost, axis) for cost, _count in costs)
    return AxisUse(role=role, sharding=sharding, share=min(share, agreed), has_ring=has_ring)


def _has_ring(cost: LayerCost, axis: int) -> bool:
    """Tell whether attention of a layer passes keys and values along an axis."""
    shared = [activation.attention for activation in cost.plan.activations if activation.attention is not None]
    return any(attention.rows is RowExchange.RING and attention.placement[axis] == _ROWS for attention in shared)


def _most(votes: Counter[_T], otherwise: _T) -> tuple[_T, float]:
    """Return the value with the most votes, and its share of them."""
    if not votes.total():
        return otherwise, 1.0
    winner, count = votes.most_common(1)[0]
    return winner, count / votes.total()


def _state(parameter: ParameterSharding, axis: int) -> Sharding:
    """Return the furthest ZeRO stage whose state of a parameter is split along an axis."""
    stages = (
        (parameter.kept, Sharding.PARAMETERS),
        (parameter.gradient, Sharding.GRADIENTS),
        (parameter.update, Sharding.OPTIMIZER),
    )
    splits = (stage for placement, stage in stages if placement[axis] not in (REPLICATE, PARTIAL))
    return next(splits, Sharding.NOTHING)


def _roles(cost: LayerCost, axis: int) -> Iterator[tuple[str, AxisRole | None]]:
    """Yield what the axis is for in each operator that uses a parameter, by the parameter's name."""
    splits_tokens = cost.entry[axis] == _TOKENS
    moves = [move for move in cost.plan.collectives if move.axis == axis]
    sent = {move.before for move in moves if move.collective is Collective.ALL_TO_ALL}
    results = {value.name: value for value in cost.plan.activations}
    for parameter in cost.plan.parameters:
        value = results.get(parameter.name.rpartition(".")[0]) or results.get(parameter.name)
        if value is None:
            continue
        by_expert = len(parameter.shape) == _MATRICES and parameter.kept[axis] == 0
        if by_expert and (value.name in sent or value.placement[axis] == PARTIAL):
            yield parameter.name, AxisRole.EXPERT
        else:
            yield parameter.name, _role(value, axis, cost.entry_shape, splits_tokens=splits_tokens)


def _role(value: ActivationSharding, axis: int, entry_shape: Sequence[int], *, splits_tokens: bool) -> AxisRole | None:
    """Return what the axis is for in an operator; `splits_tokens`: the layer's input is split along the sequence."""
    gives = value.placement[axis]
    reads = gives if value.reads is None else value.reads[axis]
    if REPLICATE == gives == reads:
        return None
    by_features = value.reads is None and gives >= 0 and dimension_of(gives) == len(value.shape) - 1 > 0
    if reads != gives or gives == PARTIAL or by_features:
        return AxisRole.TENSOR
    of_tokens = _is_of_tokens(value.shape, gives, entry_shape, splits_tokens=splits_tokens)
    return AxisRole.CONTEXT if of_tokens else AxisRole.DATA


def _is_of_tokens(shape: Sequence[int], split: int, entry_shape: Sequence[int], *, splits_tokens: bool) -> bool:
    """Tell whether a split of rows splits the tokens, rather than the samples, of the layer's input.

    Some modules take the sequence first, as `nn.MultiheadAttention` does: samples lie behind tokens there.
    """
    samples, tokens = (*entry_shape[:2], 0, 0)[:2]
    if len(shape) > 2:
        is_turned = tuple(shape[:2]) == (tokens, samples) != (samples, tokens)
        return dimension_of(split) != (1 if is_turned else 0)
    # A product sees samples and tokens as rows of one dimension: what is split behind so many blocks lies behind them.
    blocks = blocks_of(split)
    if blocks == 1:
        return dimension_of(split) > 0 or splits_tokens
    return blocks != tokens or (blocks == samples and splits_tokens)
