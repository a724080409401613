"""The game of plans and paths: its mixtures bound its value from both sides, and its end is true of all plans."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.solve.columns.rank_columns import all_options
from evenflow.solve.cuts.cut_graph import CutGraphs, middles_outwards
from evenflow.solve.cuts.cut_part import CutPart
from evenflow.solve.cuts.game_kernel import mix
from evenflow.solve.cuts.play import Player
from evenflow.solve.master.critical_paths import CriticalPaths
from tests.solve.cuts.graph_cases import graph_cases
from tests.solve.cuts.test_cut_graph import paths as arcs_of_plans
from tests.thoroughness import examples

ANY_TIME_NS = 10**9


@st.composite
def boards(draw: st.DrawFn) -> np.ndarray:
    """By how much each path exceeds a target under each plan, as fractions of it."""
    rows, columns = draw(st.integers(1, 6)), draw(st.integers(1, 6))
    percent = st.integers(-100, 100)
    return np.array([[draw(percent) / 1000 for _ in range(columns)] for _ in range(rows)])


@given(boards(), st.integers(1, 3))
@settings(max_examples=examples(80), deadline=None)
def test_mixtures_come_close_to_the_value_of_the_game(times, visits):
    """However often they are mixed anew. The value is between what either mixture is sure of (von Neumann 1928)."""
    num_paths, num_plans = times.shape
    regrets = np.zeros(num_plans), np.zeros(num_paths)
    shares = np.zeros(num_plans), np.zeros(num_paths)
    for _visit in range(visits):
        longest_ns = mix(times, *regrets, *shares, num_plans, num_paths, 1000.0)
    for own in shares:
        assert own.sum() == pytest.approx(1)
        assert (own >= 0).all()
    most, least = (times @ shares[0]).max(), (shares[1] @ times).min()
    assert longest_ns == pytest.approx(1000 * (1 + most))
    assert -1e-9 <= most - least <= 0.005


@given(data=st.data(), limited=graph_cases())
@settings(max_examples=examples(60), deadline=None)
def test_what_a_game_comes_to_is_true(data, limited):
    """A refuter exceeds the target under every plan, a plan is within it, and the best mixture bounds all plans."""
    case, limit, best = limited
    problem = case.problem(limit)
    graphs = CutGraphs(problem, all_options(problem, ANY_TIME_NS), ANY_TIME_NS)
    target_ns = best + data.draw(st.sampled_from([-1, 0, 3]))
    player = Player(CriticalPaths(problem.graph, problem.shortest_messages), graphs.classes, target_ns=target_ns)
    for middle in middles_outwards(problem):
        graph = graphs.graph(middle)
        if graph is None or not graph.is_connected:
            continue
        plans = np.array([np.array(arcs) for arcs in arcs_of_plans(graph)])
        durations = player.durations(graph, plans)
        steps = [problem.simulate(graphs.counts(graph, plan)).makespan_ns for plan in plans]
        begun = data.draw(st.integers(0, min(2, len(plans))))
        paths = np.concatenate([player.longest(row) for row in durations[: data.draw(st.integers(1, 2))]])
        part = CutPart(graph, np.arange(len(graph), dtype=np.int32), target_ns=target_ns, bound_ns=0.0)
        played = player.play(
            part, [paths.mean(axis=0)], plans=plans[:begun], paths=paths, most_turns=data.draw(st.integers(1, 25))
        )
        if played.plan is not None:
            assert problem.simulate(graphs.counts(graph, played.plan)).makespan_ns <= target_ns
        if played.refuter is not None:
            assert min(steps) > target_ns
        weighed = durations @ played.best[:-1] + played.best[-1]
        assert (weighed <= np.array(steps) + 1e-6).all(), "a mixture of paths is no longer than the longest of them"
        assert min(part.bound_ns, target_ns) <= min(steps) + 1e-6
