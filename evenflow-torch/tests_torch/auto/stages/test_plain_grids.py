"""The answer beside every plan as people write it, which are priced once more by themselves."""

from dataclasses import replace

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from evenflow.cluster.cluster import Cluster, Link  # noqa: E402
from evenflow_torch.auto.module_planner import plan  # noqa: E402
from evenflow_torch.auto.planner import AutoPlan  # noqa: E402
from evenflow_torch.auto.sharding.ways import PlainWay  # noqa: E402
from evenflow_torch.auto.stages.in_flight import in_flight_microbatches  # noqa: E402
from tests_torch.auto.sharding.plain.priced import ACCELERATOR  # noqa: E402

WIDTH, MICROBATCHES = 32, 4
ROOM = 2**30


def cluster(*, gigabytes_per_s: float = 10, memory_bytes: int = ROOM, nodes: int = 1) -> Cluster:
    intra = Link(bytes_per_s=int(gigabytes_per_s * 10**9), latency_ns=100)
    inter = replace(intra, bytes_per_s=intra.bytes_per_s // 10)
    return Cluster(num_nodes=nodes, devices_per_node=2, memory_bytes=memory_bytes, intra=intra, inter=inter)


def planned(where: Cluster, *, layers: int = 2, wide: int = 2, samples: int = 8) -> AutoPlan:
    with torch.device("meta"):
        body = nn.Sequential(
            *(
                nn.Sequential(nn.Linear(WIDTH, wide * WIDTH), nn.GELU(), nn.Linear(wide * WIDTH, WIDTH))
                for _ in range(layers)
            )
        )
    return plan(
        body,
        torch.empty(samples, 16, WIDTH, device="meta"),
        where,
        num_microbatches=MICROBATCHES,
        accelerator=ACCELERATOR,
        time_limit_s=60,
    )


def answer_ns(found: AutoPlan) -> int:
    return found.simulation.makespan_ns


@settings(max_examples=5, deadline=None)
@given(
    layers=st.integers(1, 4),
    wide=st.sampled_from([1, 4]),
    samples=st.sampled_from([2, 6, 8]),
    speed=st.sampled_from([0.01, 1, 100]),
    nodes=st.sampled_from([1, 2]),
)
def test_the_answer_is_never_longer_than_a_plain_plan(
    layers: int, wide: int, samples: int, speed: float, nodes: int
) -> None:
    """Every way of every mesh, one microbatch after the other, from the costs of its layers."""
    where = cluster(gigabytes_per_s=speed, nodes=nodes)
    found = planned(where, layers=layers, wide=wide, samples=samples)
    provider, num_layers = found.provider, len(found.row.body)
    checked = 0
    for submesh, meshes in provider.costs.items():
        if where.num_devices != submesh.num_devices:
            continue
        for costs in meshes.values():
            for way, option in costs.options(0, num_layers).items():
                step = MICROBATCHES * (option.forward_ns + option.backward_ns) + option.update_ns
                fits = option.static_bytes + option.activation_bytes <= where.memory_bytes
                if isinstance(way, PlainWay) and fits:
                    checked += 1
                    assert answer_ns(found) <= step + MICROBATCHES * num_layers  # shares of a step are rounded up
    assert checked
    assert all(grid.plan is None or answer_ns(found) <= grid.plan.timeline.makespan_ns for grid in found.search.grids)


def test_more_bandwidth_and_more_memory_are_never_worse() -> None:
    slow, fast = planned(cluster(gigabytes_per_s=1)), planned(cluster(gigabytes_per_s=10))
    assert answer_ns(fast) <= answer_ns(slow)
    tight = planned(cluster(gigabytes_per_s=10, memory_bytes=max(fast.simulation.peak_memory_bytes) * 3 // 4))
    assert answer_ns(fast) <= answer_ns(tight)


def test_grids_keep_to_the_memory_and_say_what_they_need() -> None:
    nothing_fits = planned(cluster(memory_bytes=1))
    assert nothing_fits.two_level is None
    assert not any(grid.plan for grid in nothing_fits.search.grids)
    needed = sorted(grid.memory_bytes for grid in nothing_fits.search.grids if grid.memory_bytes)
    limit = (needed[0] + needed[-1]) // 2
    tight = planned(cluster(memory_bytes=limit))
    without = [grid for grid in tight.search.grids if grid.plan is None]
    assert without
    assert all(grid.reason or (grid.memory_bytes or 0) > limit for grid in without)
    for grid in tight.search.grids:
        if grid.plan:
            stages = grid.plan.stages
            live = in_flight_microbatches("1f1b", num_microbatches=MICROBATCHES, most_stages=len(stages))
            held = [
                stage.cost.static_bytes + live[len(stages) - place] * stage.cost.activation_bytes
                for place, stage in enumerate(stages)
            ]
            assert max(held) == grid.memory_bytes <= limit


def test_names_and_layers_of_grids() -> None:
    found = planned(cluster(nodes=2), layers=4)
    names = [grid.name for grid in found.search.grids]
    assert len(names) == len(set(names))
    assert {
        "pipeline of 4 stages",
        "data parallel over 4",
        "FSDP over 4",
        "FSDP over 2 in the node, data parallel over 2 nodes",
        "tensor parallel over 2 in the node, ZeRO-1 over 2 nodes",
        "tensor parallel over 2, pipeline of 2 stages",
    } <= set(names)
    for grid in found.search.grids:
        if grid.plan:
            counts = {stage.end - stage.first for stage in grid.plan.stages}
            assert max(counts) - min(counts) <= 1
            assert len({(stage.submesh, stage.cost.sharding, stage.cost.recompute) for stage in grid.plan.stages}) == 1
    steps = [grid.plan.timeline.makespan_ns for grid in found.search.grids if grid.plan]
    assert steps == sorted(steps)
