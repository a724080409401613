"""Two-level plans of small modules: regimes that a person can check, and laws of every plan."""

from dataclasses import replace
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from evenflow.cluster.cluster import Cluster, Link  # noqa: E402
from evenflow.cluster.layout import REPLICATED  # noqa: E402
from evenflow.cluster.placement import REPLICATE  # noqa: E402
from evenflow.errors import InputError  # noqa: E402
from evenflow.model import FULL, NONE  # noqa: E402
from evenflow.simulate import simulate  # noqa: E402
from evenflow.solve import Status  # noqa: E402
from evenflow_torch.auto.module_planner import plan  # noqa: E402
from evenflow_torch.auto.placed_pipeline import simulated  # noqa: E402
from evenflow_torch.auto.planner import AutoPlan  # noqa: E402
from evenflow_torch.auto.sharding.ways import Level, MeshSharding  # noqa: E402
from tests.cluster.accelerators import plain_accelerator  # noqa: E402

WIDTH = 256
HIDDEN = torch.empty(8, 64, WIDTH, device="meta")
ACCELERATOR = plain_accelerator(flops_per_s=1e12, memory_bytes_per_s=1e12)
FAST, SLOW = Link(bytes_per_s=10**11, latency_ns=100), Link(bytes_per_s=5 * 10**8, latency_ns=100)
ROOM = 2**30


def block() -> object:
    return nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))


def cluster(num_nodes: int, devices_per_node: int, memory_bytes: int = ROOM, *, intra: Link = FAST) -> Cluster:
    return Cluster(
        num_nodes=num_nodes, devices_per_node=devices_per_node, memory_bytes=memory_bytes, intra=intra, inter=SLOW
    )


def planned(where: Cluster, *, num_microbatches: int = 4, num_layers: int = 4) -> AutoPlan:
    with torch.device("meta"):
        layers = nn.Sequential(*(block() for _ in range(num_layers)))
        tail = nn.Linear(WIDTH, 64)
    return plan(
        layers,
        HIDDEN,
        where,
        num_microbatches=num_microbatches,
        tail=tail,
        accelerator=ACCELERATOR,
        time_limit_s=20,
    )


@pytest.fixture(scope="module")
def slow_pair() -> AutoPlan:
    """Two devices with a slow link."""
    return planned(cluster(2, 1))


@pytest.fixture(scope="module")
def fast_pair() -> AutoPlan:
    """Two devices with a fast link."""
    return planned(cluster(1, 2))


def check(found: AutoPlan) -> None:
    """What holds for every plan."""
    stages = found.stages
    assert [stage.first for stage in stages[1:]] == [stage.end for stage in stages[:-1]]
    assert (stages[0].first, stages[-1].end) == (0, len(found.row.body))
    devices = {stage.rank: stage.devices for stage in stages}
    assert sorted(device for some in devices.values() for device in some) == list(range(found.cluster.num_devices))
    names = {layer.full_name(name) for layer in found.row.parts for name, _ in layer.module.named_parameters()}
    placed = [name for stage in stages for name in stage.placements]
    assert sorted(placed) == sorted(names)
    bound_ns = found.search.simulated_bound_ns
    assert all(bound_ns <= one.timeline.makespan_ns for one in found.search.alternatives)
    assert found.provider.work.step_ns(
        1, num_microbatches=found.num_microbatches, num_devices=found.cluster.num_devices
    ) <= min(bound_ns, found.simulation.makespan_ns)
    assert 0 < found.lower_bound_ns <= found.simulation.makespan_ns
    assert max(found.simulation.peak_memory_bytes) <= found.cluster.memory_bytes
    for before, after in pairwise(stages):
        assert after.on_mesh.input is not None
        assert set(after.on_mesh.input.devices) == set(after.devices)
        assert before.modules[-1] != after.modules[0]


def test_slow_links_make_a_pipeline(slow_pair: AutoPlan) -> None:
    check(slow_pair)
    assert [str(stage.submesh) for stage in slow_pair.stages[:2]] == ["1x1", "1x1"]
    assert all(where == REPLICATE for stage in slow_pair.stages for one in stage.placements.values() for where in one)


def test_fast_links_make_one_stage_of_split_operators(fast_pair: AutoPlan) -> None:
    check(fast_pair)
    assert [str(stage.submesh) for stage in fast_pair.stages] == ["1x2"]
    best = fast_pair.stages[0].option
    # Two devices share the work: half of what one device takes for four layers and the tail.
    one = fast_pair.provider
    alone = one.stage_option(0, 4, next(iter(one.costs)), MeshSharding((1,), Level.FASTEST))
    assert best.compute_ns == pytest.approx(alone.compute_ns / 2, rel=0.1)
    assert best.communication_ns + best.resharding_ns < best.compute_ns


