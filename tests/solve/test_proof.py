"""The prover against every plan there is: it may refute what is impossible and nothing else."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from evenflow.model import EndBlock, Layer, LayerRun, Mode, Network, Request, Sizes
from evenflow.schedule import Schedule
from evenflow.simulate import simulate
from evenflow.solve import proof
from evenflow.solve.bounds import ramp_bound_ns
from evenflow.solve.columns import rank_columns as columns
from evenflow.solve.cuts import cut_graph, cut_search
from evenflow.solve.problem import Problem, make_problem
from evenflow.solve.proof import TOLERANCE, Prover, TargetAnswer
from evenflow.solve.start import even_start
from tests.solve.cases import NO_SHRINKING, cases
from tests.solve.exhaustive import Case, Plans, every_plan
from tests.thoroughness import examples

SECONDS = 60.0


def reached(best_ns: int) -> int:
    """A target that the best plan meets by more than linear programs can mistake."""
    return best_ns + 1 + int(TOLERANCE * best_ns)


def limit_of(draw, plans: Plans) -> int | None:
    """A limit under which some plan fits, mostly one that excludes the shortest."""
    limits = plans.limits()
    return draw(st.none() | st.sampled_from(limits) | st.sampled_from(limits).map(lambda limit: limit + 1))


def check(
    case: Case, plans: Plans, limit: int | None, target_ns: int, best_ns: int, *, learn: bool, decides: bool = True
) -> TargetAnswer:
    problem = case.problem(limit)
    assert ramp_bound_ns(problem) <= best_ns
    prover = Prover(problem)
    if learn:
        prover.learn(even_start(problem))
    answer = prover.refute(target_ns, seconds=SECONDS)
    # What is claimed holds ...
    if answer.refuted:
        assert target_ns <= best_ns * (1 + TOLERANCE), f"refuted {target_ns}, but a plan takes {best_ns}"
    assert answer.bound_ns <= best_ns * (1 + TOLERANCE)
    if answer.counts is not None:
        check_plan(case, problem, limit, answer.counts, target_ns)
    # ... and on problems this small everything is decided.
    if not decides:
        return answer
    if target_ns <= best_ns * (1 - 2 * TOLERANCE) - 1:
        assert answer.refuted
    elif target_ns > best_ns * (1 + TOLERANCE):
        assert answer.counts is not None
    return answer


def check_plan(case: Case, problem: Problem, limit: int | None, counts, target_ns: int) -> None:
    simulation = simulate(case.network, problem.plan(counts), schedule=case.schedule, communication=case.communication)
    assert simulation.makespan_ns <= target_ns
    assert simulation.fits(limit)


@given(data=st.data(), time=st.sampled_from([1, 1_000_003]), memory=st.sampled_from([1, 2**20 + 7]))
@settings(max_examples=examples(300))
def test_it_refutes_what_no_plan_reaches_and_nothing_else(data, time, memory):
    case = data.draw(cases(time=time, memory=memory))
    plans = every_plan(case)
    limit = limit_of(data.draw, plans)
    best = plans.best_ns(limit)
    event(f"binds: {best != plans.best_ns(None)}, runs: {len(case.network.runs)}, kinds: {len(case.network.kinds)}")
    learn = data.draw(st.booleans())
    below = best - 1 - int(2 * TOLERANCE * best)
    check(case, plans, limit, below, best, learn=learn)
    check(case, plans, limit, reached(best), best, learn=learn)


@given(data=st.data())
@settings(max_examples=examples(60))
def test_any_target(data):
    case = data.draw(cases())
    plans = every_plan(case)
    limit = limit_of(data.draw, plans)
    best = plans.best_ns(limit)
    target = data.draw(st.integers(best // 2, best + best // 2))
    check(case, plans, limit, target, best, learn=data.draw(st.booleans()))


@given(data=st.data())
@settings(max_examples=examples(30))
def test_where_ranks_have_too_many_contents(data):
    """The prover then chooses cell by cell, memory being rows of the program, whose floats cannot tell a byte."""
    case = data.draw(cases(memory=2**20 + 7))
    assume(case.sizes.num_chunks > 1)
    plans = every_plan(case)
    limit = limit_of(data.draw, plans)
    best = plans.best_ns(limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(columns, "MAX_COLUMNS", data.draw(st.sampled_from([0, 5, 30])))
        patch.setattr(cut_graph, "MAX_ARCS", data.draw(st.sampled_from([0, 50, 10_000])))
        patch.setattr(cut_search, "_MOST_ARCS", 0)
        for target in (best - 1 - int(2 * TOLERANCE * best), reached(best)):
            check(case, plans, limit, target, best, learn=True, decides=limit is None)


@contextmanager
def searching_boxes() -> Iterator[None]:
    """Let no target be decided by an integer program, nor by a search over cuts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proof, "_MAX_INTEGER_COLUMNS", 0)
        patch.setattr(cut_search, "_MOST_ARCS", 0)
        yield


