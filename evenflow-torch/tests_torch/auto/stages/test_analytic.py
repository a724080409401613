"""Costs by formula against sums done by hand."""

import pytest

from evenflow.cluster.cluster import Link, Submesh
from evenflow.errors import InputError
from evenflow.model import EndBlock
from tests.cluster.clusters import mesh
from tests_torch.auto.networks import network, stages

GIGA = 10**9
CLUSTER = mesh(2, 4, intra=Link(bytes_per_s=GIGA, latency_ns=1), inter=Link(bytes_per_s=GIGA // 10, latency_ns=10))


def options(
    forwards: list[int], first: int, end: int, shape: Submesh, **blocks: EndBlock
) -> dict[str, tuple[int, ...]]:
    return {
        f"{cost.sharding}, {cost.recompute}": (
            cost.forward_ns,
            cost.backward_ns,
            cost.static_bytes,
            cost.activation_bytes,
        )
        for cost in stages(network(forwards, **blocks), CLUSTER).options(first, end, shape)
    }


def test_one_device_is_the_layer_file() -> None:
    assert options([100, 200, 300], 0, 2, Submesh(1, 1)) == {
        "data 1 x tensor 1, full": (300, 900, 1600, 200),
        "data 1 x tensor 1, none": (300, 600, 1600, 2000),
    }


def test_collectives() -> None:
    costs = options([1000], 0, 1, Submesh(1, 2))
    # Tensor: two all-reduces of 400 bytes over two devices, 400 ns and three times 1 ns, forward and backward.
    assert costs["data 1 x tensor 2, none"] == (500 + 806, 1000 + 806, 400, 500)
    # Full recomputation runs the forward again, its all-reduces included.
    assert costs["data 1 x tensor 2, full"] == (500 + 806, 1000 + 500 + 2 * 806, 400, 50)
    # Data: the gradients, 100 of 800 bytes, once in 8 microbatches: 103 ns in eight parts.
    assert costs["data 2 x tensor 1, none"] == (500, 1000 + 13, 800, 500)
    # Across nodes the gradients take ten times as long: 8 data-parallel parts do not divide 4 samples, 4 x 2 do.
    across = options([8000], 0, 1, Submesh(2, 4))
    assert set(across) == {
        f"data {data} x tensor {8 // data}, {kind}" for data in (1, 2, 4) for kind in ("none", "full")
    }
    # 2 * 50 * 3 / 4 = 75 bytes at 100 MB/s, seven times 10 ns: 820 ns in 8 parts. Tensor pairs: 100 bytes a part.
    assert across["data 4 x tensor 2, none"] == (1000 + 206, 2000 + 206 + 103, 400, 125)


def test_ends_count() -> None:
    head = EndBlock(forward_ns=10, backward_ns=20, parameter_bytes=40, activation_bytes=6)
    tail = EndBlock(forward_ns=30, backward_ns=70, parameter_bytes=80, activation_bytes=2)
    whole = options([100, 100], 0, 2, Submesh(1, 1), head=head, tail=tail)
    assert whole["data 1 x tensor 1, none"] == (240, 490, 1720, 2008)
    last = options([100, 100], 1, 2, Submesh(1, 1), head=head, tail=tail)
    assert last["data 1 x tensor 1, none"] == (130, 270, 880, 1002)


def test_kinds_tell_layers_apart() -> None:
    """The first layer has a free head, the last one a tail that costs something."""
    kinds = stages(network([5, 5, 5, 7, 5], tail=EndBlock(forward_ns=30, backward_ns=70)), CLUSTER).kinds
    assert kinds[0] == kinds[1] == kinds[2]
    assert len(set(kinds)) == 3


@pytest.mark.parametrize("change", [{"samples": 0}, {"boundary_bytes": 0}, {"num_microbatches": 0}])
def test_empty_microbatches_are_refused(change: dict[str, int]) -> None:
    from evenflow_torch.auto.stages.analytic import AnalyticStages

    values = {"num_microbatches": 1, "samples": 1, "boundary_bytes": 1, **change}
    with pytest.raises(InputError, match="must be at least 1, got 0"):
        AnalyticStages(network=network([1]), cluster=CLUSTER, **values)