def test_one_token_at_a_time_splits_columns_then_rows() -> None:
    """Nothing but the weights can be split, and a single microbatch fills no pipeline: Megatron's split."""
    with torch.device("meta"):
        layers = nn.Sequential(block(), block())
    token = torch.empty(1, 1, WIDTH, device="meta")
    found = plan(layers, token, cluster(1, 2), num_microbatches=1, accelerator=ACCELERATOR, time_limit_s=20)
    check(found)
    (stage,) = found.stages
    for index in (0, 1):
        assert stage.placements[f"{index}.1.weight"] == (0,)  # column: the outputs
        assert stage.placements[f"{index}.3.weight"] == (1,)  # row: the inputs
    assert stage.option.communication_ns > 0


def test_plan_is_what_was_simulated(slow_pair: AutoPlan) -> None:
    two_level = slow_pair.search.shortest
    assert two_level is not None
    placed = simulated(two_level, slow_pair.provider)
    assert placed.costs.forward_ns.tolist() == [stage.cost.forward_ns for stage in two_level.stages]
    assert placed.costs.backward_ns.tolist() == [stage.cost.backward_ns for stage in two_level.stages]
    assert placed.makespan_ns == two_level.timeline.makespan_ns
    again = simulate(slow_pair.simulation.network, slow_pair.simulation.plan)
    assert again.makespan_ns <= slow_pair.simulation.makespan_ns
    assert slow_pair.simulation.makespan_ns <= two_level.timeline.makespan_ns
    assert two_level.step_ns >= two_level.lower_bound_ns


def test_stages_add_up(slow_pair: AutoPlan) -> None:
    provider = slow_pair.provider
    submesh = slow_pair.stages[0].submesh
    by_kind = {(one.sharding, one.recompute): one for one in provider.options(0, 2, submesh)}
    longer = {(one.sharding, one.recompute): one for one in provider.options(0, 4, submesh)}
    for (words, recompute), one in by_kind.items():
        option = provider.stage_option(0, 2, submesh, words)
        assert one.forward_ns == option.forward_ns
        if recompute == NONE:
            assert one.activation_bytes >= option.activation_bytes
            full = by_kind[words, FULL]
            assert full.backward_ns == one.backward_ns + one.forward_ns
            assert full.activation_bytes == 2 * HIDDEN.numel() * 4  # what enters two layers, on one device
        assert longer[words, recompute].static_bytes > one.static_bytes


def test_too_little_memory_says_how_much_would_do(slow_pair: AutoPlan) -> None:
    found = planned(cluster(2, 1, 2**20))
    assert found.status is Status.INFEASIBLE
    assert found.stages == ()
    for name in ("simulation", "mesh_plan"):
        with pytest.raises(InputError, match=r"must have a plan before it can be simulated or run; .* it would with"):
            getattr(found, name)
    shortage = found.search.shortage
    assert shortage is not None
    assert planned(cluster(2, 1, shortage.memory_bytes)).status is not Status.INFEASIBLE
    assert planned(cluster(2, 1, shortage.memory_bytes - 1)).status is Status.INFEASIBLE


