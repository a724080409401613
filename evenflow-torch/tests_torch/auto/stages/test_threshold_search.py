"""The dynamic program against every plan there is."""

import numpy as np
import pytest

from evenflow.errors import InputError
from evenflow_torch.auto.stages.dynamic_program import CandidateCosts, least_memory_bytes
from evenflow_torch.auto.stages.in_flight import in_flight_microbatches
from evenflow_torch.auto.stages.threshold_search import NEAR_PERCENT, best_stages
from tests.cluster.clusters import mesh
from tests_torch.auto.oracles import every_plan, memory_bytes, random_costs, simulated_bound_ns, step_ns

MESHES = ((1, 1), (1, 2), (1, 4), (2, 1), (2, 2), (3, 1), (1, 3), (2, 3))


def check(pick: np.random.Generator) -> tuple[bool, bool]:
    """One random problem; whether it has a plan, and whether memory changed the answer."""
    cluster = mesh(*MESHES[pick.integers(len(MESHES))])
    costs = random_costs(
        pick, cluster, int(pick.integers(1, 6)), num_options=int(pick.integers(1, 3)), missing=pick.choice([0.0, 0.3])
    )
    num_microbatches = int(pick.integers(1, 12))
    most = min(costs.num_layers, cluster.num_devices)
    schedule = pick.choice(["1f1b", "eager-1f1b", "f-then-b"])
    in_flight = in_flight_microbatches(schedule, num_microbatches=num_microbatches, most_stages=most)
    limit = int(pick.integers(20, 200))
    answer = best_stages(
        costs,
        num_devices=cluster.num_devices,
        num_microbatches=num_microbatches,
        in_flight=in_flight,
        memory_limit_bytes=limit,
    )
    plans = [
        (step_ns(costs, stages, num_microbatches), memory_bytes(costs, stages, in_flight), len(stages))
        for stages in every_plan(costs, cluster.num_devices)
    ]
    fitting = [step for step, memory, _ in plans if memory <= limit]
    least = least_memory_bytes(costs, num_devices=cluster.num_devices, in_flight=in_flight)
    assert least == min((memory for _, memory, _ in plans), default=None)
    count = int(pick.integers(1, most + 1))
    of_these = best_stages(
        costs,
        num_devices=cluster.num_devices,
        num_microbatches=num_microbatches,
        in_flight=in_flight,
        memory_limit_bytes=limit,
        num_stages=count,
    )
    steps = [step for step, memory, length in plans if memory <= limit and length == count]
    assert (of_these.best.step_ns if of_these.best else None) == min(steps, default=None)
    assert {len(plan.stages) for plan in of_these.alternatives} <= {count}
    least = least_memory_bytes(costs, num_devices=cluster.num_devices, in_flight=in_flight, num_stages=count)
    assert least == min((memory for _, memory, length in plans if length == count), default=None)
    if not fitting:
        assert answer.best is None
        assert not answer.alternatives
        return False, bool(plans)
    assert answer.best.step_ns == answer.best.lower_bound_ns == min(fitting)
    assert answer.simulated_bound_ns == min(
        simulated_bound_ns(costs, stages, num_microbatches)
        for stages in every_plan(costs, cluster.num_devices)
        if memory_bytes(costs, stages, in_flight) <= limit
    )
    for plan in answer.alternatives:
        count = len(plan.stages)
        stages = tuple(
            (stage.first, stage.end, costs.submeshes.index(stage.submesh), stage.option) for stage in plan.stages
        )
        assert [0, *(end for _, end, _, _ in stages)] == [*(first for first, _, _, _ in stages), costs.num_layers]
        assert sum(stage.submesh.num_devices for stage in plan.stages) == cluster.num_devices
        assert memory_bytes(costs, stages, in_flight) <= limit
        assert plan.step_ns == step_ns(costs, stages, num_microbatches)
        of_count = [step for step, memory, length in plans if memory <= limit and length == count]
        assert plan.lower_bound_ns <= min(of_count) <= plan.step_ns
        if plan.step_ns * 100 <= answer.best.step_ns * NEAR_PERCENT:
            assert plan.step_ns == min(of_count)
    assert answer.best in answer.alternatives
    return True, min(fitting) > min(step for step, _, _ in plans)


