"""Sizes of microbatches: no size that was left out is better, and every size is accounted for."""

from dataclasses import replace
from functools import cache

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from evenflow import auto  # noqa: E402
from evenflow.cluster.cluster import Cluster, Link  # noqa: E402
from evenflow.cluster.reached import Reached  # noqa: E402
from evenflow.errors import InputError  # noqa: E402
from evenflow_torch.auto.batch_sizes import plan_batches  # noqa: E402
from evenflow_torch.auto.deadline import Deadline  # noqa: E402
from evenflow_torch.auto.planner import BatchOutcome, plan_row  # noqa: E402
from evenflow_torch.auto.stages.request import TwoLevelRequest  # noqa: E402
from evenflow_torch.models.parts import ModelRow  # noqa: E402
from evenflow_torch.models.rows import row_with_inputs  # noqa: E402
from tests.clocks import SetClock, standing  # noqa: E402
from tests.cluster.accelerators import plain_accelerator  # noqa: E402

WIDTH = 64
LINK = Link(bytes_per_s=10**10, latency_ns=1000)
LARGE_BATCH = 4 * 1021
"""Large, with few divisors: each is a size of a microbatch to plan for."""


def batch(samples: int) -> object:
    return torch.empty(samples, WIDTH, device="meta")


def layers() -> object:
    with torch.device("meta"):
        return nn.Sequential(*(nn.Linear(WIDTH, WIDTH) for _ in range(4)))


@cache
def row(samples: int) -> ModelRow:
    """Planning leaves a row as it is, so that one serves all plans."""
    return row_with_inputs(layers(), batch(samples))


def request(launch_ns: int, memory_bytes: int = 2**30) -> TwoLevelRequest:
    device = plain_accelerator(flops_per_s=1e10, memory_bytes_per_s=1e12)
    return TwoLevelRequest(
        cluster=Cluster(num_nodes=1, devices_per_node=2, memory_bytes=memory_bytes, intra=LINK, inter=LINK),
        accelerator=replace(device, reached=Reached(operator_ns=launch_ns)),
        deadline=Deadline.after(8, now=standing),
    )


@pytest.mark.parametrize("launch_ns", [0, 20_000, 2_000_000])
def test_no_fixed_size_is_better(launch_ns: int) -> None:
    found = plan_batches(row, request(launch_ns), global_batch=12)
    assert [one.microbatch for one in found.batches] == [1, 2, 3, 4, 6, 12]
    best_ns = found.simulation.makespan_ns
    for one in found.batches:
        assert one.microbatch * one.num_microbatches == 12
        fixed = plan_row(row(one.microbatch), replace(request(launch_ns), num_microbatches=one.num_microbatches))
        assert best_ns <= fixed.simulation.makespan_ns
        assert one.lower_bound_ns <= fixed.simulation.makespan_ns
        if one.outcome is BatchOutcome.BOUNDED:
            assert one.lower_bound_ns >= best_ns
        else:
            assert one.outcome is BatchOutcome.PLANNED
            assert one.step_ns >= best_ns
    assert (
        found.num_microbatches
        == min(
            (one for one in found.batches if one.step_ns == best_ns), key=lambda one: one.microbatch
        ).num_microbatches
    )


def test_many_launches_are_dropped_by_their_bound() -> None:
    found = plan_batches(row, request(2_000_000), global_batch=12)
    outcomes = {one.microbatch: one.outcome for one in found.batches}
    assert outcomes[12] is BatchOutcome.PLANNED
    assert outcomes[1] is BatchOutcome.BOUNDED


def test_large_sizes_that_do_not_fit() -> None:
    roomy = plan_batches(row, request(2_000_000), global_batch=LARGE_BATCH)
    assert roomy.num_microbatches == 1
    tight = plan_batches(
        row, request(2_000_000, max(roomy.simulation.peak_memory_bytes) // 2), global_batch=LARGE_BATCH
    )
    assert tight.num_microbatches > 1
    assert tight.batches[-1].outcome is BatchOutcome.DOES_NOT_FIT
    assert tight.batches[-1].step_ns is None


def test_when_nothing_fits_the_least_memory_of_all_sizes_is_named() -> None:
    nothing = plan_batches(row, request(1000, 10_000), global_batch=64)
    assert nothing.pipeline is None
    assert {one.outcome for one in nothing.batches} == {BatchOutcome.DOES_NOT_FIT}
    enough = nothing.search.shortage.memory_bytes
    assert plan_batches(row, request(1000, enough), global_batch=64).pipeline is not None


def test_what_there_was_no_time_for_is_told() -> None:
    """The clock goes on with every look at it."""
    outcomes = set()
    for limit in (40, 80, 160):
        deadline = Deadline.after(limit, now=SetClock(step=1.0))
        found = plan_batches(row, replace(request(1000), deadline=deadline), global_batch=64)
        assert found.pipeline is not None
        outcomes |= {one.outcome for one in found.batches}
    assert BatchOutcome.NO_TIME in outcomes
    with pytest.raises(InputError, match="the time limit must be enough seconds"):
        plan_batches(row, replace(request(1000), deadline=Deadline.after(0, now=standing)), global_batch=64)


def test_a_module_takes_a_function_that_makes_batches() -> None:
    asked = request(20_000)
    found = auto.plan(layers(), batch, asked.cluster, global_batch=8, accelerator=asked.accelerator, time_limit_s=8)
    assert [one.microbatch for one in found.batches] == [1, 2, 4, 8]
    assert found.row.parts[0].inputs[0].shape[0] * found.num_microbatches == 8


@pytest.mark.parametrize(
    ("example", "options", "message"),
    [
        (batch, {}, "must be one microbatch where global_batch is not given, got 'function'"),
        (None, {"global_batch": 8}, "must be a function from samples to a microbatch"),
        (batch, {"global_batch": 8, "num_microbatches": 2}, "num_microbatches must not be given beside global_batch"),
        (batch, {"global_batch": 0}, "global_batch must be an integer from 1"),
    ],
)
def test_what_makes_no_sense(example: object, options: dict[str, int], message: str) -> None:
    with pytest.raises(InputError, match=message):
        auto.plan(layers(), example or batch(2), request(0).cluster, **options)
