"""Plans near another one: those that are there are found, and no others."""

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.simulate import Integers
from evenflow.solve.cuts.nearby import nearby_plan
from evenflow.solve.master.critical_paths import CriticalPaths
from evenflow.solve.problem import Problem
from tests.solve.cuts.graph_cases import graph_cases
from tests.thoroughness import examples


def with_cut(problem: Problem, cut: tuple[int, ...]) -> Integers:
    """A plan that is cut there, whatever it recomputes: only the places of its cuts count."""
    counts = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
    counts[:, -1] = np.diff(cut)
    return counts


def near(problem: Problem, cut: tuple[int, ...], *, target_ns: int, width: int) -> Integers | None:
    paths = CriticalPaths(problem.graph, problem.shortest_messages)
    return nearby_plan(
        problem, with_cut(problem, cut), paths, target_ns=target_ns, width=width, keep_going=lambda: True
    )


@given(data=st.data())
@settings(max_examples=examples(40))
def test_as_wide_as_the_network_it_decides_every_target(data):
    case, limit, best_ns = data.draw(graph_cases())
    problem = case.problem(limit)
    assume(not problem.messages_depend)
    cut = data.draw(st.sampled_from(case.cuts()))
    assert near(problem, cut, target_ns=best_ns - 1, width=problem.num_layers) is None
    found = near(problem, cut, target_ns=best_ns, width=problem.num_layers)
    assert found is not None
    assert problem.simulate(found).makespan_ns == best_ns


@given(data=st.data())
@settings(max_examples=examples(30))
def test_it_finds_a_plan_if_one_of_the_cuts_within_its_width_has_one(data):
    case, limit, best_ns = data.draw(graph_cases())
    problem = case.problem(limit)
    assume(not problem.messages_depend)
    cut, width = data.draw(st.sampled_from(case.cuts())), data.draw(st.integers(0, 2))
    target = data.draw(st.integers(best_ns, 2 * best_ns))
    within = [other for other in case.cuts() if all(abs(a - b) <= width for a, b in zip(cut, other, strict=True))]
    assert cut in within
    alone = [near(problem, other, target_ns=target, width=0) is not None for other in within]
    found = near(problem, cut, target_ns=target, width=width)
    assert (found is not None) == any(alone)
    if found is not None:
        costs = problem.costs(found)
        assert tuple(np.cumsum([0, *found.sum(axis=1)]).tolist()) in within
        assert problem.makespan_ns(costs) <= target
        assert (problem.rank_memory(costs) <= problem.limits).all()
