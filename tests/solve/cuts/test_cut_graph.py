"""The graphs of cuts: their paths are the plans, no more and no fewer."""

from collections.abc import Iterator
from itertools import combinations, pairwise

import numpy as np
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.model import Request, Sizes
from evenflow.model.stage_ranks import v_shaped
from evenflow.schedule import Action, Op, Schedule
from evenflow.simulate import Integers
from evenflow.solve.columns.rank_columns import all_options
from evenflow.solve.cuts import cut_graph
from evenflow.solve.cuts.cut_graph import CutGraph, CutGraphs, has_cut_graphs, middles_outwards
from evenflow.solve.problem import Problem, make_problem, problem_of_order
from tests.networks import equal_network
from tests.solve.cases import cases, small_networks
from tests.solve.cuts.graph_cases import graph_cases
from tests.solve.exhaustive import Case
from tests.thoroughness import examples

ANY_TIME_NS = 10**9


def graphs_of(problem: Problem, target_ns: int = ANY_TIME_NS) -> list[CutGraph]:
    options = all_options(problem, target_ns)
    if options is None:
        return []
    graphs = CutGraphs(problem, options, target_ns)
    every = [graphs.graph(middle) for middle in middles_outwards(problem)]
    return [graph for graph in every if graph is not None and graph.is_connected]


def paths(graph: CutGraph) -> Iterator[list[int]]:
    """The arcs of every path between the first and the last state."""
    arcs: list[dict[int, list[tuple[int, int]]]] = []
    """Arcs of each step with their targets, by their source."""
    for step in range(len(graph.classes)):
        own: dict[int, list[tuple[int, int]]] = {}
        for arc in range(*graph.step(step).indices(len(graph))):
            own.setdefault(int(graph.sources[arc]), []).append((arc, int(graph.targets[arc])))
        arcs.append(own)

    def onwards(step: int, state: int) -> Iterator[list[int]]:
        if step == len(graph.classes):
            yield []
            return
        for arc, target in arcs[step].get(state, ()):
            for rest in onwards(step + 1, target):
                yield [arc, *rest]

    yield from onwards(0, 0)


def plans_of(problem: Problem, target_ns: int = ANY_TIME_NS) -> Iterator[Integers]:
    """The counts of every path, [num_cells, num_kinds], which are whole plans with the durations of their arcs."""
    options = all_options(problem, target_ns)
    if options is None:
        return
    graphs = CutGraphs(problem, options, target_ns)
    for graph in graphs_of(problem, target_ns):
        assert len(graph.states[0]) == len(graph.states[-1]) == 1
        for path in paths(graph):
            counts = graphs.counts(graph, np.array(path))
            assert counts.sum() == problem.num_layers
            durations = problem.costs(counts).durations
            assert np.array_equal(durations[graph.classes], graph.durations_ns[path])
            yield counts


@given(data=st.data())
@settings(max_examples=examples(60))
def test_paths_are_plans(data):
    case: Case = data.draw(cases())
    problem = case.problem()
    assume(has_cut_graphs(problem))
    cuts = {tuple(counts.sum(axis=1).tolist()) for counts in plans_of(problem)}
    # Without a memory limit and with any time, every cut is the cut of a plan.
    assert cuts == {tuple(after - before for before, after in pairwise(cut)) for cut in case.cuts()}


@given(limited=graph_cases())
@settings(max_examples=examples(100), deadline=None)
def test_the_best_plan_within_memory_is_a_path(limited):
    """Also of the graphs with no plan that is slower than it, and no path exceeds the limit."""
    case, limit, best = limited
    problem = case.problem(limit)
    makespans = []
    for counts in plans_of(problem, best):
        simulation = problem.simulate(counts)
        assert simulation.fits(limit)
        makespans.append(simulation.makespan_ns)
    assert min(makespans) == best


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
    problem = problem_of_order(Request(network=network, sizes=order.sizes, allow_empty=False), order)
    graphs = graphs_of(problem)
    assert all(graph.states[0].tolist() == [[0, 6]] for graph in graphs)
    assert all(graph.states[-1].tolist() == [[graph.middle] * 2] for graph in graphs)
    cuts = {
        (*graph.states[1][graph.targets[path[0]]].tolist(), graph.middle) for graph in graphs for path in paths(graph)
    }
    assert cuts == {(one, three, two) for one, two, three in combinations(range(1, 6), 3)}


def test_there_are_none_with_three_chunks():
    sizes = Sizes(num_ranks=2, num_chunks=3, num_microbatches=2)
    problem = make_problem(Request(network=equal_network(6), sizes=sizes), schedule="interleaved")
    assert not has_cut_graphs(problem)


def test_there_is_none_of_too_many_arcs(monkeypatch):
    """Nor room for more at once than a step has, whatever it is made with first."""
    problem = make_problem(
        Request(network=equal_network(12), sizes=Sizes(num_ranks=3, num_chunks=2, num_microbatches=3)),
        schedule="interleaved",
    )
    (graph,) = [graph for graph in graphs_of(problem) if graph.middle == 6]
    monkeypatch.setattr(cut_graph, "_FIRST_CAPACITY", 1)
    (again,) = [graph for graph in graphs_of(problem) if graph.middle == 6]
    assert np.array_equal(graph.durations_ns, again.durations_ns)
    monkeypatch.setattr(cut_graph, "MAX_ARCS", len(graph) - 1)
    assert 6 not in [graph.middle for graph in graphs_of(problem)]
