"""The graph of cuts: its paths are the plans, no more and no fewer."""

from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.model import Request, Sizes
from evenflow.model.stage_ranks import v_shaped
from evenflow.schedule import Action, Op, Schedule
from evenflow.solve.columns.rank_columns import ColumnGroup, all_options, rank_groups
from evenflow.solve.cuts.cut_graph import CutGraph, cut_graph
from evenflow.solve.problem import Problem, make_problem, problem_of_order
from tests.networks import equal_network
from tests.solve.cases import cases, small_networks
from tests.solve.exhaustive import Case
from tests.thoroughness import examples

ANY_TIME_NS = 10**9


def columns_of(problem: Problem) -> list[ColumnGroup]:
    options = all_options(problem, ANY_TIME_NS)
    assert options is not None
    groups = rank_groups(problem, options, ANY_TIME_NS)
    assert groups is not None
    return groups


def paths(graph: CutGraph) -> Iterator[list[int]]:
    """The arcs of every path between a pair of ends."""
    arcs: list[dict[int, list[tuple[int, int]]]] = []
    """Arcs of each step with their targets, by their source."""
    for step in range(len(graph.ranks)):
        own: dict[int, list[tuple[int, int]]] = {}
        for arc in range(*graph.step(step).indices(len(graph))):
            own.setdefault(int(graph.sources[arc]), []).append((arc, int(graph.targets[arc])))
        arcs.append(own)

    def onwards(step: int, state: int, last: int) -> Iterator[list[int]]:
        if step == len(graph.ranks):
            if state == last:
                yield []
            return
        for arc, target in arcs[step].get(state, ()):
            for rest in onwards(step + 1, target, last):
                yield [arc, *rest]

    for first, last in graph.ends:
        yield from onwards(0, first, last)


@given(data=st.data())
@settings(max_examples=examples(60))
def test_paths_are_plans(data):
    case: Case = data.draw(cases())
    problem = case.problem()
    groups = columns_of(problem)
    graph = cut_graph(problem, groups)
    assume(graph is not None)
    assert isinstance(graph, CutGraph)
    found = set()
    for path in paths(graph):
        counts = np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64)
        for rank, arc in zip(graph.ranks, path, strict=True):
            counts[list(groups[rank].cells)] = groups[rank].counts(int(graph.columns[arc]))
        assert counts.sum() == problem.num_layers
        durations = problem.costs(counts).durations
        assert np.array_equal(durations[graph.classes], graph.durations_ns[path])
        found.add(tuple(counts.sum(axis=1).tolist()))
    # Without a memory limit and with any time, every cut is the cut of a plan.
    assert found == {tuple(after - before for before, after in pairwise(cut)) for cut in case.cuts()}


@given(network=small_networks(num_layers=6, most_kinds=1))
@settings(max_examples=examples(20))
def test_a_second_chunk_may_go_back(network):
    """Rank 0 has both ends of the network, and the chunks meet behind rank 1."""
    orders = [[(Op.F, 0), (Op.F, 3), (Op.B, 3), (Op.B, 0)], [(Op.F, 1), (Op.F, 2), (Op.B, 2), (Op.B, 1)]]
    order = Schedule.from_actions(
        name="v",
        num_stages=4,
        num_microbatches=1,
        stage_ranks=v_shaped(num_ranks=2),
        orders=[[Action(stage, op, 0) for op, stage in own] for own in orders],
    )
    problem = problem_of_order(Request(network=network, sizes=order.sizes), order)
    graph = cut_graph(problem, columns_of(problem))
    assert graph is not None
    assert [graph.states[0][first].tolist() for first, _ in graph.ends] == [[0, 6]] * len(graph.ends)
    cuts = {tuple(graph.states[1][graph.targets[path[0]]].tolist()) + end_of(graph, path) for path in paths(graph)}
    assert cuts == {(one, three, two) for one, two, three in combinations(range(1, 6), 3)}


def end_of(graph: CutGraph, path: list[int]) -> tuple[int]:
    """Where both chunks meet."""
    one, other = graph.states[-1][graph.targets[path[-1]]].tolist()
    assert one == other
    return (one,)


def test_there_is_none_with_three_chunks():
    sizes = Sizes(num_ranks=2, num_chunks=3, num_microbatches=2)
    problem = make_problem(Request(network=equal_network(6), sizes=sizes), schedule="interleaved")
    assert cut_graph(problem, columns_of(problem)) is None
