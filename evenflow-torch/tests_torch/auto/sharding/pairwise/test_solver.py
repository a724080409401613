"""The cheapest choices, against all choices."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from evenflow.solve import Status
from evenflow_torch.auto.sharding.pairwise import Pairwise, Solver, least_memory, solve
from tests_torch.auto.sharding.pairwise.programs import all_choices, hard_program, programs


def assert_cheapest(program: Pairwise, solver: Solver, costs: list[np.ndarray] | None = None) -> None:
    own = Pairwise(costs=costs or program.costs, memory=program.memory, edges=program.edges)
    allowed = all_choices(own)
    found = solver.solve(costs)
    if not allowed:
        assert found.status is Status.INFEASIBLE
        return
    assert found.status is Status.OPTIMAL
    assert allowed[found.choices][0] == found.cost == found.lower_bound == min(cost for cost, _ in allowed.values())


@given(programs())
def test_cheapest_of_all_choices(program: Pairwise) -> None:
    assert_cheapest(program, Solver(program))
    allowed = all_choices(program)
    assert least_memory(program) == (min(memory for _, memory in allowed.values()) if allowed else None)


@given(programs(), st.lists(st.tuples(st.integers(0, 2**32), st.sampled_from([0.0, 0.3])), min_size=1, max_size=3))
def test_cheapest_again_with_other_costs(program: Pairwise, changes: list[tuple[int, float]]) -> None:
    """Whether or not other choices are allowed."""
    solver = Solver(program)
    for seed, forbidden in changes:
        random = np.random.default_rng(seed)
        costs = [random.integers(0, 10_000, len(costs)).astype(float) for costs in program.costs]
        for one in costs:
            one[random.random(len(one)) < forbidden] = np.inf
        assert_cheapest(program, solver, costs)


@given(programs(), st.sampled_from([0.0, 0.01, 0.5]))
def test_near_is_near(program: Pairwise, near: float) -> None:
    allowed = all_choices(program)
    found = Solver(program).solve(near=near)
    if not allowed:
        assert found.status is Status.INFEASIBLE
        return
    least = min(cost for cost, _ in allowed.values())
    assert found.lower_bound <= least <= found.cost == allowed[found.choices][0]
    assert found.cost - found.lower_bound <= near * found.cost


def test_nothing_is_not_near() -> None:
    """Three nodes that must all differ but have two choices: each edge alone can be had, all together cannot."""
    differ = np.array([[np.inf, 1.0], [1.0, np.inf]])
    program = Pairwise()
    for _ in range(3):
        program.node(np.ones(2), np.zeros(2))
    for i, j in ((0, 1), (0, 2), (1, 2)):
        program.edge(i, j, differ)
    assert Solver(program).solve(near=0.5).status is Status.INFEASIBLE


@given(programs(), st.integers(0, 2**32))
def test_any_start_will_do(program: Pairwise, seed: int) -> None:
    random = np.random.default_rng(seed)
    start = tuple(int(random.integers(len(costs))) for costs in program.costs)
    assert Solver(program).solve(start=start).cost == solve(program).cost


@given(programs(), st.floats(0, 1))
def test_cheapest_of_the_choices_that_fit(program: Pairwise, share: float) -> None:
    allowed = all_choices(program)
    if not allowed:
        return
    needs = sorted({memory for _, memory in allowed.values()})
    limit = int(needs[min(len(needs) - 1, int(share * len(needs)))])
    found = solve(program, memory_limit=limit)
    best = min(cost for cost, memory in allowed.values() if memory <= limit)
    assert found.status is Status.OPTIMAL
    assert found.cost == found.lower_bound == best
    assert allowed[found.choices] == (best, program.memory_of(found.choices))
    assert program.memory_of(found.choices) <= limit
    if needs[0]:
        assert solve(program, memory_limit=int(needs[0]) - 1).status is Status.INFEASIBLE


def test_time_limit_still_bounds() -> None:
    program = hard_program(30, 8, seed=5)
    for memory_limit in (None, 60 * 2**20):
        found = solve(program, memory_limit=memory_limit, time_limit_s=1.0)
        assert found.status in (Status.FEASIBLE, Status.TIMEOUT)
        assert found.status is Status.TIMEOUT or found.lower_bound <= found.cost == program.cost_of(found.choices)
