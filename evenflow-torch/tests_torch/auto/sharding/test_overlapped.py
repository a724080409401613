"""Programs of which some costs run under others, against all combinations of choices."""

import itertools

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.cluster.reached import SLOWED
from evenflow.solve import Status
from evenflow_torch.auto.sharding.overlapped import OverlappedProgram, OverlapSolver, Window
from evenflow_torch.auto.sharding.pairwise import Pairwise
from tests.thoroughness import examples

NODES, CHOICES = 4, 3


@st.composite
def programs(draw: st.DrawFn) -> OverlappedProgram:
    """Nodes in a row: each computes in one of the passes, each edge is hidden each time, once, or not at all."""
    microbatches = draw(st.sampled_from([1, 2, 5]))
    tables = st.lists(st.integers(0, 40), min_size=CHOICES**2, max_size=CHOICES**2)
    whole, windows = Pairwise(), (Window(), Window())
    for node in range(NODES):
        costs = np.array(draw(tables)[:CHOICES], dtype=np.float64) * 100 * microbatches
        whole.node(costs, np.array(draw(tables)[:CHOICES], dtype=np.float64))
        if draw(st.booleans()):
            windows[draw(st.integers(0, 1))].compute[node] = costs
    for first in range(NODES - 1):
        once = draw(st.sampled_from([False, True, None]))
        costs = np.array(draw(tables), dtype=np.float64).reshape(CHOICES, CHOICES) * 100
        costs = costs if once else costs * microbatches
        whole.edge(first, first + 1, costs)
        if once is not None:
            windows[draw(st.integers(0, 1))].add(first, first + 1, costs, once=once)
    return OverlappedProgram(whole=whole, windows=windows, num_microbatches=microbatches)


def step_ns(program: OverlappedProgram, choices: tuple[int, ...]) -> float:
    """A pass takes the longest of what hides and of computation that it slows down, for every microbatch."""
    count, total = program.num_microbatches, float(program.whole.cost_of(choices))
    for window in program.windows:
        work = sum(float(costs[choices[i]]) for i, costs in window.compute.items()) / count
        each, once = (
            sum(float(costs[choices[i], choices[j]]) for (i, j), costs in edges.items())
            for edges in (window.recurring, window.once)
        )
        passes = [each / count] * (count - 1) + [each / count + once]
        total -= work * count + each + once
        total += sum(max(hides, work + (1 - 1 / SLOWED) * hides) for hides in passes)
    return total


ALL = list(itertools.product(range(CHOICES), repeat=NODES))


@given(programs(), st.sampled_from([0.0, 30.0]))
@settings(max_examples=examples(80), deadline=None)
def test_bound_optimum_and_answer_are_in_order(program: OverlappedProgram, price: float) -> None:
    best = min(step_ns(program, one) + price * program.whole.memory_of(one) for one in ALL)
    found = OverlapSolver(program).solve(ns_per_byte=price)
    rounding = 2 * program.num_microbatches + 2 * NODES
    own = step_ns(program, found.choices) + price * program.whole.memory_of(found.choices)
    assert abs(found.cost - own) <= rounding
    assert found.lower_bound <= best + rounding
    assert best <= own
    if found.status is Status.OPTIMAL:
        assert own <= best + rounding
    assert found.lower_bound <= found.cost


@given(programs(), st.sampled_from(ALL))
@settings(max_examples=examples(80), deadline=None)
def test_a_step_is_never_longer_than_one_thing_after_the_other(
    program: OverlappedProgram, choices: tuple[int, ...]
) -> None:
    saved = program.whole.cost_of(choices) - program.step_ns(choices)
    assert saved >= 0
    assert program.step_ns(choices) <= step_ns(program, choices) + 2 * program.num_microbatches + 1
    assert program.step_ns(choices) >= step_ns(program, choices) - 1


@given(programs())
@settings(max_examples=examples(30), deadline=None)
def test_a_limit_of_memory_is_kept(program: OverlappedProgram) -> None:
    limit = sorted(program.whole.memory_of(one) for one in ALL)[len(ALL) // 3]
    found = OverlapSolver(program).solve(memory_limit=limit)
    assert program.whole.memory_of(found.choices) <= limit
    allowed = [one for one in ALL if program.whole.memory_of(one) <= limit]
    assert found.lower_bound <= min(step_ns(program, one) for one in allowed) + 2 * program.num_microbatches + 2 * NODES


def test_what_is_hidden_altogether_leaves_the_slow_down() -> None:
    """The cheap choice of the second node needs an exchange that runs under the first."""
    whole = Pairwise()
    whole.node(np.array([1000.0]), np.zeros(1))
    whole.node(np.array([0.0, 300.0]), np.zeros(2))
    edge = np.array([[565.0, 0.0]])
    whole.edge(0, 1, edge)
    window = Window(compute={0: whole.costs[0]})
    window.add(0, 1, edge, once=False)
    program = OverlappedProgram(whole=whole, windows=(window, Window()), num_microbatches=1)
    found = OverlapSolver(program).solve()
    assert (found.choices, found.cost, found.status) == ((0, 0), 1065, Status.OPTIMAL)
