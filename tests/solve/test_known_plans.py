"""Plans that are known before a search: its answer is never longer, however little time it has."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.baselines.even_plan import even_plan, even_stages
from evenflow.model import FULL, NONE, CellRule, Plan, Request, Sizes
from evenflow.simulate import simulate
from evenflow.solve import Outcome, plan, plan_best
from evenflow.solve.clock import Clock
from evenflow.solve.known_plans import allowed_counts, counted_alike, even_known, shortest_known
from evenflow.solve.problem import Problem, make_problem
from evenflow.solve.prover_thread import ProverThread
from evenflow.solve.race import Race, RaceSettings
from evenflow.units import MEGABYTE
from tests.networks import plain_network
from tests.solve.cases import cases, with_full
from tests.solve.exhaustive import Case
from tests.solve.recomputation import layers_that_could_recompute_less
from tests.thoroughness import examples

NO_TIME = 1e-9


@st.composite
def plans_of(draw: st.DrawFn, case: Case) -> Plan:
    """Any cut of a case, each layer under any kind."""
    problem = case.problem()
    counts = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
    cut = draw(st.sampled_from(case.cuts()))
    for cell, (start, end) in enumerate(pairwise(cut)):
        for kind in draw(
            st.lists(st.sampled_from(range(len(problem.kinds))), min_size=end - start, max_size=end - start)
        ):
            counts[cell, kind] += 1
    return problem.plan(counts)


def is_allowed(problem: Problem, known: Plan) -> bool:
    """Whether the cells keep the rule, and the plan, simulated afresh, the limit."""
    families = [{problem.kinds[kind] for kind in family} for family in problem.families]
    used = [
        {kind for kind in problem.kinds if known.count(kind, chunk, rank)}
        for chunk in range(known.num_chunks)
        for rank in range(known.num_ranks)
    ]
    return all(any(cell <= family for family in families) for cell in used) and problem.simulate(
        problem.counts(known)
    ).fits(problem.memory_limit_bytes)


def without_a_thread(problem: Problem, known: Sequence[Plan] = ()) -> Outcome:
    """Solve a problem in so little time that the prover's thread does nothing."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ProverThread, "_run", lambda thread, _clock, _cutoff_ns: thread.ended.set())
        return Race(problem, RaceSettings(known=known)).run(Clock(limit_s=NO_TIME))


@given(data=st.data(), case=cases())
@settings(max_examples=examples(60))
def test_an_answer_without_time_is_no_longer_than_what_is_known_and_recomputes_what_it_must(data, case):
    known = [data.draw(plans_of(case)) for _ in range(3)]
    peaks = [max(case.problem().simulate(case.problem().counts(each)).peak_memory_bytes) for each in known]
    problem = case.problem(data.draw(st.sampled_from([None, *peaks])))
    allowed = [each for each in known if is_allowed(problem, each)]
    assert [each for each in known if allowed_counts(problem, each) is not None] == allowed
    assume(allowed)
    shortest = min(problem.simulate(problem.counts(each)).makespan_ns for each in allowed)
    outcome = without_a_thread(problem, known)
    assert outcome.makespan_ns <= shortest
    assert layers_that_could_recompute_less(problem, outcome.plan) == []


@given(data=st.data(), case=cases())
@settings(max_examples=examples(60))
def test_an_answer_without_time_is_no_longer_than_cells_of_equal_size_that_recompute_alike(data, case):
    free = case.problem()
    layers = even_stages(free.num_layers, free.num_cells)
    alike = [np.outer(layers, np.eye(len(free.kinds), dtype=np.int64)[kind]) for kind in range(len(free.kinds))]
    peaks = [max(free.simulate(counts).peak_memory_bytes) for counts in alike]
    problem = case.problem(data.draw(st.sampled_from([None, *peaks])))
    allowed = [counts for counts in alike if is_allowed(problem, problem.plan(counts))]
    assume(allowed)
    quickest = min(allowed, key=lambda counts: problem.costs(counts).backward_ns.sum())
    outcome = without_a_thread(problem)
    assert outcome.makespan_ns <= problem.simulate(quickest).makespan_ns


@pytest.mark.parametrize(
    ("rule", "expected"),
    [((0, 0), 0), ((1, 1), 1), ((3, 3), 2), ((1, None), 1)],
    ids=["none", "one of each cell", "more than a cell has", "one or more of each cell"],
)
def test_a_rule_that_counts_full_recomputation_has_its_own_even_plan(rule, expected):
    counted = problem(cell_rule=CellRule(full=rule))
    assert even_known(counted)[:, counted.kinds.index(FULL)].tolist() == [expected] * 8
    assert without_a_thread(counted).plan.layers == even(NONE).layers


def test_a_rule_that_counts_takes_the_fewest_that_fit():
    one, two = (even_known(problem(cell_rule=CellRule(full=(number, number)))) for number in (1, 2))
    peak = max(problem().simulate(two).peak_memory_bytes)
    counted = problem(peak, cell_rule=CellRule(full=(1, None)))
    assert (even_known(counted) == two).all()
    assert even_known(problem(peak, cell_rule=CellRule(full=(1, 1)))) is None
    assert max(problem().simulate(one).peak_memory_bytes) > peak