def test_more_memory_is_never_slower(slow_pair: AutoPlan) -> None:
    limited = planned(cluster(2, 1, max(slow_pair.simulation.peak_memory_bytes) * 3 // 4))
    check(limited)
    assert slow_pair.search.plan is not None
    assert limited.search.plan is not None
    assert limited.search.plan.step_ns >= slow_pair.search.plan.step_ns


def test_layers_that_are_no_row() -> None:
    with pytest.raises(InputError, match=r"must be an nn.Sequential, .* where head or tail"):
        plan(nn.Linear(2, 2), torch.empty(2, 2), cluster(1, 1), num_microbatches=1, tail=nn.Linear(2, 2))
    with pytest.raises(InputError, match="must be one tensor for layers in a row"):
        plan([nn.Linear(2, 2)], (torch.empty(2, 2), 1), cluster(1, 1), num_microbatches=1)
    with pytest.raises(InputError, match="at least one layer"):
        plan([], torch.empty(2, 2), cluster(1, 1), num_microbatches=1)
    with pytest.raises(InputError, match=r"Linear\.1 must run on tensors"):
        plan([nn.Linear(2, 3), nn.Linear(2, 2)], torch.empty(2, 2), cluster(1, 1), num_microbatches=1)


class Wrapped(nn.Module):
    """No row of layers by its form."""

    def __init__(self, layers: object) -> None:
        super().__init__()
        self.layers = layers

    def forward(self, x: object) -> object:
        for layer in self.layers:
            x = layer(x)
        return x


def test_a_module_that_is_no_row_is_planned_like_its_layers(slow_pair: AutoPlan) -> None:
    """The same stages, times and memory; the last layer is the tail of the row."""
    with torch.device("meta"):
        module = Wrapped(nn.ModuleList([*(block() for _ in range(4)), nn.Linear(WIDTH, 64)]))
    found = plan(module, HIDDEN, cluster(2, 1), num_microbatches=4, accelerator=ACCELERATOR, time_limit_s=20)
    check(found)
    assert [stage.modules for stage in found.stages] == [
        tuple(f"layers.{4 if path == 'tail' else path}" for path in stage.modules) for stage in slow_pair.stages
    ]
    for stage, other in zip(found.stages, slow_pair.stages, strict=True):
        assert (stage.option, stage.recompute, stage.kinds) == (other.option, other.recompute, other.kinds)
        assert {name: where for name, where in stage.placements.items() if "layers.4" not in name} == {
            f"layers.{name}": where for name, where in other.placements.items() if "tail" not in name
        }
    assert found.simulation.makespan_ns == slow_pair.simulation.makespan_ns


def test_convolutions_with_buffers_of_several_widths() -> None:
    """What a norm writes to its buffers is not taken for what goes to the next layer."""

    def widths(before: int, behind: int) -> object:
        return nn.Sequential(nn.Conv2d(before, behind, 3, 2, 1), nn.BatchNorm2d(behind), nn.ReLU(inplace=True))

    with torch.device("meta"):
        module = nn.Sequential(widths(3, 32), nn.Dropout(), widths(32, 64), nn.Flatten(), nn.Linear(64 * 64, 8))
    images = torch.empty(4, 3, 32, 32, device="meta")
    found = plan(module, images, cluster(2, 1), num_microbatches=4, accelerator=ACCELERATOR, time_limit_s=20)
    check(found)
    assert {name for stage in found.stages for name in stage.placements} == {
        name for name, _ in module.named_parameters()
    }


def test_replicated_has_one_value() -> None:
    """Layouts of messages and placements of parameters write it alike."""
    assert REPLICATE == REPLICATED


def test_links_do_not_change_a_lone_device() -> None:
    slow = planned(cluster(1, 1, intra=SLOW), num_layers=2)
    fast = planned(cluster(1, 1), num_layers=2)
    assert slow.simulation.makespan_ns == fast.simulation.makespan_ns
    assert replace(slow.stages[0], option=fast.stages[0].option) == fast.stages[0]


def test_one_device_without_links() -> None:
    """Links of one byte a second stand for those that are not there; with less memory the layers are recomputed."""
    none = Link(bytes_per_s=1)
    alone = Cluster(num_nodes=1, devices_per_node=1, memory_bytes=ROOM, intra=none, inter=none)
    roomy = planned(alone, num_layers=2)
    tight = planned(replace(alone, memory_bytes=max(roomy.simulation.peak_memory_bytes) - 1), num_layers=2)
    for found in (roomy, tight):
        check(found)
        assert [stage.submesh for stage in found.stages] == [(1, 1)]
    assert not roomy.stages[0].recompute
    assert tight.stages[0].recompute


@pytest.mark.parametrize("sizes", [(1, 2), (2, 1)])
def test_links_that_are_not_there_are_not_used(sizes: tuple[int, int]) -> None:
    none = Link(bytes_per_s=1)
    links = {"intra": FAST, "inter": none} if sizes[0] == 1 else {"intra": none, "inter": FAST}
    where = Cluster(num_nodes=sizes[0], devices_per_node=sizes[1], memory_bytes=ROOM, **links)
    found = planned(where, num_layers=2)
    check(found)
    assert found.simulation.makespan_ns < 10**9


def test_every_number_format_has_its_own_rate() -> None:
    """Large products on an A100 take 16 times as long in 32 bits, which PyTorch does not round to TensorFloat-32."""
    times = {}
    for dtype in (torch.bfloat16, torch.float32):
        with torch.device("meta"):
            layers = nn.Sequential(*(nn.Linear(8192, 8192, dtype=dtype) for _ in range(2)))
            batch = torch.empty(8192, 8192, dtype=dtype)
        found = plan(layers, batch, cluster(1, 1, 2**40), num_microbatches=1)
        times[dtype] = found.stages[0].option.compute_ns
    assert 15 < times[torch.float32] / times[torch.bfloat16] < 17
