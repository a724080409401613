"""What an axis is used for, of layers that were sharded by hand as plain plans do."""

import itertools

import pytest

from evenflow.auto.sharding.ways import AxisRole
from evenflow.auto.wording.axis_use import SAME, AxisUse, axis_uses
from evenflow.predict.training import Sharding
from tests.auto.wording.made_layers import made_layer

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
