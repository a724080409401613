"""Operator sharding end to end: what experts do in each regime, all combinations of tiny graphs, limits."""

import itertools

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn
functional = torch.nn.functional

from evenflow.cluster.accelerators import Accelerator  # noqa: E402
from evenflow.cluster.mesh import Mesh, MeshAxis  # noqa: E402
from evenflow.cluster.placement import REPLICATE  # noqa: E402
from evenflow.cluster.reached import SLOWED  # noqa: E402
from evenflow.errors import InputError  # noqa: E402
from evenflow.predict.pricing import without_ns  # noqa: E402
from evenflow.solve import Status  # noqa: E402
from evenflow_torch.auto.sharding.builder import build  # noqa: E402
from evenflow_torch.auto.sharding.operator_strategies import StrategyTable, torch_rules  # noqa: E402
from evenflow_torch.auto.sharding.overlap import ALONE, Overlap  # noqa: E402
from evenflow_torch.auto.sharding.overlapped import OverlappedProgram  # noqa: E402
from evenflow_torch.auto.sharding.program import ModuleTraining  # noqa: E402
from evenflow_torch.auto.sharding.shard import shard, shard_graph  # noqa: E402
from evenflow_torch.auto.sharding.sharding_plan import ShardingPlan  # noqa: E402
from evenflow_torch.models.trace.capture import capture  # noqa: E402
from tests.cluster.accelerators import plain_accelerator  # noqa: E402

FAST = MeshAxis(size=4, bandwidth_bytes_per_s=300 * 10**9, latency_ns=1_000)
SLOW = MeshAxis(size=2, bandwidth_bytes_per_s=12 * 10**9, latency_ns=10_000)
ACCELERATOR = plain_accelerator(flops_per_s=300e12, memory_bytes_per_s=2e12)


