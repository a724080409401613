"""The inter-operator pass: pruning loses nothing, plans hold what they promise, shortages say what would do."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.cluster.cluster import Cluster, Link
from evenflow.errors import InputError
from evenflow_torch.auto.stages.dynamic_program import has_plan, least_memory_bytes
from evenflow_torch.auto.stages.in_flight import in_flight_microbatches
from evenflow_torch.auto.stages.stage_search import plan_stages
from evenflow_torch.auto.stages.threshold_search import NEAR_PERCENT, best_stages
from tests.cluster.clusters import mesh
from tests.thoroughness import examples
from tests_torch.auto.networks import everything, network, stages

LINKS = {"intra": Link(bytes_per_s=10**9, latency_ns=5), "inter": Link(bytes_per_s=10**8, latency_ns=20)}
FORWARDS = st.lists(st.integers(50, 3000), min_size=1, max_size=6)
CLUSTERS = st.builds(
    lambda sizes, memory: mesh(*sizes, memory_bytes=memory, **LINKS),
    st.sampled_from([(1, 1), (1, 4), (2, 2), (3, 1), (2, 4), (1, 6)]),
    st.integers(400, 12_000),
)


@given(forwards=FORWARDS, cluster=CLUSTERS, num_microbatches=st.integers(1, 9), name=st.sampled_from(["1f1b", "gpipe"]))
@settings(max_examples=examples(80), deadline=None)
def test_pruning_loses_nothing(forwards: list[int], cluster: Cluster, num_microbatches: int, name: str) -> None:
    provider = stages(network(forwards), cluster, num_microbatches=num_microbatches)
    answer = plan_stages(provider, schedule=name)
    costs = everything(provider, schedule=name).costs
    most = min(len(forwards), cluster.num_devices)
    sizes = {
        "num_devices": cluster.num_devices,
        "in_flight": in_flight_microbatches(name, num_microbatches=num_microbatches, most_stages=most),
    }
    exact = best_stages(costs, num_microbatches=num_microbatches, memory_limit_bytes=cluster.memory_bytes, **sizes)
    assert answer.num_evaluated <= answer.num_possible
    if exact.best is None:
        assert answer.plan is None
        least = least_memory_bytes(costs, **sizes)
        assert answer.shortage.memory_bytes == least > cluster.memory_bytes
        assert has_plan(costs, memory_limit_bytes=least, **sizes)
        assert not has_plan(costs, memory_limit_bytes=least - 1, **sizes)
        return
    assert answer.plan.step_ns == exact.best.step_ns
    near = exact.best.step_ns * NEAR_PERCENT // 100
    steps = {len(plan.stages): plan.step_ns for plan in answer.alternatives}
    assert {count: step for count, step in steps.items() if step <= near} == {
        len(plan.stages): plan.step_ns for plan in exact.alternatives if plan.step_ns <= near
    }
    for plan in exact.alternatives:
        if len(plan.stages) in steps:
            bound = next(one.lower_bound_ns for one in answer.alternatives if len(one.stages) == len(plan.stages))
            assert exact.best.step_ns <= bound <= plan.step_ns


@given(forwards=FORWARDS, cluster=CLUSTERS, num_microbatches=st.integers(1, 9))
@settings(max_examples=examples(50), deadline=None)
def test_plans_hold_what_they_promise(forwards: list[int], cluster: Cluster, num_microbatches: int) -> None:
    cluster = replace(cluster, memory_bytes=10**6)
    provider = stages(network(forwards), cluster, num_microbatches=num_microbatches)
    answer = plan_stages(provider)
    for plan in answer.alternatives:
        assert [0, *(stage.end for stage in plan.stages)] == [*(stage.first for stage in plan.stages), len(forwards)]
        devices = [device for stage in plan.stages for device in stage.devices]
        assert sorted(devices) == list(range(cluster.num_devices))
        for stage in plan.stages:
            assert stage.cost in provider.options(stage.first, stage.end, stage.submesh)
        assert len(plan.activations) == len(plan.gradients) == len(plan.stages) - 1
        for before, after, there, back in zip(
            plan.stages, plan.stages[1:], plan.activations, plan.gradients, strict=False
        ):
            assert set(there.sender.devices) == set(before.devices) == set(back.receiver.devices)
            assert set(there.receiver.devices) == set(after.devices) == set(back.sender.devices)
        busiest = max(stage.cost.cost_ns for stage in plan.stages)
        assert plan.timeline.makespan_ns >= max(
            num_microbatches * busiest,
            sum(stage.cost.cost_ns for stage in plan.stages)
            + sum(one.cost_ns for one in plan.activations + plan.gradients),
        )
    assert answer.shortest.timeline.makespan_ns <= answer.plan.timeline.makespan_ns


def test_equation_2_is_the_simulation_for_equal_stages_without_messages() -> None:
    free = Link(bytes_per_s=10**18)
    cluster = mesh(1, 4, intra=free, inter=free, memory_bytes=10**6)
    answer = plan_stages(stages(network([100] * 4), cluster, num_microbatches=6))
    pipeline = next(plan for plan in answer.alternatives if len(plan.stages) == 4)
    # Four stages of 300 ns, six microbatches; each message takes a nanosecond there and one back.
    assert pipeline.step_ns == (4 + 6 - 1) * 300 + 3 * 2
    assert 9 * 300 <= pipeline.timeline.makespan_ns <= 9 * 300 + 2 * (3 + 6)


def test_slow_links_make_pipelines_fast_ones_do_not() -> None:
    """Between nodes a pipeline sends 400 bytes a stage, tensor parallelism 800 a layer and direction."""
    slow = {"intra": Link(bytes_per_s=10**12), "inter": Link(bytes_per_s=2 * 10**8)}
    answer = plan_stages(
        stages(network([10_000] * 8), mesh(2, 4, memory_bytes=10**6, **slow), num_microbatches=32, samples=1)
    )
    assert {stage.submesh.num_nodes for stage in answer.plan.stages} == {1}
    assert len(answer.plan.stages) >= 2
    fast = Link(bytes_per_s=10**12)
    answer = plan_stages(
        stages(
            network([10_000] * 8),
            mesh(2, 4, memory_bytes=10**6, intra=fast, inter=fast),
            num_microbatches=32,
            samples=1,
        )
    )
    assert [str(stage.submesh) for stage in answer.plan.stages] == ["2x4"]


def test_shortage_says_what_would_do() -> None:
    """Four layers of 800 static bytes on one device of 1,000; more devices share parameters by tensor parallelism."""
    cluster = mesh(1, 1, memory_bytes=1000, **LINKS)
    answer = plan_stages(stages(network([100] * 4), cluster))
    assert answer.plan is None
    assert answer.shortest is None
    # On one device: all parameters, and one microbatch of activations under full recompute.
    assert answer.shortage.memory_bytes == 4 * 800 + 4 * 100
    enough = answer.shortage.num_nodes
    for nodes, fits in ((enough, True), (enough - 1, False)):
        larger = replace(cluster, num_nodes=nodes)
        found = plan_stages(stages(network([100] * 4), larger))
        assert (found.plan is not None) == fits
    assert f"or with {enough} devices ({enough} x 1)" in answer.shortage.message(cluster)


def test_schedules_that_equation_2_does_not_describe_are_refused() -> None:
    with pytest.raises(InputError, match=r"schedule must be one of 1f1b, eager-1f1b, f-then-b .*, got 'zb-h1'"):
        plan_stages(stages(network([1]), mesh(1, 1)), schedule="zb-h1")
