"""The plan with the least memory, to the byte, against trying every plan."""

import pytest
from hypothesis import Phase, assume, given, settings
from hypothesis import strategies as st

from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.memory.smallest_contents import SmallestContents
from evenflow.solve.memory.two_chunks import has_two_chunks
from tests.solve.cases import cases
from tests.solve.exhaustive import every_plan
from tests.thoroughness import examples

SECONDS = 30
SIZES = (1, 2**20 + 7, 2**30 + 12_345)
"""Sizes of which a millionth is less than a byte, about a byte, and a thousand bytes."""


@pytest.mark.parametrize("memory", SIZES)
@given(data=st.data())
@settings(max_examples=examples(40))
def test_no_plan_needs_a_byte_less(memory, data):
    case = data.draw(cases(memory=memory))
    plans = every_plan(case)
    problem = case.problem()
    least = least_memory(problem, seconds=SECONDS)
    assert least.proven
    assert least.peak_bytes == least.bound_bytes == plans.least_bytes
    assert problem.rank_memory(problem.costs(least.counts)).max() == least.peak_bytes
    assert problem.plan(least.counts).num_layers == case.network.num_layers


@pytest.mark.parametrize("memory", SIZES)
@given(data=st.data())
@settings(max_examples=examples(20))
def test_the_least_limit_has_a_plan_and_a_byte_less_has_none(memory, data):
    case = data.draw(cases(memory=memory))
    least_bytes = every_plan(case).least_bytes
    enough = least_memory(case.problem(), seconds=SECONDS, enough_bytes=least_bytes)
    assert enough.peak_bytes == least_bytes
    less = least_memory(case.problem(), seconds=SECONDS, enough_bytes=least_bytes - 1)
    assert less.bound_bytes > least_bytes - 1


@settings(max_examples=examples(80))
@given(case=cases(memory=2**30 + 12_345, any_order=False))
def test_two_chunks_are_built_up_without_a_program_in_floating_point(case):
    assume(has_two_chunks(SmallestContents(case.problem())))
    programs = []
    least = least_memory(case.problem(), seconds=SECONDS, started=programs.append)
    assert least.peak_bytes == least.bound_bytes == every_plan(case).least_bytes
    assert not programs


@given(case=cases(memory=2**20 + 7))
@settings(max_examples=examples(20))
def test_without_time_there_is_a_plan_and_nothing_false_is_claimed(case):
    problem = case.problem()
    least = least_memory(problem, seconds=0.0)
    assert problem.rank_memory(problem.costs(least.counts)).max() == least.peak_bytes
    assert least.bound_bytes <= every_plan(case).least_bytes <= least.peak_bytes


@settings(max_examples=1, phases=(Phase.generate,))
@given(case=cases(memory=2**30 + 12_345).filter(lambda case: case.sizes.num_chunks > 1 and case.network.num_layers > 6))
def test_a_cancelled_program_ends_the_search(case):
    programs = []

    def cancel(program):
        programs.append(program)
        program.cancel()

    least = least_memory(case.problem(), seconds=SECONDS, started=cancel)
    assert len(programs) <= 1
    assert least.bound_bytes == 0 or not programs
