"""Why no plan fits: the smallest limit to the byte, the rank that holds it, and advice that is true."""

from dataclasses import replace

import pytest
from hypothesis import assume, given, settings

from evenflow.model import Request, Sizes
from evenflow.solve.infeasible import advice_for, explain
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.outcome import Status
from evenflow.solve.problem import Problem, make_problem
from evenflow.units import MEGABYTE
from tests.networks import equal_network, plain_network
from tests.solve.cases import cases
from tests.solve.exhaustive import every_plan
from tests.thoroughness import examples


def problem_of(limit_mb: int, *, schedule: str = "1f1b", num_chunks: int = 1, **request: object) -> Problem:
    sizes = Sizes(num_ranks=2, num_chunks=num_chunks, num_microbatches=4)
    asked = Request(network=plain_network(8), sizes=sizes, memory_limit_bytes=limit_mb * MEGABYTE)
    return make_problem(replace(asked, **request), schedule=schedule)


@given(case=cases())
@settings(max_examples=examples(25))
def test_the_smallest_limit_is_that_of_every_plan(case):
    least_bytes = every_plan(case).least_bytes
    assume(least_bytes > 0)
    problem = case.problem(least_bytes - 1)
    least = least_memory(problem, seconds=20)
    outcome = explain(problem, least, seconds=1.5, advise=False)
    assert outcome.status is Status.INFEASIBLE
    assert outcome.memory_limit_bytes == least_bytes - 1
    assert outcome.infeasibility is not None
    assert outcome.infeasibility.proven
    assert outcome.infeasibility.smallest_limit_bytes == least_bytes
    peaks = problem.rank_memory(problem.costs(least.counts))
    assert peaks[outcome.infeasibility.rank] == least_bytes
    assert outcome.infeasibility.advice == ()


# A recomputed layer has 50 MB of parameters and keeps 10 MB of each microbatch. Rank 0 of two holds two microbatches:
# with 4 + 4 layers 4 * (50 + 2 * 10) = 280 MB. Of four ranks with two layers each it holds four: 2 * (50 + 4 * 10).
def test_more_ranks_are_tried_and_what_would_fit_is_said():
    advice = advice_for(problem_of(200))
    assert advice == [
        "4 ranks would fit, needing 180 MB",
        "recompute kinds that the network does not offer might help: both, select, comm",
    ]
    assert advice_for(problem_of(179))[0] == "4 ranks would still not fit, needing 180 MB"


def test_sequences_in_parts_are_compared_with_whole_ones():
    """In parts no layer may recompute in full: each keeps 50 MB for a whole sequence, without parts 10 MB."""
    sizes = Sizes(num_ranks=2, num_chunks=1, num_microbatches=4, sequence_splits=2)
    advice = advice_for(problem_of(300, sizes=sizes))
    assert advice[0] == "whole sequences would fit, needing 280 MB"


def test_a_given_split_is_told_of_a_better_one():
    first, *_ = advice_for(problem_of(290, layers=((7, 1),)))
    assert first == "another split of the layers would fit, needing 280 MB"


def test_chunks_are_compared_with_1f1b_and_with_the_variant_that_holds_less():
    advice = advice_for(problem_of(285, schedule="interleaved", num_chunks=2))
    assert advice[0].startswith("the less-memory variant of the schedule would ")
    assert advice[1] == "1F1B with one chunk per rank would fit, needing 280 MB"
    without = advice_for(problem_of(285, schedule="interleaved", num_chunks=2), schedules=False)
    assert without == advice[2:]


def test_what_cannot_be_made_is_not_advised():
    """Three layers do not fill four ranks."""
    sizes = Sizes(num_ranks=2, num_chunks=1, num_microbatches=2)
    kinds = ("full", "both", "select", "comm")
    request = Request(network=equal_network(3, *kinds), sizes=sizes, memory_limit_bytes=1, allow_empty=False)
    assert advice_for(make_problem(request, schedule="1f1b")) == []
    assert advice_for(make_problem(replace(request, allow_empty=True), schedule="1f1b")) != []


@pytest.mark.parametrize("splits", [1, 2])
def test_full_recomputation_is_not_missing_where_sequences_are_split(splits: int):
    sizes = Sizes(num_ranks=1, num_chunks=1, num_microbatches=2, sequence_splits=splits)
    request = Request(network=equal_network(2, "select"), sizes=sizes, memory_limit_bytes=1)
    last = advice_for(make_problem(request, schedule="seq1f1b" if splits > 1 else "1f1b"))[-1]
    assert ("full" in last) == (splits == 1)
