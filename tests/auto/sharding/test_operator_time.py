import pytest

from evenflow.auto.sharding.operator_strategies import OperatorStrategy
from evenflow.auto.sharding.operator_time import allowed_strategies, compute_ns, work_split
from evenflow.auto.trace.operator_graph import Operator, Role
from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.mesh import Mesh, MeshAxis
from evenflow.cluster.placement import PARTIAL, REPLICATE, WholeTensor

AXES = tuple(MeshAxis(size=size, bandwidth_bytes_per_s=1) for size in (2, 4))
ACCELERATOR = Accelerator(flops_per_s=1e9, memory_bytes_per_s=1e9)
LEFT, RIGHT, RESULT = (WholeTensor(shape=shape, item_bytes=1) for shape in ((8, 16), (16, 8), (8, 8)))
PRODUCT = Operator(name="mm", role=Role.COMPUTE, outputs=(RESULT,), flops=8000)
WHOLE = OperatorStrategy(inputs=((REPLICATE,) * 2,) * 2, outputs=((REPLICATE,) * 2,))
ROWS = OperatorStrategy(inputs=((REPLICATE, 0), (REPLICATE, REPLICATE)), outputs=((REPLICATE, 0),))
SUMS = OperatorStrategy(inputs=((0, 1), (REPLICATE, 0)), outputs=((0, PARTIAL),))


@pytest.mark.parametrize(("strategy", "parts"), [(WHOLE, 1), (ROWS, 4), (SUMS, 8)])
def test_work_is_split_where_any_tensor_is(strategy: OperatorStrategy, parts: int) -> None:
    mesh = Mesh(axes=AXES, accelerator=ACCELERATOR)
    assert work_split(strategy, mesh) == parts
    assert compute_ns(PRODUCT, (LEFT, RIGHT), strategy, mesh) == 8000 // parts


def test_light_operators_take_the_time_of_their_traffic() -> None:
    light = Operator(name="add", role=Role.COMPUTE, outputs=(RESULT,), flops=0)
    assert compute_ns(light, (LEFT, RIGHT), ROWS, Mesh(axes=AXES, accelerator=ACCELERATOR)) == 32 + 128 + 16
    view = Operator(name="view", role=Role.VIEW, outputs=(RESULT,))
    assert compute_ns(view, (LEFT, RIGHT), ROWS, Mesh(axes=AXES, accelerator=ACCELERATOR)) == 0


def test_where_computation_is_free_heavy_operators_are_split_most() -> None:
    free, strategies = Mesh(axes=AXES), (WHOLE, ROWS, SUMS)
    assert compute_ns(PRODUCT, (LEFT, RIGHT), WHOLE, free) == 0
    assert allowed_strategies(PRODUCT, strategies, free) == (SUMS,)
    assert allowed_strategies(PRODUCT, strategies, Mesh(axes=AXES, accelerator=ACCELERATOR)) == strategies