class Block(nn.Module):  # type: ignore[misc,name-defined]
    """A transformer block as GPT-2 has it."""

    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm_1, self.norm_2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.q_proj, self.k_proj, self.v_proj, self.o_proj = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, hidden: "torch.Tensor") -> "torch.Tensor":
        batch, sequence, width = hidden.shape
        normed = self.norm_1(hidden)
        query, key, value = (
            project(normed).view(batch, sequence, self.heads, -1).transpose(1, 2)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        mixed = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        hidden = hidden + self.o_proj(mixed.transpose(1, 2).reshape(batch, sequence, width))
        return hidden + self.down(functional.gelu(self.up(self.norm_2(hidden))))


def blocks(count: int, width: int, heads: int = 16) -> object:
    with torch.device("meta"):
        return nn.Sequential(*(Block(width, heads) for _ in range(count))).to(torch.bfloat16)


def hidden(batch: int, sequence: int, width: int) -> object:
    return torch.empty(batch, sequence, width, dtype=torch.bfloat16, device="meta", requires_grad=True)


TABLE = StrategyTable(rules=torch_rules)
"""Strategies are found once for all tests."""
APART = ModuleTraining(overlap=ALONE)
"""Nothing is hidden, so times can be compared by hand."""


def placed(plan: ShardingPlan) -> dict[str, tuple[int, ...]]:
    return {one.name.split(".")[1]: one.kept for one in plan.parameters if one.name.endswith(".weight")}


def sums(plan: ShardingPlan, phase: str) -> list[tuple[str, int, int]]:
    return sorted(
        (one.collective, one.axis, one.times)
        for one in plan.collectives
        if one.part == "communication" and one.phase == phase
    )


MEGATRON = {"q_proj": 0, "k_proj": 0, "v_proj": 0, "o_proj": 1, "up": 0, "down": 1}
"""Columns (outputs, dimension 0 of torch's weights), then rows."""


@pytest.mark.parametrize("accelerator", [None, ACCELERATOR])
def test_large_model_on_a_fast_axis_is_split_as_megatron_does(accelerator: Accelerator | None) -> None:
    mesh = Mesh(axes=(FAST,), accelerator=accelerator)
    plan = shard(blocks(1, 4096), hidden(1, 1024, 4096), mesh, training=APART)
    assert plan.status is Status.OPTIMAL
    assert plan.gap == 0
    kept = placed(plan)
    assert {name: kept[name] for name in MEGATRON} == {name: (where,) for name, where in MEGATRON.items()}
    # Two sums forward and two backward, as all-reduces or as halves of them.
    for phase in ("forward", "backward"):
        assert len(sums(plan, phase)) == 2
    assert all(one.times == 1 for one in plan.collectives)
    assert "attention" in [one.name for one in plan.activations]
    texts = [one.text() for one in plan.parameters]
    assert "0.q_proj.weight column on mesh axis 0" in texts
    assert "0.o_proj.weight row on mesh axis 0" in texts


def test_without_computation_each_layer_has_megatrons_four_all_reduces() -> None:
    plan = shard(blocks(8, 4096), hidden(1, 1024, 4096), Mesh(axes=(FAST,)))
    assert sums(plan, "forward") == sums(plan, "backward") == [("all-reduce", 0, 8)] * 2
    assert len(plan.collectives) == 4


@pytest.mark.parametrize("accelerator", [None, ACCELERATOR])
def test_small_model_with_a_large_batch_is_data_parallel(accelerator: Accelerator | None) -> None:
    mesh = Mesh(axes=(FAST,), accelerator=accelerator)
    plan = shard(blocks(1, 512), hidden(64, 256, 512), mesh, training=APART)
    kept = placed(plan)
    assert all(kept[name] == (REPLICATE,) for name in MEGATRON)
    assert not sums(plan, "forward")
    # Where updates take time, they are shared out: ZeRO-1, with the bytes of an all-reduce in two halves.
    expected = {"reduce-scatter", "all-gather"} if accelerator else {"all-reduce"}
    assert {one.collective for one in plan.collectives if one.before.endswith("proj.weight")} == expected
    products = [one for one in plan.activations if len(one.shape) == 2]
    assert products
    assert all(one.placement == (0,) for one in products)


def test_mixture_on_two_axes() -> None:
    """Data parallelism or Megatron's split, for each half of a block and each axis.

    With T tokens and width d, an all-reduce of gradients is 4d² (attention) or 8d² (feed-forward) numbers, and each of
    the two sums of activations Td. On the fast axis, the batch being split on the slow one, 2 x (T/2)d numbers compare
    with them: the model is split up to T = 4d or 8d. On the slow axis a quarter of everything travels, the fast axis
    doing the rest: 2 x Td/4 against d² or 2d², so the model is split up to T = 2d or 4d.
    T = 6d: attention splits the batch on both axes; feed-forward the model on the fast one, the batch on the slow one.
    """
    mesh = Mesh(axes=(SLOW, FAST), accelerator=ACCELERATOR)
    plan = shard(blocks(2, 4096), hidden(96, 256, 4096), mesh, training=APART)
    kept = placed(plan)
    assert {name: kept[name] for name in MEGATRON} == {
        **dict.fromkeys(("q_proj", "k_proj", "v_proj", "o_proj"), (REPLICATE, REPLICATE)),
        "up": (REPLICATE, 0),
        "down": (REPLICATE, 1),
    }
    products = {one.name.rpartition(".")[2]: one.placement for one in plan.activations}
    assert products["q_proj"] == (0, 0)
    assert products["up"] == (0, 1)
    assert {one.part for one in plan.collectives if one.axis == 0} == {"gradient"}


def test_many_microbatches_make_gradients_cheap() -> None:
    mesh = Mesh(axes=(SLOW, FAST), accelerator=ACCELERATOR)
    plan = shard(
        blocks(2, 4096), hidden(16, 1024, 4096), mesh, training=ModuleTraining(num_microbatches=8, overlap=ALONE)
    )
    assert all(placed(plan)[name] == (REPLICATE, REPLICATE) for name in MEGATRON)
    # Summed where they are over the microbatches, and synchronised once: the slow axis carries a quarter of each.
    assert {(one.part, one.phase) for one in plan.collectives} == {("gradient", "update")}
    up = [(one.collective, one.axis) for one in plan.collectives if one.before.endswith("up.weight")]
    assert up == [("reduce-scatter", 1), ("reduce-scatter", 0), ("all-gather", 0), ("all-gather", 1)]


def test_parts_add_up_and_lower_bound_holds() -> None:
    mesh = Mesh(axes=(SLOW, FAST), accelerator=ACCELERATOR)
    training = ModuleTraining(num_microbatches=4, microbatches_in_flight=2)
    graph = capture(blocks(3, 1024), hidden(4, 256, 1024))
    plan = shard_graph(graph, mesh, TABLE, training=training)
    cost = plan.cost
    assert cost is not None
    by_kind = cost.compute_ns + cost.communication_ns + cost.resharding_ns + cost.gradient_ns + cost.optimizer_ns
    assert by_kind == cost.total_ns >= plan.lower_bound_ns
    collectives = sum(one.times * one.time_ns for one in plan.collectives)
    exposed = cost.total_ns - cost.compute_ns - cost.optimizer_ns
    assert 0 < cost.hidden_ns + cost.hidden_update_ns <= collectives
    saved = without_ns(cost.hidden_ns + cost.hidden_update_ns)
    assert exposed + saved == pytest.approx(collectives, abs=4 * training.num_microbatches + 4)
    assert plan.memory is not None
    parameters = sum(
        2
        * int(np.prod(one.shape))
        * (3 if "-" in one.name else 1)
        // int(np.prod([size for size, where in zip(mesh.shape, one.kept, strict=True) if where >= 0]))
        for one in plan.parameters
    )
    assert plan.memory.parameter_bytes == parameters


def test_memory_limit_is_kept_and_more_memory_is_never_worse() -> None:
    mesh = Mesh(axes=(FAST,), accelerator=ACCELERATOR)
    graph = capture(blocks(4, 1024), hidden(8, 256, 1024))
    free = shard_graph(graph, mesh, TABLE, training=APART)
    assert free.memory is not None
    assert free.cost is not None
    needed = free.memory.total_bytes
    assert shard_graph(graph, mesh, TABLE, training=APART, memory_limit_bytes=needed).cost == free.cost
    none = shard_graph(graph, mesh, TABLE, training=APART, memory_limit_bytes=1)
    assert none.status is Status.INFEASIBLE
    assert none.cost is None
    smallest = none.smallest_memory_bytes
    assert smallest is not None
    last = None
    for limit in (smallest, (smallest + needed) // 2, needed):
        plan = shard_graph(graph, mesh, TABLE, training=APART, memory_limit_bytes=limit)
        assert plan.status is Status.OPTIMAL
        assert plan.memory is not None
        assert plan.cost is not None
        assert plan.memory.total_bytes <= limit
        assert last is None or plan.cost.total_ns <= last
        last = plan.cost.total_ns
    assert shard_graph(graph, mesh, TABLE, training=APART, memory_limit_bytes=smallest - 1).status is Status.INFEASIBLE


def test_little_memory_shards_parameters_too() -> None:
    """With much of it updates alone are shared out, because they take time."""
    mesh = Mesh(axes=(FAST,), accelerator=ACCELERATOR)
    graph = capture(blocks(2, 512), hidden(64, 64, 512))
    free = shard_graph(graph, mesh, TABLE, training=APART)
    assert free.memory is not None
    smallest = shard_graph(graph, mesh, TABLE, training=APART, memory_limit_bytes=1).smallest_memory_bytes
    assert smallest is not None
    assert any(one.update != (REPLICATE,) for one in free.parameters)
    limit = (smallest + free.memory.total_bytes) // 2
    tight = shard_graph(graph, mesh, TABLE, training=APART, memory_limit_bytes=limit)
    assert tight.memory is not None
    assert tight.memory.parameter_bytes < free.memory.parameter_bytes


def test_layers_cost_in_proportion() -> None:
    mesh = Mesh(axes=(FAST,), accelerator=ACCELERATOR)
    totals = []
    for count in (3, 4, 12):  # of two, each is at an end
        plan = shard(blocks(count, 1024), hidden(4, 256, 1024), mesh, training=APART)
        assert plan.cost is not None
        totals.append(plan.cost.total_ns)
    assert totals[2] == totals[0] + 9 * (totals[1] - totals[0])


def test_tied_layers_are_as_good_as_free_ones_here() -> None:
    mesh = Mesh(axes=(FAST,), accelerator=ACCELERATOR)
    tied = shard(blocks(2, 1024), hidden(2, 256, 1024), mesh, training=APART)
    module = blocks(2, 1024)
    for position, one in enumerate(module):
        one.own_name = f"layer {position}"
    untied = shard(module, hidden(2, 256, 1024), mesh, training=APART)
    assert len(untied.parameters) == 2 * len(tied.parameters)
    assert tied.cost is not None
    assert untied.cost is not None
    assert untied.lower_bound_ns <= tied.cost.total_ns <= untied.cost.total_ns * 1.1


def test_hundreds_of_devices_from_one_process() -> None:
    nodes = MeshAxis(size=32, bandwidth_bytes_per_s=25 * 10**9, latency_ns=20_000)
    node = MeshAxis(size=8, bandwidth_bytes_per_s=300 * 10**9, latency_ns=5_000)
    mesh = Mesh(axes=(nodes, node), accelerator=ACCELERATOR)
    plan = shard(blocks(2, 2048), hidden(64, 256, 2048), mesh)
    assert plan.gap is not None
    assert plan.gap < 0.25
    assert shard(blocks(2, 2048), hidden(64, 256, 2048), mesh, training=APART).status is Status.OPTIMAL
    assert plan.replicated_operators == ()


def exhaustive(overlapped: OverlappedProgram, memory_limit: int | None) -> float:
    """The least cost over all combinations: one array with an axis for each node."""
    program = overlapped.whole
    dimensions = len(program.costs)

    def spread(table: np.ndarray, *axes: int) -> np.ndarray:
        shape = [1] * dimensions
        for axis, size in zip(axes, table.shape, strict=True):
            shape[axis] = size
        return table.reshape(shape)

    total = sum((spread(costs, i) for i, costs in enumerate(program.costs)), np.zeros(()))
    for (i, j), costs in program.edges.items():
        total = total + spread(costs, i, j)
    for window in overlapped.windows:  # a step of one microbatch
        work = sum((spread(np.where(np.isfinite(one), one, 0), i) for i, one in window.compute.items()), np.zeros(()))
        exchanged = np.zeros(())
        for edges in (window.recurring, window.once):
            for (i, j), costs in edges.items():
                exchanged = exchanged + spread(costs, i, j)
        total = total - np.floor(np.minimum(exchanged, work * SLOWED) / SLOWED + 1e-6)
    if memory_limit is not None:
        memory = sum((spread(one, i) for i, one in enumerate(program.memory)), np.zeros(()))
        total = np.where(memory <= memory_limit, total, np.inf)
    assert total.size <= 30_000_000
    return float(total.min())


class Scale(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(8, 6))

    def forward(self, hidden: "torch.Tensor") -> "torch.Tensor":
        return (hidden @ self.weight).relu().sum()


@pytest.mark.parametrize("accelerator", [None, plain_accelerator(flops_per_s=1e7, memory_bytes_per_s=1e7)])
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize("overlap", [ALONE, Overlap(), Overlap(tensor=True), Overlap(gradients=False)])
def test_all_combinations_of_a_tiny_graph(accelerator: Accelerator | None, size: int, overlap: Overlap) -> None:
    axis = MeshAxis(size=size, bandwidth_bytes_per_s=10**6, latency_ns=1_000)
    mesh = Mesh(axes=(axis,), accelerator=accelerator)
    graph = capture(Scale(), torch.empty(4, 8))
    training = ModuleTraining(overlap=overlap)
    program = build(graph, mesh, training, TABLE).overlapped
    limits = [None, *(int(share * 8 * 6 * 4 * 4) for share in (1.3, 0.7, 0.5))]
    for limit in limits:
        plan = shard_graph(graph, mesh, TABLE, training=training, memory_limit_bytes=limit)
        best = exhaustive(program, limit)
        found = plan.cost.total_ns if plan.cost else np.inf
        assert plan.lower_bound_ns <= best + 2 <= found + 2, "both windows round"
        if overlap == ALONE or plan.status is Status.OPTIMAL:
            assert found == pytest.approx(best, abs=2)
        elif np.isfinite(best):
            assert found <= 1.1 * best


@pytest.mark.parametrize("limit", [0, -1])
def test_limits_that_make_no_sense(limit: int) -> None:
    with pytest.raises(InputError, match="above zero"):
        shard(blocks(1, 64, 4), hidden(2, 8, 64), Mesh(axes=(FAST,)), memory_limit_bytes=limit)


def test_names_of_tied_parameters_expand() -> None:
    plan = shard(blocks(3, 64, 4), hidden(4, 8, 64), Mesh(axes=(FAST,)))
    module = blocks(3, 64, 4)
    names = itertools.chain.from_iterable(one.names() for one in plan.parameters)
    assert sorted(names) == sorted(name for name, _ in module.named_parameters())


@pytest.mark.parametrize("field", ["num_microbatches", "microbatches_in_flight", "optimizer_bytes_per_parameter"])
def test_training_that_makes_no_sense(field: str) -> None:
    with pytest.raises(InputError, match=field):
        ModuleTraining(**{field: -1})
