"""The shortest plan that a framework can run, against every such plan of small networks."""

from dataclasses import replace

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import (
    COMM,
    FULL,
    NONE,
    SELECT,
    Abilities,
    CellRule,
    Empty,
    EndBlock,
    Groups,
    Recomputation,
    Request,
    Scope,
    SizeRule,
    Sizes,
    even_cut,
)
from evenflow.schedule import FAMILIES
from evenflow.simulate import simulate
from evenflow.solve import Status
from evenflow.solve.clock import reproducible
from evenflow.solve.for_target import search_for_target, solve_for_target
from evenflow.solve.recompute_ways import recompute_ways
from evenflow.solve.requests import ContestSearch
from tests.networks import plain_network
from tests.solve.cases import cases
from tests.solve.exhaustive import every_plan
from tests.thoroughness import examples

WAYS = {
    "one number": (Recomputation(scope=Scope.COUNT), Recomputation(scope=Scope.MODEL, kinds=(FULL, SELECT))),
    "by cell": (Recomputation(scope=Scope.CELL, kinds=(FULL, SELECT)),),
    "all or none": (Recomputation(scope=Scope.MODEL, kinds=(FULL, SELECT, COMM)),),
    "by layer": (Recomputation(scope=Scope.LAYERS, kinds=(FULL, SELECT, COMM), apart=((SELECT, COMM),)),),
    "sets in turn": (
        Recomputation(scope=Scope.LAYERS, kinds=(FULL, SELECT)),
        Recomputation(scope=Scope.LAYERS, kinds=(FULL, SELECT, COMM), apart=((FULL, SELECT), (SELECT, COMM))),
    ),
    "full by layer, or one kind": (
        Recomputation(scope=Scope.LAYERS),
        Recomputation(scope=Scope.MODEL, kinds=(SELECT,)),
    ),
}


def rules(name, kinds, most):
    """Rules whose plans together are all that can be run, by hand."""
    if name == "one number":
        counted = [CellRule(full=(count, count)) for count in range(most + 1)] if FULL in kinds else []
        return [
            *counted,
            CellRule(kinds=(NONE,)),
            *(CellRule(kinds=(kind,)) for kind in (FULL, SELECT) if kind in kinds),
        ]
    if name == "by cell":
        return [CellRule(kinds=(FULL, SELECT, NONE), alike=True)]
    if name == "all or none":
        return [CellRule(kinds=(kind,)) for kind in (FULL, SELECT, COMM, NONE) if kind in kinds]
    if name == "by layer":
        return [CellRule(kinds=(FULL, SELECT, COMM, NONE), apart=((SELECT, COMM),))]
    if name == "sets in turn":
        apart = ((FULL, SELECT), (SELECT, COMM))
        return [CellRule(kinds=(FULL, SELECT, NONE)), CellRule(kinds=(FULL, SELECT, COMM, NONE), apart=apart)]
    return [CellRule(kinds=(FULL, NONE)), *([CellRule(kinds=(SELECT,))] if SELECT in kinds else [])]


@pytest.mark.parametrize("name", WAYS)
@given(data=st.data())
@settings(max_examples=examples(12), deadline=None)
def test_nothing_that_the_framework_can_run_is_shorter(name, data):
    case = data.draw(cases(time=1_000_000, memory=2**20 + 7, any_order=False))
    assume(case.sizes.num_chunks >= FAMILIES[case.sizes.family].fewest_chunks)  # else it is another family's order
    ends = case.allow_empty and case.network.num_layers >= case.sizes.num_cells - 2 and data.draw(st.booleans())
    case = replace(case, only_ends_empty=ends)
    most = case.network.num_layers
    allowed = [every_plan(replace(case, rule=rule)) for rule in rules(name, case.split.kinds, most)]
    limits = sorted({limit for plans in allowed for limit in plans.limits()})
    limit = data.draw(st.sampled_from([None, *limits, max(1, limits[0] - 1)]))
    fitting = [best for plans in allowed if (best := plans.best_ns(limit)) is not None]
    abilities = Abilities(
        schedules=(case.sizes.family,),
        recomputation=WAYS[name],
        splits_sequences=True,
        empty=Empty.ENDS if ends else Empty.ANY if case.allow_empty else Empty.NONE,
    )
    found = solve_for_target(
        replace(case.request(limit), only_ends_empty=False),
        abilities,
        ContestSearch(num_chunks=(case.sizes.num_chunks,), time_limit_s=60.0),
        title="Some",
        schedules=(case.sizes.family,),
    )
    event("fits" if fitting else "infeasible")
    if not fitting:
        assert found.outcome.status is Status.INFEASIBLE
        assert found.outcome.infeasibility.smallest_limit_bytes == min(plans.least_bytes for plans in allowed)
        return
    best = min(fitting)
    assert found.outcome.status is Status.OPTIMAL
    assert best <= found.outcome.makespan_ns <= best * (1 + 2e-6)
    assert best * (1 - 4e-6) <= found.lower_bound_ns <= best
    again = simulate(case.network, found.outcome.plan, communication=case.communication)
    assert again.makespan_ns == found.outcome.makespan_ns
    assert limit is None or max(again.peak_memory_bytes) <= limit