def test_with_layers_that_are_decided_the_even_plan_has_these():
    layers = ((1, 3, 2, 2), (2, 2, 2, 2))
    assert without_a_thread(problem(layers=layers)).plan.layers == layers


SIZES = Sizes(num_ranks=4, num_chunks=2, num_microbatches=8)
NETWORK = plain_network(16)


def even(kind: str, **changed: int) -> Plan:
    return even_plan(NETWORK, replace(SIZES, **changed), schedule="interleaved", recompute=kind)


def problem(limit: int | None = None, **changed: object) -> Problem:
    request = Request(network=NETWORK, sizes=SIZES, memory_limit_bytes=limit, **changed)
    return make_problem(request, schedule="interleaved")


def test_the_shortest_that_fits_is_taken():
    plain, recomputed = even(NONE), even(FULL)
    peak = max(simulate(NETWORK, recomputed).peak_memory_bytes)
    assert (shortest_known(problem(), [recomputed, plain]) == problem().counts(plain)).all()
    assert (shortest_known(problem(peak), [recomputed, plain]) == problem().counts(recomputed)).all()
    assert shortest_known(problem(peak - 1), [recomputed, plain]) is None
    assert (even_known(problem(peak)) == problem().counts(recomputed)).all()
    assert (even_known(problem()) == problem().counts(plain)).all()


@pytest.mark.parametrize(
    "other",
    [
        even(NONE, num_ranks=2),
        even(NONE, num_chunks=1),
        replace(even(NONE), layers=((4, 0, 2, 2), (2, 2, 2, 2))),
        replace(even(NONE), recompute={"other": ((1, 0, 0, 0), (0, 0, 0, 0))}),
    ],
    ids=["ranks", "chunks", "an empty cell", "a kind without costs"],
)
def test_a_plan_of_something_else_is_passed_over(other):
    assert allowed_counts(problem(allow_empty=False), other) is None


def test_layers_that_are_decided_are_those_of_the_plan():
    assert allowed_counts(problem(layers=even(NONE).layers), even(FULL)) is not None
    assert allowed_counts(problem(layers=((1, 3, 2, 2), (2, 2, 2, 2))), even(FULL)) is None
    assert allowed_counts(problem(), replace(even(NONE), layers=((4, 0, 2, 2), (2, 2, 2, 2)))) is not None


def test_a_contest_without_time_has_what_is_known_of_any_candidate():
    known = even_plan(NETWORK, replace(SIZES, num_chunks=4), schedule="interleaved")
    best = plan_best(NETWORK, num_ranks=4, num_microbatches=8, time_limit_s=NO_TIME, known=[known])
    assert best.outcome.makespan_ns <= simulate(NETWORK, known).makespan_ns


def test_a_planner_without_time_has_what_is_known():
    known = even(FULL)
    limit = max(simulate(NETWORK, known).peak_memory_bytes) + 2 * MEGABYTE
    outcome = plan(
        NETWORK, num_ranks=4, num_chunks=2, num_microbatches=8, memory_limit_bytes=limit, time_limit_s=NO_TIME,
        known=[known],
    )  # fmt: skip
    assert outcome.makespan_ns <= simulate(NETWORK, known).makespan_ns


@given(data=st.data())
@settings(max_examples=examples(60))
def test_the_cut_of_a_plan_is_taken_with_another_number_of_recomputed_layers(data):
    case = data.draw(cases(any_order=False))
    case = replace(case, network=with_full(case.network))
    number, other = data.draw(st.integers(0, 3)), data.draw(st.integers(0, 3))
    first = replace(case, rule=CellRule(full=(other, other))).problem()
    assume(FULL in first.kinds)  # not where it saves nothing
    cut = data.draw(st.sampled_from(case.cuts()))
    counts = np.zeros((first.num_cells, len(first.kinds)), dtype=np.int64)
    for cell, (start, end) in enumerate(pairwise(cut)):
        counts[cell, first.kinds.index(FULL)] = min(other, end - start)
        counts[cell, -1] = end - start - counts[cell, first.kinds.index(FULL)]
    problem = replace(case, rule=CellRule(full=(number, number))).problem()
    changed = counted_alike(problem, first.plan(counts))
    assert changed is not None
    assert changed.sum(axis=1).tolist() == counts.sum(axis=1).tolist()
    assert changed[:, problem.kinds.index(FULL)].tolist() == [min(number, end - start) for start, end in pairwise(cut)]
    prover = ProverThread(problem, known=(), advise=False)
    prover.learn(first.plan(counts))
    assert prover.known_ns <= problem.simulate(changed).makespan_ns
    assert counted_alike(case.problem(), first.plan(counts)) is None


def test_a_cut_that_does_not_fit_with_another_number_is_not_taken():
    request = Request(network=plain_network(4), sizes=Sizes(num_ranks=2, num_microbatches=4))
    all_of_them, none = (
        make_problem(
            replace(request, memory_limit_bytes=400 * MEGABYTE, cell_rule=CellRule(full=(count, count))),
            schedule="1f1b",
        )
        for count in (2, 0)
    )
    even = even_plan(request.network, request.sizes, schedule="1f1b", recompute=FULL)
    assert counted_alike(all_of_them, even) is not None
    assert counted_alike(none, even) is None