@given(data=st.data(), time=st.sampled_from([1, 1_000_003]))
@settings(max_examples=examples(60))
def test_where_boxes_of_columns_are_searched(data, time):
    """Instead of an integer program; all of `check` holds as well."""
    case = data.draw(cases(time=time, memory=2**20 + 7))
    plans = every_plan(case)
    limit = limit_of(data.draw, plans)
    best = plans.best_ns(limit)
    with searching_boxes():
        for target in (
            best - 1 - int(2 * TOLERANCE * best),
            reached(best),
            data.draw(st.integers(best // 2, 2 * best)),
        ):
            check(case, plans, limit, target, best, learn=data.draw(st.booleans()))


@given(data=st.data())
@settings(max_examples=examples(40), phases=NO_SHRINKING)
def test_a_search_over_boxes_goes_on_with_a_lower_target(data):
    case = data.draw(cases())
    plans = every_plan(case)
    limit = limit_of(data.draw, plans)
    best = plans.best_ns(limit)
    with searching_boxes():
        prover = Prover(case.problem(limit))
        targets = sorted(data.draw(st.lists(st.integers(best * 9 // 10, best * 11 // 10), min_size=1, max_size=3)))
        for target in reversed(targets):
            answer = prover.refute(target, seconds=data.draw(st.sampled_from([0.0, 0.002, SECONDS])))
            assert not answer.refuted or target < best
            assert answer.bound_ns <= best * (1 + TOLERANCE)
            if answer.counts is not None:
                check_plan(case, prover.problem, limit, answer.counts, target)
        last = prover.refute(targets[0], seconds=SECONDS)
        assert last.refuted == (targets[0] < best)


def goes_round_or_back(order: Schedule) -> bool:
    """Whether there are at most two chunks, and both go through the ranks in the same order or in opposite ones."""
    first, rest = order.stage_ranks[: order.num_ranks], order.stage_ranks[order.num_ranks :]
    return len(set(first)) == order.num_ranks and rest in ((), first, first[::-1])


@given(data=st.data(), time=st.sampled_from([1, 1_000_003]))
@settings(max_examples=examples(60))
def test_where_the_cuts_are_searched(data, time):
    """Instead of an integer program; everything else of `check` holds all the same."""
    case = data.draw(cases(time=time))
    assume(goes_round_or_back(case.schedule))
    plans = every_plan(case)
    limit = limit_of(data.draw, plans)
    best = plans.best_ns(limit)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(proof, "_MAX_INTEGER_COLUMNS", 0)
        for target in (best * 998 // 1000, best - 1, best, data.draw(st.integers(best // 2, 2 * best))):
            prover = Prover(case.problem(limit))
            hairs_breadth = 0.999 * best <= target < best  # may take longer than a test has
            answer = prover.refute(target, seconds=1 if hairs_breadth else SECONDS)
            event(f"searched: {prover.cuts is not None}, chunks: {case.sizes.num_chunks}")
            assert prover.cuts is not None or answer.refuted, "options alone may refute it"
            assert answer.bound_ns <= best
            if hairs_breadth and not answer.refuted:
                assert answer.counts is None
                continue
            assert answer.refuted == (target < best)
            if not answer.refuted:
                check_plan(case, prover.problem, limit, answer.counts, target)


def test_a_target_that_a_plan_meets_exactly_is_not_refuted():
    """An answer is `refuted` if no plan takes at most the target; noise in the last bits must not decide that."""
    layer = Layer(name="layer", forward_ns=204, parameter_bytes=0,
                  modes={"none": Mode(activation_bytes=0, backward_ns=153)})  # fmt: skip
    network = Network(
        name="exact", runs=(LayerRun(layer=layer, count=4),), tail=EndBlock(forward_ns=10, backward_ns=229)
    )
    problem = make_problem(Request(network=network, sizes=Sizes(num_ranks=1, num_microbatches=1)), schedule="1f1b")
    the_only_plan_ns = 4 * (204 + 153) + 10 + 229
    assert not Prover(problem).refute(the_only_plan_ns, seconds=SECONDS).refuted
    assert Prover(problem).refute(the_only_plan_ns - 1, seconds=SECONDS).refuted
