"""What an axis is used for, of layers that were sharded by hand as plain plans do."""

import itertools
from dataclasses import replace

import pytest

from evenflow.cluster import AttentionOnMesh, Collective, RowExchange
from evenflow.cluster.mesh import Mesh, MeshAxis
from evenflow.cluster.placement import blocks_of, split_along
from evenflow.predict.training import Sharding
from evenflow_torch.auto.sharding.sharding_plan import (
    ActivationSharding,
    CostPart,
    ParameterSharding,
    Phase,
    PlannedCollective,
)
from evenflow_torch.auto.sharding.ways import AxisRole
from evenflow_torch.auto.wording.axis_use import SAME, AxisUse, axis_uses
from tests_torch.auto.wording.made_layers import made_layer

ROLES = {"data": AxisRole.DATA, "tensor": AxisRole.TENSOR, "context": AxisRole.CONTEXT, "same": None}


@pytest.mark.parametrize("zero", Sharding)
@pytest.mark.parametrize("axes", list(itertools.product(ROLES, repeat=2)))
def test_plain_plans(axes, zero):
    uses = axis_uses([(made_layer(*axes, zero=zero), 3)])
    states = {"data": zero, "context": zero}
    assert uses == tuple(AxisUse(role=ROLES[axis], sharding=states.get(axis, Sharding.NOTHING)) for axis in axes)
    assert all(use.share >= SAME for use in uses)


def test_tokens_split_between_products_are_tensor_parallel_all_the_same():
    (use,) = axis_uses([(made_layer("tensor", tokens=True), 1)])
    assert use.role is AxisRole.TENSOR


@pytest.mark.parametrize(("tensors", "role"), [(3, AxisRole.TENSOR), (1, AxisRole.DATA)])
def test_most_parameters_win(tensors, role):
    (use,) = axis_uses([(made_layer("tensor"), tensors), (made_layer("data"), 4 - tensors)])
    assert use.role is role
    assert use.share == pytest.approx(3 / 4)


@pytest.mark.parametrize("sent", [True, False])
def test_experts_that_tokens_are_sent_to(sent):
    """Experts kept by expert are expert parallel where tokens go to them, and fully sharded where they are gathered."""
    layer = made_layer("data", zero="3")
    (use,) = axis_uses([(with_experts(layer, sent=sent), 1)])
    assert use == AxisUse(role=AxisRole.EXPERT if sent else AxisRole.DATA, sharding=Sharding.PARAMETERS)
    assert use.share >= SAME


def test_rows_of_tokens_behind_samples():
    """Of rows that merge samples and tokens, a part of every block is a split of the tokens."""
    layer = made_layer("data")
    rows = split_along(0, 4)
    products = [replace(one, reads=(rows,), placement=(rows,)) for one in layer.plan.activations]
    (use,) = axis_uses([(replace(layer, plan=replace(layer.plan, activations=tuple(products))), 1)])
    assert use.role is AxisRole.CONTEXT


@pytest.mark.parametrize(("rows", "split"), [(RowExchange.RING, 2), (RowExchange.BALANCED, 2), (RowExchange.RING, 0)])
def test_a_ring_is_on_the_axis_that_splits_rows(rows, split):
    layer = made_layer("data")
    shared = AttentionOnMesh(placement=(split,), rows=rows, backward_rows=rows)
    products = [
        replace(one, reads=(split_along(0, 4),), placement=(split_along(0, 4),)) for one in layer.plan.activations
    ]
    attention = replace(products[0], name="attention", reads=None, attention=shared)
    plan = replace(layer.plan, activations=(*products, attention))
    (use,) = axis_uses([(replace(layer, plan=plan), 1)])
    assert use.role is AxisRole.CONTEXT
    assert use.has_ring == (rows is RowExchange.RING and split == 2)


@pytest.mark.parametrize(
    ("blocks", "entry", "entry_split", "role"),
    [
        (32, (4, 32, 16), 0, AxisRole.DATA),
        (4, (4, 32, 16), 1, AxisRole.CONTEXT),
        (8, (8, 8, 16), 0, AxisRole.DATA),
        (8, (8, 8, 16), 1, AxisRole.CONTEXT),
    ],
)
def test_rows_behind_others_are_those_that_the_others_are_not(blocks, entry, entry_split, role):
    """What lies behind all tokens are samples, as in modules that take the sequence first."""
    layer = made_layer("data")
    rows = (split_along(0, blocks),)
    products = [replace(one, reads=rows, placement=rows) for one in layer.plan.activations]
    plan = replace(layer.plan, activations=tuple(products))
    (use,) = axis_uses([(replace(layer, entry=(entry_split,), entry_shape=entry, plan=plan), 1)])
    assert use.role is role


@pytest.mark.parametrize("batch_first", [True, False])
def test_data_parallel_attention_that_takes_the_sequence_first(batch_first):
    """`nn.MultiheadAttention` puts the sequence first in any case: rows of its products are tokens, then samples."""
    torch = pytest.importorskip("torch")
    from evenflow_torch.auto.sharding.layer_costs import stage_costs
    from evenflow_torch.auto.sharding.ways import PlainWay
    from evenflow_torch.models.parts import Part

    class Attention(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.attention = torch.nn.MultiheadAttention(64, 2, batch_first=batch_first)

        def forward(self, hidden):
            first = hidden if batch_first else hidden.transpose(0, 1)
            result = self.attention(first, first, first, need_weights=False)[0]
            return result if batch_first else result.transpose(0, 1)

    with torch.device("meta"):
        part = Part(name="attention", module=Attention(), inputs=(torch.zeros(8, 32, 64),))
    (costs,) = stage_costs([part], [0], [Mesh(axes=(MeshAxis(size=4, bandwidth_bytes_per_s=10**9),))])
    cost = costs.layers[0][PlainWay((AxisRole.DATA,), Sharding.NOTHING)]
    assert any(blocks_of(one.placement[0]) == 32 for one in cost.plan.activations)
    (use,) = axis_uses([(cost, 1)])
    assert use == AxisUse(role=AxisRole.DATA)


def with_experts(layer, *, sent):
    """The layer with experts behind it, split by expert where they are kept."""
    matrices = ParameterSharding(
        name="mlp.experts.down_proj",
        shape=(8, 16, 64),
        dimensions=(),
        kept=(0,),
        used=(0,),
        gradient=(0,),
        update=(0,),
    )
    result = ActivationSharding(name="mlp.experts", shape=(128, 16), placement=(0,))
    exchange = PlannedCollective(
        before="mlp.experts",
        collective=Collective.ALL_TO_ALL if sent else Collective.ALL_GATHER,
        axis=0,
        shape=(128, 16),
        times=1,
        time_ns=1,
        part=CostPart.COMMUNICATION,
        phase=Phase.FORWARD,
    )
    plan = replace(
        layer.plan,
        parameters=(*layer.plan.parameters, matrices),
        activations=(*layer.plan.activations, result),
        collectives=(exchange,),
    )
    return replace(layer, plan=plan)
