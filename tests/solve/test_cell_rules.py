"""Plans whose cells keep a rule, such as one number of recomputed layers for all, against every such plan."""

from dataclasses import replace
from itertools import combinations

from hypothesis import event, given, settings
from hypothesis import strategies as st

from evenflow.model import COMM, FULL, NONE, SELECT, CellRule
from evenflow.solve.clock import Clock
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.problem import Problem
from evenflow.solve.race import Race, RaceSettings
from evenflow.solve.search.annealing import Annealing
from evenflow.solve.start import even_start
from tests.solve.cases import cases
from tests.solve.exhaustive import every_plan
from tests.thoroughness import examples


def solve(case, limit):
    """The outcome of a race, which ends when it is decided."""
    return Race(case.problem(limit), RaceSettings(advise=False)).run(Clock(limit_s=60.0))


RULES = [
    CellRule(alike=True),
    CellRule(kinds=(FULL, NONE), alike=True),
    CellRule(full=(0, 0)),
    CellRule(full=(1, 1)),
    CellRule(full=(2, 2)),
    CellRule(full=(1, None)),
    CellRule(full=(0, 1)),
    CellRule(full=(99, None)),
    CellRule(kinds=(SELECT, COMM, NONE), apart=((SELECT, COMM),)),
    CellRule(apart=((FULL, SELECT), (SELECT, COMM))),
]


@st.composite
def ruled(draw, **sizes):
    """A case with a rule whose kinds it has."""
    case = draw(cases(**sizes))
    fitting = [rule for rule in RULES if rule.full is None or FULL in case.split.kinds]
    return replace(case, rule=draw(st.sampled_from(fitting)))


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_plan_under_a_rule_equals_trying_everything(data):
    case = data.draw(ruled(time=1_000_000, memory=2**20 + 7, any_order=False))
    plans = every_plan(case)
    limit = data.draw(st.sampled_from([None, *plans.limits(), max(1, plans.least_bytes - 1)]))
    best, outcome = plans.best_ns(limit), solve(case, limit)
    event(str(case.rule))
    if best is None:
        assert outcome.infeasibility is not None
        assert outcome.infeasibility.smallest_limit_bytes == plans.least_bytes
        return
    problem = case.problem(limit)
    assert best <= outcome.makespan_ns <= best * (1 + 2e-6)
    assert outcome.lower_bound_ns <= best
    assert all(problem.may_hold(content) for content in problem.counts(outcome.plan))


@given(data=st.data(), seed=st.integers(0, 1000))
@settings(max_examples=examples(40), deadline=None)
def test_the_search_keeps_the_rule(data, seed):
    case = data.draw(ruled())
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    problem = case.problem(limit)
    counts = least_memory(problem, seconds=30).counts
    assert (problem.rank_memory(problem.costs(counts)) <= limit).all() == (plans.least_bytes <= limit)
    search = Annealing(problem=problem, counts=counts.copy(), seed=seed)
    rounds = iter([False, False, True])
    search.run(stop=lambda: next(rounds))
    makespan, found = search.incumbent
    assert makespan in plans.makespans_ns
    assert all(problem.may_hold(content) for content in found)


@given(case=ruled())
@settings(max_examples=examples(60), deadline=None)
def test_the_first_plan_keeps_the_rule(case):
    problem: Problem = case.problem()
    start = even_start(problem)
    assert all(problem.may_hold(content) for content in start)
    assert start.sum() == case.network.num_layers


def test_a_rule_tells_contents_apart():
    """Three layers under each of three kinds are in no cell that has a rule."""
    kinds = (FULL, SELECT, COMM, NONE)
    for rule in RULES[:-2]:
        families = rule.families(kinds)
        assert not any(len(family) > 2 for family in families)
    assert RULES[-2].families(kinds) == ((2, 3), (1, 3))
    assert RULES[-1].families(kinds) == ((1, 3), (0, 2, 3))


@given(data=st.data())
def test_families_are_the_largest_sets_without_a_pair(data):
    kinds = "abcdef"
    pairs = tuple(data.draw(st.lists(st.sampled_from(list(combinations(kinds, 2))), unique=True)))
    allowed = [set(some) for size in range(7) for some in combinations(range(6), size)]
    allowed = [some for some in allowed if not any({kinds.index(kind) for kind in pair} <= some for pair in pairs)]
    largest = [some for some in allowed if not any(some < other for other in allowed)]
    families = CellRule(apart=pairs).families(kinds)
    assert sorted(map(sorted, families)) == sorted(map(sorted, largest))