@pytest.mark.parametrize("seed", range(4))
def test_equals_plain_recursion(seed: int) -> None:
    pick = np.random.default_rng(seed)
    outcomes = [check(pick) for _ in range(500)]
    assert min(outcomes.count((True, True)), outcomes.count((True, False)), outcomes.count((False, True))) > 20


def even_costs(num_layers: int, cluster_shape: tuple[int, int]) -> CandidateCosts:
    """Every layer takes 840 ns on one device and shards perfectly."""
    pick = np.random.default_rng(0)
    costs = random_costs(pick, mesh(*cluster_shape), num_layers)
    sizes = np.array([shape.num_devices for shape in costs.submeshes])
    first, end = np.indices(costs.cost_ns.shape[2:])
    times = (end - first) * 840 // sizes[:, None, None]
    return CandidateCosts(
        submeshes=costs.submeshes,
        cost_ns=np.where(first < end, times, -1)[None],
        static_bytes=np.zeros_like(costs.static_bytes),
        activation_bytes=np.zeros_like(costs.static_bytes),
        entry_ns=np.zeros_like(costs.entry_ns),
    )


def test_perfect_sharding_needs_no_pipeline() -> None:
    costs = even_costs(12, (2, 4))
    answer = best_stages(costs, num_devices=8, num_microbatches=16, in_flight=[0, *range(1, 9)], memory_limit_bytes=1)
    # Any pipeline waits to fill; one stage on everything does all work all the time.
    assert answer.best.step_ns == 16 * 12 * 840 // 8
    assert [str(stage.submesh) for stage in answer.best.stages] == ["2x4"]


def test_memory_may_force_more_work_to_the_end() -> None:
    """The first of two stages holds two activations, so with 3 layers on two devices it gets one layer."""
    cluster = mesh(1, 2)
    costs = even_costs(3, (1, 2))
    first, end = np.indices(costs.cost_ns.shape[2:])
    tight = CandidateCosts(
        submeshes=costs.submeshes,
        cost_ns=np.where(np.arange(2)[None, :, None, None] == 0, costs.cost_ns, -1),
        static_bytes=costs.static_bytes,
        activation_bytes=np.broadcast_to(np.maximum(end - first, 0), costs.cost_ns.shape),
        entry_ns=costs.entry_ns,
    )
    answer = best_stages(
        tight, num_devices=cluster.num_devices, num_microbatches=8, in_flight=(0, 1, 2), memory_limit_bytes=3
    )
    assert [(stage.first, stage.end) for stage in answer.best.stages] == [(0, 1), (1, 3)]
    assert least_memory_bytes(tight, num_devices=2, in_flight=(0, 1, 2)) == 2


def test_large_times_stay_exact() -> None:
    costs = even_costs(3, (1, 2))
    large = CandidateCosts(
        submeshes=costs.submeshes,
        cost_ns=np.where(costs.cost_ns >= 0, costs.cost_ns * 10**11 + 1, -1),
        static_bytes=costs.static_bytes,
        activation_bytes=costs.activation_bytes,
        entry_ns=costs.entry_ns,
    )
    answer = best_stages(large, num_devices=2, num_microbatches=10**6, in_flight=(0, 1, 2), memory_limit_bytes=1)
    assert answer.best.step_ns == 10**6 * (3 * 420 * 10**11 + 1)


def test_too_large_is_refused() -> None:
    costs = even_costs(3, (1, 2))
    with pytest.raises(InputError, match="group layers"):
        best_stages(costs, num_devices=10**9, num_microbatches=1, in_flight=(0, 1, 1, 1), memory_limit_bytes=1)