def request(**changes):
    sizes = {"num_ranks": 4, "num_microbatches": 8} | changes
    return Request(network=plain_network(8, "full", "select"), sizes=Sizes(**sizes))


MEGATRON = Abilities(schedules=("1f1b", "interleaved"), recomputation=WAYS["one number"], groups=Groups.MEGATRON)


HEAVY_END = replace(plain_network(6), tail=EndBlock(name="tail", forward_ns=60_000_000, backward_ns=120_000_000))
"""A tail that takes as long as six layers: the rank that has it is better off without one."""


@pytest.mark.parametrize(
    ("allow_empty", "empty", "is_empty", "claim"),
    [
        (True, Empty.ANY, True, "no plan of this schedule that Some can run is shorter"),
        (True, Empty.ENDS, True, "no plan of this schedule that Some can run is shorter"),
        (True, Empty.NONE, False, "no plan of this schedule that Some can run is shorter"),
        (False, Empty.ANY, False, "no plan of this schedule with a layer in every cell that Some can run is shorter"),
        (False, Empty.NONE, False, "no plan of this schedule that Some can run is shorter"),
    ],
)
def test_cells_are_empty_where_the_framework_runs_them_and_the_claim_says_so(allow_empty, empty, is_empty, claim):
    asked = Request(network=HEAVY_END, sizes=Sizes(num_ranks=3, num_microbatches=6), allow_empty=allow_empty)
    abilities = replace(MEGATRON, schedules=("1f1b",), empty=empty)
    found = solve_for_target(asked, abilities, ContestSearch(num_chunks=(1,), time_limit_s=20.0), title="Some").outcome
    assert found.status is Status.OPTIMAL
    assert (found.plan.layers[0][-1] == 0) == is_empty
    assert claim in found.certificate()


SHORT = replace(plain_network(2), tail=EndBlock(name="tail", forward_ns=60_000_000, backward_ns=120_000_000))


def allowing(network, *, empty, num_ranks):
    asked = Request(network=network, sizes=Sizes(num_ranks=num_ranks, num_microbatches=6))
    abilities = replace(MEGATRON, schedules=("1f1b",), empty=empty)
    return solve_for_target(asked, abilities, ContestSearch(num_chunks=(1,), time_limit_s=20.0), title="Some").outcome


def test_empty_cells_that_are_allowed_are_those_that_the_framework_runs():
    at_the_end = allowing(HEAVY_END, empty=Empty.ENDS, num_ranks=3)
    assert at_the_end.plan.layers[0][-1] == 0
    assert "no plan of this schedule that Some can run is shorter" in at_the_end.certificate()
    anywhere = allowing(SHORT, empty=Empty.ANY, num_ranks=4)
    assert anywhere.plan.layers[0].count(0) >= 2


@pytest.mark.parametrize(
    ("empty", "message"),
    [
        (Empty.NONE, "must be at least 5, one for each of 5 ranks x 1 chunks, got 2"),
        (Empty.ENDS, "must be at least 3, because only the first and the last of 5 stages may be empty, got 2"),
    ],
)
def test_empty_cells_that_the_framework_does_not_run_are_refused(empty, message):
    with pytest.raises(InputError, match=message):
        allowing(SHORT, empty=empty, num_ranks=5)


def test_groups_are_chosen_of_those_that_can_be_run():
    """9 microbatches on 4 ranks: groups of 4 leave one, so 5 (5 + 4), or 9 at once."""
    found = solve_for_target(
        request(num_microbatches=9),
        MEGATRON,
        ContestSearch(num_chunks=(2,), group_sizes="every", time_limit_s=20.0),
        title="Some",
    )
    sizes = {candidate.group_size for candidate in found.candidates}
    assert sizes <= {5, 9}
    assert found.outcome.plan.group_size in {5, 9}
    assert "that Some can run" in found.outcome.certificate()
    assert "that Some can run" in found.certificate()


