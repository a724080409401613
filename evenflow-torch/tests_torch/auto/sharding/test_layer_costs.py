"""Costs of runs of layers, against the sharding of those very layers."""

import itertools

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from evenflow.cluster.collectives import Collective, collective_ns  # noqa: E402
from evenflow.cluster.mesh import Mesh, MeshAxis  # noqa: E402
from evenflow.cluster.placement import REPLICATE  # noqa: E402
from evenflow_torch.auto.sharding.layer_costs import stage_costs  # noqa: E402
from evenflow_torch.auto.sharding.mesh_costs import MeshCosts  # noqa: E402
from evenflow_torch.auto.sharding.program import ModuleTraining  # noqa: E402
from evenflow_torch.auto.sharding.shard import shard  # noqa: E402
from evenflow_torch.auto.sharding.ways import Level  # noqa: E402
from evenflow_torch.models.parts import Part  # noqa: E402
from tests.cluster.accelerators import plain_accelerator  # noqa: E402

WIDTH = 256
MESH = Mesh(
    axes=(MeshAxis(size=4, bandwidth_bytes_per_s=10**11, latency_ns=1_000),),
    accelerator=plain_accelerator(flops_per_s=1e14, memory_bytes_per_s=1e12),
)
TRAINING = ModuleTraining(num_microbatches=4)
TOKENS = torch.zeros(8, 16, dtype=torch.long)
HIDDEN = torch.empty(8, 16, WIDTH)


def layer() -> object:
    return nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))


KINDS = (
    Part(name="embedding", module=nn.Embedding(512, WIDTH), inputs=(TOKENS,)),
    Part(name="layer", module=layer(), inputs=(HIDDEN,)),
    Part(name="head", module=nn.Linear(WIDTH, 512), inputs=(HIDDEN,)),
)
ORDER = (0, 1, 1, 1, 1, 1, 2)


@pytest.fixture(scope="module")
def costs() -> MeshCosts:
    return stage_costs(KINDS, ORDER, [MESH], training=TRAINING)[0]


def test_run_of_equal_layers_costs_what_their_sharding_costs(costs: MeshCosts) -> None:
    """But for what it may take to give what the next layers take, and their gradient: an all-gather each."""
    module = nn.Sequential(*(layer() for _ in range(5)))
    plan = shard(module, HIDDEN.clone().requires_grad_(), MESH, training=TRAINING)
    fastest = costs.options(1, 6)[Level.FASTEST]
    assert plan.cost is not None
    assert plan.memory is not None
    hops = 4 * 2 * collective_ns(MESH.axes[0], Collective.ALL_GATHER, HIDDEN.numel() * 4)
    total = 4 * (fastest.forward_ns + fastest.backward_ns) + fastest.update_ns
    assert plan.lower_bound_ns <= total <= plan.cost.total_ns + hops
    parts = fastest.compute_ns + fastest.communication_ns + fastest.resharding_ns
    assert 4 * parts + fastest.gradient_ns + fastest.optimizer_ns == total


def test_what_goes_out_comes_in_likewise(costs: MeshCosts) -> None:
    """At the fastest level nothing is moved where kinds meet, and equal layers take what they give."""
    for start in (1, 6):
        assert costs.between(start, Level.FASTEST) == (0, 0)
    layer = costs.layers[1][Level.FASTEST]
    assert layer.entry == layer.exit


def test_layers_add_up(costs: MeshCosts) -> None:
    def numbers(first: int, end: int) -> list[tuple[int, ...]]:
        return [
            (one.forward_ns, one.backward_ns, one.update_ns, one.static_bytes, one.activation_bytes)
            for one in costs.options(first, end).values()
        ]

    for one, two, three in zip(numbers(1, 2), numbers(1, 3), numbers(1, 4), strict=True):
        assert [b - a for a, b in zip(one, two, strict=True)] == [c - b for b, c in zip(two, three, strict=True)]
    assert numbers(1, 3) == numbers(3, 5)
    for whole, longer in zip(numbers(1, 6), numbers(0, 7), strict=True):
        assert all(a < b for a, b in zip(whole[3:], longer[3:], strict=True))
        assert sum(whole[:2]) < sum(longer[:2])


def test_later_levels_need_less_memory_and_take_longer(costs: MeshCosts) -> None:
    found = costs.options(1, 6)
    options = [found[level] for level in Level]
    for fast, small in itertools.pairwise(options):
        step = [4 * (one.forward_ns + one.backward_ns) + one.update_ns for one in (fast, small)]
        memory = [one.static_bytes + one.activation_bytes for one in (fast, small)]
        assert step[0] <= step[1]
        assert memory[0] >= memory[1]
    assert options[-1].static_bytes < options[0].static_bytes


def test_boundaries_lie_on_the_mesh(costs: MeshCosts) -> None:
    for index in range(len(ORDER)):
        tensor, placement = costs.entry(index, 0)
        assert tensor.shape == ((8, 16) if index == 0 else (8, 16, WIDTH))
        assert len(placement) == 1
        assert -1 <= placement[0] < len(tensor.shape)


def test_parameters_that_are_gathered_for_their_layer_are_whole_beside_what_is_kept(costs: MeshCosts) -> None:
    sizes = {name: one.numel() * one.element_size() for name, one in layer().named_parameters()}  # type: ignore[attr-defined]
    gathered = set()
    for cost in costs.layers[1].values():
        names = {one.name for one in cost.plan.parameters if one.used == (REPLICATE,) != one.kept}
        assert cost.gathered_bytes == sum(sizes[name] for name in names)
        gathered.add(cost.gathered_bytes)
    assert 0 in gathered
    assert max(gathered) >= 2 * 4 * 4 * WIDTH**2, "both matrices"
