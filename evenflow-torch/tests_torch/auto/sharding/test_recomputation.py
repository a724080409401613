"""The costs of layers that recompute a part of themselves, on one device and on several."""

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from evenflow.cluster.mesh import Mesh, MeshAxis  # noqa: E402
from evenflow_torch.auto.sharding.layer_costs import stage_costs  # noqa: E402
from evenflow_torch.auto.sharding.mesh_costs import MeshCosts  # noqa: E402
from evenflow_torch.auto.sharding.ways import Level  # noqa: E402
from evenflow_torch.models.parts import Part  # noqa: E402
from tests.cluster.accelerators import plain_accelerator  # noqa: E402
from tests_torch.auto.modules import Block  # noqa: E402

WIDTH = 64


def costs(*sizes: int) -> MeshCosts:
    accelerator = plain_accelerator(flops_per_s=1e12, memory_bytes_per_s=1e12)
    axes = tuple(MeshAxis(size=size, bandwidth_bytes_per_s=10**15) for size in sizes)
    with torch.device("meta"):
        layer, hidden = Block(WIDTH), torch.empty(4, 32, WIDTH)
    part = Part(name="block", module=layer, inputs=(hidden,))
    return stage_costs([part], [0] * 4, [Mesh(axes=axes, accelerator=accelerator)])[0]


def test_it_takes_longer_and_keeps_less() -> None:
    layer = costs(1).layers[0][Level.FASTEST]
    assert layer.recomputed
    for one in layer.recomputed.values():
        assert 0 < one.again_ns < layer.slope.forward_ns
        assert 0 < one.activation_bytes < layer.slope.activation_bytes


def test_two_devices_have_half_each() -> None:
    whole, half = (costs(size).layers[0][Level.FASTEST] for size in (1, 2))
    for kind, one in half.recomputed.items():
        assert one.activation_bytes == pytest.approx(whole.recomputed[kind].activation_bytes / 2, rel=0.02)
        assert one.again_ns == pytest.approx(whole.recomputed[kind].again_ns / 2, rel=0.02)
