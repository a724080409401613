"""Where somebody's training stands, against every configuration solved by itself."""

from dataclasses import replace
from functools import cache

import pytest

from evenflow.model import FULL
from evenflow.solve.time_left import TimeLeft
from evenflow.tune.answers.standing import priced, standing
from evenflow.tune.axes import Axis
from evenflow.tune.candidate import Candidate
from evenflow.tune.coarse import coarse
from evenflow.tune.question import TuningQuestion
from evenflow.tune.search import search
from evenflow.tune.space import space_of
from evenflow.tune.tuned import Tuned
from tests.tune.questions import question

ASKED = replace(question(), memory_limit_bytes=24 * 2**30, most={Axis.MICROBATCH: 2, Axis.CONTEXT: 2})


@cache
def answer() -> Tuned:
    return search(ASKED, rows=4, time_limit_s=4)


@cache
def steps() -> dict[object, float]:
    """The shortest step of every split, of first plans and what the search has found."""
    found: dict[object, float] = {}
    for one in answer().candidates:
        plan = coarse(one.pricing, one.training)
        step_ns = min(one.step_ns, float("inf") if plan is None else plan.step_ns)
        found[one.split] = min(step_ns, found.get(one.split, step_ns))
    return found


def some(asked: TuningQuestion, number: int) -> Candidate:
    """A configuration with its first plan."""
    one = answer().candidates[number]
    found = coarse(one.pricing, one.training)
    assert found is not None
    return replace(one, found=found)


@pytest.mark.parametrize("number", [0, 5, 20, 30])
def test_the_rank_is_that_among_all(number: int) -> None:
    one = some(ASKED, number)
    assert one.plan is not None
    found = standing(answer(), one.training, one.plan, TimeLeft.of(10))
    faster = sum(step_ns < found.candidate.step_ns for step_ns in steps().values())
    assert found.rank <= 1 + faster <= found.last_rank <= found.of
    assert found.of <= 1 + len(steps())
    assert found.candidate.step_ns == pytest.approx(one.found.step_ns)
    assert found.outside is None
    assert found.fits
    assert found.improved is not None
    assert found.improved.step_ns <= found.candidate.step_ns * (1 + 1e-9)


def test_what_is_recomputed_in_full_is_slower_than_the_same_degrees() -> None:
    one = some(ASKED, 0)
    plan = replace(one.plan, recompute={FULL: one.plan.layers})
    found = standing(answer(), one.training, plan, TimeLeft.of(10))
    assert found.improved is not None
    assert found.improved.step_ns < found.candidate.step_ns
    assert found.rank >= 1


def test_what_does_not_fit_is_priced_all_the_same() -> None:
    one = some(ASKED, 0)
    small = replace(answer(), question=replace(ASKED, memory_limit_bytes=2**30), made=(), unmade=())
    found = standing(small, one.training, one.plan, TimeLeft.of(10))
    assert not found.fits
    assert found.candidate.step_ns == pytest.approx(one.found.step_ns)
    assert (found.rank, found.last_rank, found.of) == (1, 1, 1)


@pytest.mark.parametrize(
    ("kept", "place", "rule"),
    [
        ({"fixed": {Axis.TENSOR: 4}}, "tensor", "must be 4, as decided"),
        ({"most": {Axis.MICROBATCH: 1}}, "microbatch", "must be at most 1"),
        ({"schedules": ("zbv",)}, "schedule", "must be one of zbv, which are tried"),
    ],
)
def test_what_is_not_in_the_space(kept, place, rule) -> None:
    training = next(
        each
        for each in space_of(ASKED).legal
        if each.degrees.pipeline == 2 and each.microbatch == 2 and each.degrees.tensor == 1
    )
    first = coarse(answer().candidates[0].pricing, training)
    found = standing(replace(answer(), question=replace(ASKED, **kept)), training, first.plan, TimeLeft.of(10))
    assert (found.outside.place, found.outside.rule) == (place, rule)
    assert found.improved is None


def test_a_price_is_that_of_the_plan() -> None:
    one = some(ASKED, 3)
    again = priced(one.pricing, one.training, one.plan)
    assert (again.step_ns, again.found.rank_bytes) == (one.step_ns, one.found.rank_bytes)