@pytest.mark.parametrize(
    ("abilities", "changes", "options", "message"),
    [
        (MEGATRON, {}, {"schedules": ["zbv"]}, "schedule must be one of 1f1b, interleaved for Some"),
        (replace(MEGATRON, most_chunks=1), {}, {"num_chunks": (2,)}, "chunks must be at most 1 for Some, got 2"),
        (
            MEGATRON,
            {"num_microbatches": 3},
            {"num_chunks": (2,)},
            "for which Some has a group size, got 3; the next one is 4",
        ),
        (MEGATRON, {"sequence_splits": 2}, {}, "sequence_splits must be 1 for Some"),
        (replace(MEGATRON, own_cut=even_cut), {"num_ranks": 3}, {"num_chunks": (1,)}, "multiple of the 3 cells"),
        (
            replace(MEGATRON, sizes=(SizeRule(text="must be even", holds=lambda sizes, _: False, place="ranks"),)),
            {},
            {"num_chunks": (1,)},
            "ranks must be even for Some, got 4",
        ),
    ],
)
def test_what_cannot_be_run_at_all_is_refused(abilities, changes, options, message):
    search = ContestSearch(num_chunks=options.get("num_chunks", ()), time_limit_s=1.0)
    with pytest.raises(InputError, match=message):
        solve_for_target(request(**changes), abilities, search, title="Some", schedules=options.get("schedules", ()))


def test_a_search_keeps_to_the_ways_of_recomputing():
    """Within 800 MB a framework that recomputes all layers or none recomputes all; by layer, fewer are enough."""
    asked = replace(request(num_ranks=2, num_microbatches=4), memory_limit_bytes=800 * 2**20)
    any_order = replace(MEGATRON, own_order=True)
    by_model = search_for_target(
        asked, replace(any_order, recomputation=WAYS["all or none"]), title="Some", time_limit_s=6.0
    )
    by_layer = search_for_target(
        asked, replace(any_order, recomputation=WAYS["by layer"]), title="Some", time_limit_s=6.0
    )
    recomputed = {kind: sum(map(sum, table)) for kind, table in by_model.plan.recompute.items()}
    assert sorted(recomputed.values()) == [0, 8]
    assert by_layer.makespan_ns < by_model.makespan_ns
    assert by_model.lower_bound_ns <= by_layer.makespan_ns


def test_a_framework_that_knows_its_orders_takes_no_other():
    with pytest.raises(InputError, match="schedule must be one of 1f1b, interleaved for Some, got 'search'"):
        search_for_target(request(), MEGATRON, title="Some")


def test_ways_that_freer_ones_include_are_not_tried():
    asked = request()
    free = Recomputation(scope=Scope.LAYERS, kinds=(FULL, SELECT))
    both = Abilities(schedules=("1f1b",), recomputation=(free, *WAYS["one number"]))
    assert [way.rule for way in recompute_ways(asked, both)] == [free.rule()]


def test_every_number_of_recomputed_layers_is_searched_and_not_only_bounded():
    """In so little time nothing is proven; all of K = 1 to 4 and all layers were tried nevertheless."""
    asked = Request(
        network=plain_network(15), sizes=Sizes(num_ranks=4, num_chunks=2, num_microbatches=16), allow_empty=True,
        memory_limit_bytes=1400 * 2**20,
    )  # fmt: skip
    with reproducible():
        search = ContestSearch(num_chunks=(2,), group_sizes="usual", time_limit_s=10.0)
        found = solve_for_target(asked, replace(MEGATRON, empty=Empty.ANY), search, title="Some")
    tried = [candidate for candidate in found.candidates if candidate.recomputation.startswith("full in")]
    assert len(tried) == 5
    assert all(candidate.makespan_ns is not None or not found.can_win(candidate) for candidate in tried)


def test_sets_that_keep_more_than_one_that_does_not_fit_are_not_tried():
    """Within 100 MB nothing fits: what `full` needs is the answer, and the others are out by its proof."""
    asked = replace(request(), memory_limit_bytes=100 * 2**20)
    abilities = replace(MEGATRON, schedules=("1f1b",), recomputation=WAYS["all or none"])
    found = solve_for_target(asked, abilities, ContestSearch(num_chunks=(1,), time_limit_s=20.0), title="Some")
    assert found.outcome.status is Status.INFEASIBLE
    outcomes = {candidate.recomputation: candidate.outcome for candidate in found.candidates}
    assert [name for name, outcome in outcomes.items() if outcome is not None] == ["full in all layers"]
    untried = next(candidate for candidate in found.candidates if candidate.outcome is None)
    assert found.verdict(untried) == "not tried: what keeps less does not fit"
