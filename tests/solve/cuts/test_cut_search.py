"""The search of cuts while it goes on."""

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.model import Request, Sizes
from evenflow.solve.columns.rank_columns import all_options
from evenflow.solve.cuts import cut_search
from evenflow.solve.cuts.cut_graph import CutGraphs, has_cut_graphs, middles_outwards
from evenflow.solve.cuts.cut_search import CutSearch
from evenflow.solve.master.critical_paths import CriticalPaths
from evenflow.solve.problem import make_problem
from tests.networks import plain_network
from tests.solve.cases import cases
from tests.solve.exhaustive import every_plan
from tests.thoroughness import examples

_MOST_QUESTIONS = 2_000
"""A search that takes longer is not brought to its end."""


@given(data=st.data())
@settings(max_examples=examples(30))
def test_it_can_be_interrupted_at_any_moment(data):
    """Its bound then never exceeds the shortest plan, and it comes to the same end, whatever it leaves out.

    So it does with several threads.
    """
    case = data.draw(cases())
    plans = every_plan(case)
    limit = data.draw(st.none() | st.sampled_from(plans.limits()))
    best = plans.best_ns(limit)
    target = best + data.draw(st.sampled_from([-1, 0]))
    problem = case.problem(limit)
    options = all_options(problem, target)
    assume(options is not None)
    assume(has_cut_graphs(problem))
    graphs = CutGraphs(problem, options, target)
    paths = CriticalPaths(problem.graph, problem.shortest_messages)
    search = CutSearch(graphs, paths, target_ns=target, middles=middles_outwards(problem))
    questions = data.draw(st.integers(2, 20))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cut_search, "_TRIAL_S", data.draw(st.sampled_from([0.0, 1.0])))
        patch.setattr(cut_search, "_STATE_TRIAL_S", data.draw(st.sampled_from([0.0, 1.0])))
        num_threads = data.draw(st.sampled_from([1, 3]))
        patch.setattr(cut_search, "num_search_threads", lambda: num_threads)
        if data.draw(st.booleans()):
            patch.setattr(cut_search, "may_try", lambda *_, **__: False)
        while not search.refuted and search.found is None:
            assert min(search.bound_ns, target) <= best
            assume(questions < _MOST_QUESTIONS)
            answers = iter([True] * questions)
            search.run(lambda answers=answers: next(answers, False), lambda bound_ns: None)
            questions *= 2
    assert search.refuted == (target < best)


def test_what_fails_in_one_thread_ends_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what nobody has looked at to the end is open."""
    problem = make_problem(
        Request(network=plain_network(num_layers=12), sizes=Sizes(num_ranks=2, num_chunks=2, num_microbatches=4)),
        schedule="interleaved",
    )
    target = 10**9
    graphs = CutGraphs(problem, all_options(problem, target) or [], target)
    middles = middles_outwards(problem)
    search = CutSearch(
        graphs, CriticalPaths(problem.graph, problem.shortest_messages), target_ns=target, middles=middles
    )
    monkeypatch.setattr(cut_search, "num_search_threads", lambda: 3)
    monkeypatch.setattr(search, "_expand", lambda node: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        search.run(lambda: True, lambda bound_ns: None)
    assert search.open_middles == middles
    assert not search.refuted
