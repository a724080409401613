"""What a proof leaves out, its sentence names: a better plan outside of it is looked for."""

from dataclasses import replace

import pytest
from hypothesis import assume, given

from evenflow import plan, plan_for_target
from evenflow.model import COMM, SELECT, HostLink, Request, Sizes, with_offload
from evenflow.schedule import FAMILIES, different_group_sizes, usual_group_size
from evenflow.solve import Status, solve, solve_best
from evenflow.solve.requests import ContestSearch
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, plain_network
from tests.solve.cases import MOST_PLANS, SECONDS, TOLERANCE, cases
from tests.solve.exhaustive import Case, every_plan


@given(cases(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
def test_no_plan_is_shorter_that_an_optimum_does_not_name(case: Case):
    limit = every_plan(case).least_bytes
    outcome = solve(case.request(limit), schedule=case.sizes.family, time_limit_s=SECONDS)
    assert outcome.status is Status.OPTIMAL
    claim = outcome.certificate()
    assert ("with a layer in every cell" in claim) == (not case.allow_empty and case.sizes.num_cells > 1)
    names_kinds = f"{SELECT} and {COMM} in different cells" in claim
    assert names_kinds == (not case.mix_any and {SELECT, COMM} <= set(case.network.kinds))
    has_groups = FAMILIES[case.sizes.family].has_groups
    orders = different_group_sizes(case.sizes.family, case.sizes.sizes) if has_groups else (None,)
    names_groups = f"groups of {usual_group_size(case.sizes.sizes)} microbatches" in claim
    assert names_groups == (len(orders) > 1)
    free = replace(case, allow_empty="a layer in every cell" not in claim, mix_any=not names_kinds)
    assume(free.num_plans() <= MOST_PLANS)
    best_ns = every_plan(free).best_ns(limit)
    assert best_ns is not None
    assert best_ns <= outcome.makespan_ns <= best_ns * (1 + TOLERANCE)


@pytest.mark.parametrize(("layers", "count"), [(13, 7), (13, 8)])
def test_groups_that_a_proof_leaves_out_can_be_shorter_and_all_together_need_no_name(layers: int, count: int):
    network = plain_network(layers)
    asked = {"num_ranks": 3, "num_chunks": 2, "num_microbatches": count}
    orders = different_group_sizes("interleaved", Sizes(**asked))
    free = plan(network, **asked, time_limit_s=SECONDS)
    limit = max(free.simulation.peak_memory_bytes) * 9 // 10
    outcomes = [
        plan(network, **asked, group_size=size, memory_limit_bytes=limit, time_limit_s=SECONDS) for size in orders
    ]
    for size, outcome in zip(orders, outcomes, strict=True):
        assert f"no plan of this schedule with groups of {size or 3} microbatches is shorter" in outcome.certificate()
    request = Request(network=network, sizes=Sizes(**asked), memory_limit_bytes=limit)
    search = ContestSearch(num_chunks=(2,), group_sizes="every", time_limit_s=SECONDS)
    every = solve_best(request, search, families=("interleaved",))
    assert every.outcome.makespan_ns == min(outcome.makespan_ns for outcome in outcomes)
    assert every.outcome.makespan_ns < outcomes[0].makespan_ns
    assert "groups" not in every.certificate()


def test_a_framework_that_runs_other_groups_is_told_which_were_looked_at():
    network = plain_network(13)
    asked = {"num_ranks": 3, "num_microbatches": 8, "num_chunks": (2,), "schedules": ("interleaved",)}
    free = plan_for_target(network, "torch", **asked, time_limit_s=SECONDS)
    limit = max(free.outcome.simulation.peak_memory_bytes) * 9 // 10
    some = plan_for_target(network, "torch", **asked, memory_limit_bytes=limit, group_sizes="usual")
    every = plan_for_target(network, "torch", **asked, memory_limit_bytes=limit, group_sizes="every")
    assert every.outcome.makespan_ns < some.outcome.makespan_ns
    assert "with groups of 3 microbatches that torch" in some.outcome.certificate()
    assert "groups" not in every.outcome.certificate()
    pynative = plan_for_target(network, "mindformers", **asked, memory_limit_bytes=limit)
    assert "groups" not in pynative.outcome.certificate()  # it has no others


def test_how_copies_go_is_named_unless_all_ways_were_looked_at():
    network = with_offload(plain_network(8), HostLink(bytes_per_s=8 * 10**9))
    asked = {"num_ranks": 4, "num_microbatches": 8, "memory_limit_bytes": 500 * MEGABYTE}
    late = plan(network, **asked, time_limit_s=SECONDS)
    early = plan(replace(network, host_link=HostLink(bytes_per_s=8 * 10**9, ahead=3)), **asked, time_limit_s=SECONDS)
    assert late.makespan_ns != early.makespan_ns
    for outcome in (late, early):
        assert "with copies timed as here" in outcome.certificate()
    assert "copies" not in plan(plain_network(8), **asked, time_limit_s=SECONDS).certificate()
