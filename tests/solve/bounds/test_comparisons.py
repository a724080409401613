"""All bounds of one problem: none is above the best plan there is, and they compare as docs/bounds.md says."""

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from evenflow.schedule import Op
from evenflow.simulate import Simulation, build_graph
from evenflow.solve.bounds import (
    AnyPlan,
    any_order_bound_ns,
    capacity_bound_ns,
    capacity_table,
    even_memory_bytes,
    even_work_ns,
    given_cells_bound,
    order_facts,
    path_bound_ns,
    ramp_bound_ns,
)
from evenflow.solve.problem import Problem
from evenflow.solve.start import even_start
from evenflow.solve.work import make_work
from tests.solve.bounds.test_path_bound import messages
from tests.solve.cases import cases
from tests.solve.exhaustive import Case, every_plan
from tests.thoroughness import examples

HARD = settings(max_examples=examples(60), deadline=None, suppress_health_check=list(HealthCheck))


def is_at_most(small_ns: float, large_ns: float) -> bool:
    """Whether one bound is at most another, which bisections end below and rounding down makes less."""
    return small_ns <= large_ns * (1 + 1e-5) + 1


def has_backward(case: Case) -> bool:
    return bool((case.schedule.ops != Op.F).any())


def is_split_as_its_family(case: Case) -> bool:
    """Whether the table of the family's layers is one for the order of the case too."""
    facts = order_facts(case.sizes.family, case.request(None).sizes)
    return facts.splits_backward == case.schedule.splits_backward


def work_ns(case: Case) -> float:
    return even_work_ns(case.split, num_units=case.sizes.sizes.num_units, num_ranks=case.sizes.num_ranks)


def any_order_ns(case: Case, limit: int | None) -> int:
    return any_order_bound_ns(AnyPlan.of(case.request(limit), may_split=case.schedule.splits_backward))


def capacity_ns(case: Case, limit: int | None) -> float:
    request, family = case.request(limit), case.sizes.family
    return capacity_bound_ns(
        capacity_table(request, family), family, request.sizes, min_layers=request.min_layers,
        message_ns=request.message_ns,
    )  # fmt: skip


def path_ns(case: Case) -> float:
    request = case.request(None)
    return path_bound_ns(
        capacity_table(request, case.sizes.family), build_graph(case.schedule), min_layers=request.min_layers,
        messages_ns=messages(case.schedule, request.message_ns),
    )  # fmt: skip


def given_cells_ns(problem: Problem, simulation: Simulation) -> int:
    work = make_work(
        simulation.costs, problem.schedule, memory_limit_bytes=problem.memory_limit_bytes,
        communication=simulation.communication, split_backward=problem.schedule.splits_backward,
    )  # fmt: skip
    return given_cells_bound(work).lower_bound_ns


@HARD
@given(st.data())
def test_no_bound_is_above_the_best_plan(data: st.DataObject):
    case = data.draw(cases())
    assume(has_backward(case))
    plans = every_plan(case)
    assert even_memory_bytes(case.request()) <= plans.least_bytes
    best_of_all = plans.best_ns(None)
    assert best_of_all is not None
    if case.sizes.sequence_splits == 1 and is_split_as_its_family(case):
        assert path_ns(case) <= best_of_all
    for limit in (None, data.draw(st.sampled_from(plans.limits()))):
        best = plans.best_ns(limit)
        assert best is not None
        assert work_ns(case) <= best
        assert ramp_bound_ns(case.problem(limit)) <= best
        assert any_order_ns(case, limit) <= best
        if case.sizes.sequence_splits == 1 and case.order is None:
            assert capacity_ns(case, limit) <= best


@HARD
@given(cases())
def test_nothing_is_below_the_even_work(case: Case):
    assume(has_backward(case))
    assert work_ns(case) <= ramp_bound_ns(case.problem())
    assert is_at_most(work_ns(case), any_order_ns(case, None))


@HARD
@given(cases())
def test_with_several_chunks_any_order_says_no_more_than_one_order(case: Case):
    assume(has_backward(case) and case.sizes.num_chunks > 1)
    assert is_at_most(any_order_ns(case, None), ramp_bound_ns(case.problem()))


@HARD
@given(cases(any_order=False))
def test_what_ranks_can_hold_says_more_than_their_ramps(case: Case):
    """Of more than two types of layers on several chunks it makes two, which are less."""
    assume(has_backward(case) and case.sizes.sequence_splits == 1)
    assume(case.sizes.num_chunks == 1 or len(case.network.runs) <= 2)
    assert is_at_most(ramp_bound_ns(case.problem()), capacity_ns(case, None))
    if case.sizes.num_chunks == 1 and not case.allow_empty:
        assert is_at_most(any_order_ns(case, None), capacity_ns(case, None))


@HARD
@given(cases())
def test_bounds_for_any_order_hold_for_the_step_of_cells_in_one_order(case: Case):
    assume(has_backward(case))
    problem = case.problem()
    simulation = problem.simulate(even_start(problem))
    assert given_cells_ns(problem, simulation) <= simulation.makespan_ns
    assert any_order_ns(case, None) <= simulation.makespan_ns
