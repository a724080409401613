"""Degrees that a user decides: which clusters, submeshes and shardings keep to them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster import Cluster, Link, Mesh, MeshAxis, Submesh, submeshes
from evenflow.errors import InputError
from evenflow.predict.training import Sharding
from evenflow_torch.auto.fixing.fixed import Fixed
from evenflow_torch.auto.sharding.ways import AxisRole, Level, PlainWay
from tests_torch.auto.sharding.made_costs import made_costs
from tests_torch.auto.wording.made_layers import made_layer


def test_the_stage_of_zero_may_be_a_number():
    assert Fixed(zero=3) == Fixed(zero=Sharding.PARAMETERS)
    with pytest.raises(InputError, match="zero must be one of 0, 1, 2, 3, got '4'"):
        Fixed(zero=4)


OPEN = st.none() | st.sampled_from([1, 2, 3, 4, 8])


def made_cluster(nodes, width):
    link = Link(bytes_per_s=10**9)
    return Cluster(num_nodes=nodes, devices_per_node=width, memory_bytes=2**30, intra=link, inter=link)


@given(OPEN, OPEN, OPEN, OPEN, st.sampled_from([(1, 8), (2, 4), (4, 8), (2, 6)]))
def test_degrees_are_refused_only_where_no_equal_stages_have_them(tensor, data, context, pipeline, mesh):
    """Enumerated: degrees t, d, c, p of all devices with the decided ones among them."""
    cluster = made_cluster(*mesh)
    total, decided = cluster.num_devices, (tensor, data, context, pipeline)
    options = [[degree] if degree else range(1, total + 1) for degree in decided]
    exists = any(
        t * d * c * p == total
        for t in options[0] for d in options[1] for c in options[2] for p in options[3]
        if t * d * c * p <= total
    )  # fmt: skip
    fixed = Fixed(tensor=tensor, data=data, context=context, pipeline=pipeline)
    if exists:
        fixed.check(cluster, 1000)
    else:
        with pytest.raises(InputError, match="the product of the degrees must"):
            fixed.check(cluster, 1000)


def test_more_stages_than_layers():
    with pytest.raises(InputError, match="pipeline must be at most the 3 layers"):
        Fixed(pipeline=4).check(made_cluster(1, 4), 3)


def test_stages_that_have_the_devices():
    cluster = made_cluster(2, 8)
    shapes = submeshes(cluster)
    assert [str(one) for one in shapes if Fixed(tensor=4).has_room(one)] == ["1x4", "1x8", "2x8"]
    assert [one for one in shapes if Fixed(tensor=4, data=2, context=1).has_room(one)] == [Submesh(1, 8)]
    assert all(Fixed(pipeline=2).has_room(one) for one in shapes)


def on_mesh(costs, *sizes):
    axes = tuple(MeshAxis(size=size, bandwidth_bytes_per_s=10**9) for size in sizes)
    return replace(costs, mesh=Mesh(axes=axes))


FREE = [
    (Fixed(tensor=4), ("data", "tensor"), True),
    (Fixed(tensor=2), ("data", "tensor"), False),
    (Fixed(tensor=1), ("data", "tensor"), False),
    (Fixed(tensor=4, data=2, zero=Sharding.OPTIMIZER), ("data", "tensor"), True),
    (Fixed(zero=Sharding.NOTHING), ("data", "tensor"), False),
    (Fixed(data=8), ("data", "data"), True),
    (Fixed(context=4), ("data", "context"), True),
    (Fixed(tensor=4), ("same", "tensor"), False),
    (Fixed(pipeline=3), ("same", "tensor"), True),
]


@pytest.mark.parametrize(("fixed", "axes", "allowed"), FREE)
def test_free_shardings_that_mean_the_same(fixed, axes, allowed):
    costs = on_mesh(made_costs([0], [made_layer(*axes, zero="1")]), 2, 4)
    assert fixed.allows(costs, Level.FASTEST) == allowed


def test_layers_that_differ_have_no_degrees():
    costs = on_mesh(made_costs([0, 1], [made_layer("data", "tensor"), made_layer("data", "data")]), 2, 4)
    assert not Fixed(tensor=4).allows(costs, Level.FASTEST)
    assert Fixed(pipeline=1).allows(costs, Level.FASTEST)


@pytest.mark.parametrize(
    ("fixed", "allowed"),
    [
        (Fixed(tensor=4, data=2), True),
        (Fixed(data=8), False),
        (Fixed(zero=Sharding.GRADIENTS), True),
        (Fixed(zero=Sharding.OPTIMIZER), False),
    ],
)
def test_plain_ways(fixed, allowed):
    way = PlainWay((AxisRole.DATA, AxisRole.TENSOR), Sharding.GRADIENTS)
    costs = on_mesh(made_costs([0], [made_layer("same", "same")]), 2, 4)
    assert fixed.allows(costs, way) == allowed


def test_what_devices_would_share_out_does_not_matter_where_there_is_one():
    costs = on_mesh(made_costs([0], [made_layer("same", "tensor")]), 1, 8)
    assert Fixed(zero=Sharding.PARAMETERS).allows(costs, PlainWay((AxisRole.DATA, AxisRole.TENSOR)))
