"""Simulated annealing: only plans that fit, and never worse than where it began or what it was offered."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.model import ANY_CONTENT, FULL, NONE, CellRule, Layer, LayerRun, Mode, Network, Request, Sizes
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.problem import make_problem
from evenflow.solve.search.annealing import Annealing
from evenflow.solve.search.dealing import first_plan
from evenflow.solve.start import even_start
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, plain_network
from tests.solve.cases import cases, small_networks, with_full
from tests.solve.exhaustive import Case, every_plan
from tests.strategies import FamilySizes
from tests.thoroughness import examples


@given(data=st.data(), seed=st.integers(0, 100))
@settings(max_examples=examples(60))
def test_the_search_stays_among_the_plans_that_fit(data, seed):
    case = data.draw(cases(memory=2**20 + 7))
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    problem = case.problem(limit)
    counts = least_memory(problem, seconds=30).counts
    if (problem.rank_memory(problem.costs(counts)) > limit).any():
        return
    search = Annealing(problem=problem, counts=counts.copy(), seed=seed)
    rounds = iter([False, False, True])
    search.run(stop=lambda: next(rounds))
    makespan, found = search.incumbent
    assert (problem.rank_memory(problem.costs(found)) <= limit).all()
    assert (found >= 0).all()
    assert (found.sum(axis=1) >= problem.min_layers).all()
    assert all(problem.may_hold(content) for content in found)
    assert plans.best_ns(limit) <= makespan
    assert makespan in plans.makespans_ns


@given(case=cases(), seed=st.integers(0, 100))
@settings(max_examples=examples(30))
def test_the_search_is_never_behind_its_start(case, seed):
    problem = case.problem()
    counts = even_start(problem)
    start_ns = problem.simulate(counts).makespan_ns
    search = Annealing(problem=problem, counts=counts.copy(), seed=seed)
    assert search.incumbent[0] == start_ns
    rounds = iter([False, True])
    search.run(stop=lambda: next(rounds))
    makespan, found = search.incumbent
    assert makespan <= start_ns
    assert problem.simulate(found).makespan_ns == makespan


@given(data=st.data())
@settings(max_examples=examples(30))
def test_an_offer_is_taken_where_it_is_better(data):
    case = data.draw(cases())
    problem = case.problem()
    offered = even_start(problem)
    # All layers that the even start recomputes, kept instead: another plan, which may be better or worse.
    kept = offered * 0
    kept[:, -1] = offered.sum(axis=1)
    search = Annealing(problem=problem, counts=kept.copy())
    search.offer(offered.copy())
    rounds = iter([False, True])
    search.run(stop=lambda: next(rounds))
    assert search.incumbent[0] <= min(problem.simulate(counts).makespan_ns for counts in (kept, offered))


def test_of_several_offers_the_best_is_known_at_once():
    sizes = Sizes(num_ranks=2, num_chunks=1, num_microbatches=4)
    problem = make_problem(Request(network=plain_network(), sizes=sizes), schedule="1f1b")
    good, bad = even_start(problem), even_start(problem)
    bad[:, good.sum(axis=0).argmax()] += [-1, 1]  # a layer moves to the other rank
    good_ns, bad_ns = (problem.simulate(counts).makespan_ns for counts in (good, bad))
    assert good_ns < bad_ns
    search = Annealing(problem=problem, counts=bad.copy())
    assert search.incumbent[0] == bad_ns
    search.offer(good)
    search.offer(bad)
    assert search.incumbent[0] == good_ns
    assert search.incumbent[1].tolist() == good.tolist()


@given(data=st.data())
@settings(max_examples=examples(20))
def test_the_same_seed_finds_the_same_plan(data):
    problem = data.draw(cases()).problem()
    answers = []
    for _ in range(2):
        search = Annealing(problem=problem, counts=even_start(problem), seed=7)
        rounds = iter([False, False, True])
        search.run(stop=lambda rounds=rounds: next(rounds))
        answers.append((search.incumbent[0], search.incumbent[1].tolist()))
    assert answers[0] == answers[1]


def test_a_search_has_settled_after_many_moves_without_a_better_plan():
    sizes = Sizes(num_ranks=2, num_chunks=1, num_microbatches=4)
    problem = make_problem(Request(network=plain_network(), sizes=sizes), schedule="1f1b")
    search = Annealing(problem=problem, counts=even_start(problem))
    search.improve(steps=2000)
    assert not search.has_settled
    for _ in range(2):  # the first may still find a better plan
        search.improve(steps=100_000)
    assert search.has_settled
    search.best += 1  # as if the next moves found a better one
    search.improve(steps=2000)
    assert not search.has_settled


@given(data=st.data(), seed=st.integers(0, 100))
@settings(max_examples=examples(30))
def test_moves_of_many_ranks_keep_to_the_number_of_recomputed_layers_and_fit(data, seed):
    num_ranks, num_layers = data.draw(st.integers(2, 3)), data.draw(st.integers(4, 6))
    case = Case(
        network=with_full(data.draw(small_networks(num_layers=num_layers, most_kinds=0, memory=2**20 + 7))),
        sizes=FamilySizes(family="interleaved", num_ranks=num_ranks, num_chunks=2, num_microbatches=2 * num_ranks),
        allow_empty=True,
    )
    least = data.draw(st.integers(0, 2))
    rule = CellRule(full=(least, data.draw(st.sampled_from([least, least, None]))))
    case = replace(case, rule=rule)
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    problem = case.problem(limit)
    counts = least_memory(problem, seconds=30).counts
    assume((problem.rank_memory(problem.costs(counts)) <= limit).all())
    search = Annealing(problem=problem, counts=counts.copy(), seed=seed)
    search.improve(steps=3000)
    makespan, found = search.incumbent
    assert (problem.rank_memory(problem.costs(found)) <= limit).all()
    assert (found.sum(axis=1) >= problem.min_layers).all()
    for content in found:
        least_full, most_full = rule.full_range(int(content.sum()))
        assert least_full <= content[problem.kinds.index(FULL)] <= most_full
    assert plans.best_ns(limit) <= makespan
    assert makespan in plans.makespans_ns
    assert problem.simulate(found).makespan_ns == makespan


@pytest.mark.parametrize("num_layers", [7, 8])
def test_all_ranks_put_their_layers_into_one_cell_where_every_cell_recomputes_one(num_layers):
    """Two chunks with a layer each recompute both; a rank that has both in one recomputes one. Alone it only waits."""
    network = plain_network(num_layers)
    modes = dict(network.runs[0].layer.modes)
    modes[FULL] = replace(modes[FULL], backward_ns=40 * MILLISECOND)
    layer = replace(network.runs[0].layer, modes=modes)
    sizes = Sizes(num_ranks=4, num_chunks=2, num_microbatches=16)
    problem = make_problem(
        Request(
            network=replace(network, runs=(replace(network.runs[0], layer=layer),)),
            sizes=sizes,
            allow_empty=True,
            group_size=16,
            cell_rule=CellRule(full=(1, 1)),
        ),
        schedule="interleaved",
    )
    both = even_start(problem) * 0
    table = problem.schedule.stage_table
    both[table[0], :] = [1, 1]  # the first under `full`, the second under nothing
    if num_layers == 7:
        both[table[0][-1], -1] = 0
    search = Annealing(problem=problem, counts=even_start(problem))
    for _ in range(10):
        search.improve(steps=2000)
    assert search.incumbent[0] <= problem.simulate(both).makespan_ns < problem.simulate(even_start(problem)).makespan_ns


def test_no_change_of_one_layer_makes_a_shorter_plan_where_there_are_many_kinds():
    """Kinds that differ by less time than the coldest rounds of the search can tell."""
    modes = {NONE: Mode(activation_bytes=100 * MEGABYTE, backward_ns=200 * MILLISECOND)}
    for number in range(1, 13):
        kept, more_ns = (100 - 7 * number) * MEGABYTE, number * number * MILLISECOND // 20
        modes[f"set{number}"] = Mode(activation_bytes=kept, backward_ns=200 * MILLISECOND + more_ns)
    layer = Layer(name="layer", forward_ns=100 * MILLISECOND, parameter_bytes=MEGABYTE, modes=modes)
    sizes = Sizes(num_ranks=4, num_chunks=2, num_microbatches=16, sequence_splits=1)
    request = Request(
        network=Network(name="many", runs=(LayerRun(layer=layer, count=32),)),
        sizes=sizes, memory_limit_bytes=2000 * MEGABYTE, cell_rule=ANY_CONTENT,
    )  # fmt: skip
    problem = make_problem(request, schedule="interleaved")
    search = Annealing(problem=problem, counts=first_plan(problem))
    for _round in zip(range(40), search.rounds(longest_round_s=0.0), strict=False):
        pass
    makespan_ns, counts = search.incumbent
    assert problem.makespan_ns(problem.costs(counts)) == makespan_ns
    for cell, source, target in np.ndindex(problem.num_cells, len(problem.kinds), len(problem.kinds)):
        if source != target and counts[cell, source]:
            changed = counts.copy()
            changed[cell, source] -= 1
            changed[cell, target] += 1
            costs = problem.costs(changed)
            fits = (problem.rank_memory(costs) <= problem.limits).all()
            assert not fits or problem.makespan_ns(costs) >= makespan_ns
