"""The pairwise program against all its choices."""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.auto.sharding.pairwise import Pairwise, Reduction
from evenflow.auto.sharding.pairwise_milp import least_memory, solve
from evenflow.solve import Status


@st.composite
def programs(draw: st.DrawFn) -> Pairwise:
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=7))
    density = draw(st.sampled_from([0.2, 0.5, 1.0]))
    forbidden = draw(st.sampled_from([0.0, 0.3]))
    most = draw(st.sampled_from([3, 10_000]))

    def table(*shape: int) -> np.ndarray:
        costs = random.integers(0, most, size=shape).astype(float)
        costs[random.random(shape) < forbidden] = np.inf
        return costs

    program = Pairwise()
    for size in sizes:
        weight = random.integers(0, 2)
        program.node(table(size), random.integers(0, 2**22, size).astype(float) * weight)
    for i, j in itertools.combinations(range(len(sizes)), 2):
        if random.random() < density:
            first, second = (i, j) if random.random() < 0.5 else (j, i)
            program.edge(first, second, table(sizes[first], sizes[second]))
    return program


def all_choices(program: Pairwise) -> dict[tuple[int, ...], tuple[float, float]]:
    """Cost and memory of every combination, summed up here once more."""
    found = {}
    for choices in itertools.product(*(range(len(costs)) for costs in program.costs)):
        cost = sum(costs[choice] for costs, choice in zip(program.costs, choices, strict=True))
        cost += sum(table[choices[i], choices[j]] for (i, j), table in program.edges.items())
        memory = sum(memory[choice] for memory, choice in zip(program.memory, choices, strict=True))
        if np.isfinite(cost):
            found[choices] = (cost, memory)
    return found


@given(programs())
def test_cheapest_of_all_choices(program: Pairwise) -> None:
    allowed = all_choices(program)
    found = solve(program)
    if not allowed:
        assert found.status is Status.INFEASIBLE
        assert least_memory(program) is None
        return
    assert found.status is Status.OPTIMAL
    assert allowed[found.choices][0] == found.cost == found.lower_bound == min(cost for cost, _ in allowed.values())
    assert least_memory(program) == min(memory for _, memory in allowed.values())


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
    assert found.cost == best
    assert allowed[found.choices][1] <= limit
    if needs[0]:
        assert solve(program, memory_limit=int(needs[0]) - 1).status is Status.INFEASIBLE


@given(programs())
def test_reduction_settles_trees(program: Pairwise) -> None:
    chain = Pairwise(costs=program.costs, memory=program.memory)
    chain.edges = {(i, j): table for (i, j), table in program.edges.items() if j == i + 1}
    assert not Reduction(chain, keep_memory=False).costs or not all_choices(chain)


@given(programs())
def test_settled_costs_no_more_and_needs_no_more(program: Pairwise) -> None:
    for choices, (cost, memory) in list(all_choices(program).items())[:20]:
        after = program.settled(choices)
        assert program.cost_of(after) <= cost
        assert program.memory_of(after) <= memory


def test_time_limit_still_bounds() -> None:
    random = np.random.default_rng(5)
    program = Pairwise()
    for _ in range(30):
        program.node(random.integers(0, 1000, 8).astype(float), np.zeros(8))
    for i, j in itertools.combinations(range(30), 2):
        program.edge(i, j, random.integers(0, 1000, (8, 8)).astype(float))
    found = solve(program, time_limit_s=1.0)
    assert found.status in (Status.FEASIBLE, Status.TIMEOUT)
    assert found.status is Status.TIMEOUT or found.lower_bound <= found.cost == program.cost_of(found.choices)


def test_edge_of_a_node_with_itself() -> None:
    program = Pairwise()
    node = program.node(np.array([0.0, 1.0]), np.zeros(2))
    program.edge(node, node, np.array([[5.0, 0.0], [0.0, 2.0]]))
    assert solve(program).cost == pytest.approx(3)
