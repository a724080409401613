"""Trials of all plans of a cut graph, against exhaustive search, and ranks that are looked at alone."""

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.model import Request, Sizes
from evenflow.solve.columns.rank_columns import all_options
from evenflow.solve.cuts import trial
from evenflow.solve.cuts.cut_graph import CutGraphs, middles_outwards
from evenflow.solve.cuts.trial import Trial, may_try
from evenflow.solve.problem import make_problem
from tests.networks import equal_network
from tests.solve.cuts.graph_cases import graph_cases
from tests.solve.cuts.test_cut_graph import paths as arcs_of_plans
from tests.thoroughness import examples

ANY_TIME_NS = 10**9


@given(data=st.data(), limited=graph_cases())
@settings(max_examples=examples(60), deadline=None)
def test_it_finds_a_plan_if_there_is_one(data, limited):
    """However few plans it learns from, however little it remembers, and wherever it is interrupted."""
    case, limit, best = limited
    problem = case.problem(limit)
    assume(not problem.messages_depend)  # they count with the shortest time that they may take
    # The graphs have slow plans too, for the trial to tell apart.
    options = all_options(problem, ANY_TIME_NS)
    graphs = CutGraphs(problem, options, ANY_TIME_NS)
    target_ns = best + data.draw(st.sampled_from([-1, 0, 3]))
    from_last = data.draw(st.booleans())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(trial, "_MOST_LEARNED", data.draw(st.sampled_from([0, 1, 3, 100])))
        patch.setattr(trial, "_REASONS", data.draw(st.sampled_from([1, 2, 8])))
        patch.setattr(trial, "_REASON_PATHS", data.draw(st.sampled_from([1, 2, 8])))
        patch.setattr(trial, "_ARCS", data.draw(st.sampled_from([0, 7, 10_000])))
        for middle in middles_outwards(problem):
            graph = graphs.graph(middle)
            if graph is None or not graph.is_connected:
                continue
            known = np.zeros((data.draw(st.integers(0, 1)), graph.classes.size + 1))
            assert may_try(graph, num_paths=len(known))
            tried = Trial(graph, problem, paths=known, target_ns=target_ns, from_last=from_last)
            while tried.goes_on():
                pass
            makespans = [
                problem.simulate(graphs.counts(graph, np.array(arcs))).makespan_ns for arcs in arcs_of_plans(graph)
            ]
            assert (tried.found is not None) == any(makespan_ns <= target_ns for makespan_ns in makespans)
            if tried.found is not None:
                assert problem.simulate(graphs.counts(graph, tried.found)).makespan_ns <= target_ns


@given(limited=graph_cases())
@settings(max_examples=examples(60), deadline=None)
def test_the_arcs_of_plans_within_the_target_are_in_time(limited):
    case, limit, best = limited
    problem = case.problem(limit)
    graphs = CutGraphs(problem, all_options(problem, ANY_TIME_NS), best)
    for middle in middles_outwards(problem):
        graph = graphs.graph(middle)
        if graph is None or not graph.is_connected:
            continue
        in_time = graphs.in_time(graph)
        for arcs in arcs_of_plans(graph):
            if problem.simulate(graphs.counts(graph, np.array(arcs))).makespan_ns <= best:
                assert in_time[arcs].all()


def test_what_a_rank_waits_for_counts():
    """Two ranks with two chunks: rank 0 waits until its first microbatch has been through rank 1 and come back."""
    problem = make_problem(
        Request(network=equal_network(8), sizes=Sizes(num_ranks=2, num_chunks=2, num_microbatches=2)),
        schedule="interleaved",
    )
    best = problem.simulate(np.full((4, 1), 2, dtype=np.int64)).makespan_ns
    options = all_options(problem, ANY_TIME_NS)
    shorter, exact = (CutGraphs(problem, options, target_ns).graph(4) for target_ns in (best - 1, best))
    assert exact.is_connected
    assert not shorter.is_connected


def test_a_graph_that_takes_too_much_memory_is_not_tried(monkeypatch):
    problem = make_problem(
        Request(network=equal_network(8), sizes=Sizes(num_ranks=2, num_chunks=2, num_microbatches=2)),
        schedule="interleaved",
    )
    graph = CutGraphs(problem, all_options(problem, ANY_TIME_NS), ANY_TIME_NS).graph(4)
    assert may_try(graph, num_paths=3)
    monkeypatch.setattr(trial, "_MOST_BYTES", 1000)
    assert not may_try(graph, num_paths=3)
