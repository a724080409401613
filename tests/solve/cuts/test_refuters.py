"""What mixtures of paths drop of a part of a cut graph, against all of its plans."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.solve.columns.rank_columns import all_options
from evenflow.solve.cuts.cut_graph import CutGraphs, middles_outwards
from evenflow.solve.cuts.cut_part import CutPart
from evenflow.solve.cuts.play import Player
from evenflow.solve.cuts.refuters import Refuters
from evenflow.solve.master.critical_paths import CriticalPaths
from tests.solve.cuts.graph_cases import graph_cases
from tests.solve.cuts.test_cut_graph import paths as arcs_of_plans
from tests.thoroughness import examples

ANY_TIME_NS = 10**9


@given(data=st.data(), limited=graph_cases())
@settings(max_examples=examples(60), deadline=None)
def test_no_plan_within_the_target_is_dropped(data, limited):
    """By whatever mixtures, rounded ones too; those through a state are a part of their own."""
    case, limit, best = limited
    problem = case.problem(limit)
    graphs = CutGraphs(problem, all_options(problem, ANY_TIME_NS), ANY_TIME_NS)
    target_ns = best + data.draw(st.sampled_from([-1, 0, 3]))
    player = Player(CriticalPaths(problem.graph, problem.shortest_messages), graphs.classes, target_ns=target_ns)
    refuters = Refuters()
    for middle in middles_outwards(problem):
        graph = graphs.graph(middle)
        if graph is None or not graph.is_connected:
            continue
        plans = [np.array(arcs) for arcs in arcs_of_plans(graph)]
        durations = player.durations(graph, np.array(plans))
        steps = [problem.simulate(graphs.counts(graph, plan)).makespan_ns for plan in plans]
        mixture = player.longest(durations[data.draw(st.integers(0, len(plans) - 1))]).mean(axis=0)
        refuters.add(mixture)
        alone = Refuters()
        alone.add(mixture)
        rounded = alone.rounded(1, target_ns=target_ns)[0]
        for row, step_ns in zip(durations, steps, strict=True):
            weighed_ns = row @ rounded[:-1] + rounded[-1]
            assert weighed_ns <= row @ mixture[:-1] + mixture[-1] + 1e-6
            assert weighed_ns <= step_ns + 1e-6, "a mixture of paths is no longer than the longest of them"
        part = CutPart(graph, np.arange(len(graph), dtype=np.int32), target_ns=target_ns, bound_ns=0.0)
        refuters.narrow(part)
        within = [plan for plan, step_ns in zip(plans, steps, strict=True) if step_ns <= target_ns]
        for plan in within:
            assert np.isin(plan, part.arcs).all()
        if not within or len(graph.classes) == 1:
            continue
        step = data.draw(st.integers(0, len(graph.classes) - 2))
        state = int(data.draw(st.sampled_from(part.states_behind(step).tolist())))
        through = part.through(step, state)
        part.avoid(step, state)
        for plan in within:
            passes = graph.targets[plan[step]] == state
            assert np.isin(plan, through.arcs).all() == passes
            assert np.isin(plan, part.arcs).all() == (not passes)


def test_the_latest_are_tried_first():
    """And no more are rounded than are wanted, or than there are."""
    refuters = Refuters()
    assert len(refuters.rounded(3, target_ns=1000)) == 0
    for count in (1.0, 2.0, 3.0):
        refuters.add(np.array([count, 0.0]))
    assert [mixture[0] for mixture in refuters.latest] == [2.0, 3.0]
    assert refuters.rounded(2, target_ns=1000).shape == (2, 2)
