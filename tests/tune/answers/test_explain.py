"""Why a configuration is slower: the parts of two steps, and of their difference, add up."""

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import Plan
from evenflow.predict.prediction import BUBBLE, OPTIMIZER, STEP, PartTime
from evenflow.predict.training import Degrees, Training
from evenflow.predict.work import Spent
from evenflow.tune.answers.explain import COMPUTE, RECOMPUTATION, difference, whole
from evenflow.tune.axes import Axis
from evenflow.tune.candidate import Candidate, PlannedStep, Pricing
from tests.tune.questions import question

TIMES = st.floats(0, 1e12)
PRICING = Pricing(question=question())


@st.composite
def candidates(draw) -> Candidate:
    """A configuration with a step of any parts, some of which are done again."""
    parts = []
    for name in (*Spent, BUBBLE, OPTIMIZER, STEP):
        exposed = draw(TIMES)
        again = draw(st.floats(0, 1)) * exposed if name in tuple(Spent) else 0.0
        parts.append(PartTime(name=name, exposed_ns=exposed, recomputed_ns=again))
    return candidate(parts, tensor=draw(st.sampled_from([1, 2, 4])), held=draw(st.integers(1, 2**40)))


def candidate(parts, *, tensor: int = 1, held: int = 2**30) -> Candidate:
    asked = PRICING.question
    training = Training(
        model=asked.model, degrees=Degrees(tensor=tensor, data=8 // tensor), microbatch=1,
        global_batch=asked.global_batch, sequence=asked.sequence, schedule="1f1b",
    )  # fmt: skip
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((8,),), recompute={})
    step_ns = sum(part.exposed_ns for part in parts)
    found = PlannedStep(plan=plan, step_ns=step_ns, parts=tuple(parts), rank_bytes=(held // 2, held))
    return Candidate(training=training, pricing=PRICING, found=found)


@given(candidates(), candidates())
def test_parts_add_up_to_the_difference_of_the_steps(first: Candidate, other: Candidate) -> None:
    found = difference(first, other)
    assert sum(part.more_ns for part in found.parts) == found.more_ns == found.other_ns - found.first_ns
    for one, step_ns in ((first, found.first_ns), (other, found.other_ns)):
        assert abs(one.step_ns - step_ns) <= 0.5 + 1e-9 * one.step_ns
    again = sum(part.recomputed_ns for part in other.found.parts)
    by_name = {part.name: part for part in found.parts}
    assert abs(by_name[RECOMPUTATION].other_ns - again) <= 1.001 + 1e-9 * again
    assert found.other_bytes == max(other.found.rank_bytes)


@given(candidates(), candidates())
def test_the_other_way_round_everything_has_the_other_sign(first: Candidate, other: Candidate) -> None:
    there, back = difference(first, other), difference(other, first)
    assert [part.more_ns for part in there.parts] == [-part.more_ns for part in back.parts]
    assert [(each.axis, each.first, each.other) for each in there.changes] == [
        (each.axis, each.other, each.first) for each in back.changes
    ]


@given(st.lists(st.floats(0, 1e15)), st.sampled_from([1.0, 1e5, 0.25]))
def test_whole_units_add_up(values: list[float], unit: float) -> None:
    found = whole(values, unit)
    assert abs(sum(found) - sum(values) / unit) <= 0.5 + 1e-9 * sum(values) / unit
    assert all(abs(one - value / unit) <= 1 + 1e-9 * value / unit for one, value in zip(found, values, strict=True))
    assert all(one == 0 for one, value in zip(found, values, strict=True) if value == 0)


def test_a_part_has_the_axis_that_it_follows_from() -> None:
    parts = [PartTime(name=name, exposed_ns=10.0) for name in (*Spent, BUBBLE, OPTIMIZER, STEP)]
    found = difference(candidate(parts, tensor=4), candidate(parts, tensor=8))
    causes = {part.name: part.cause for part in found.parts}
    assert causes[Spent.TENSOR] is not None
    assert (causes[Spent.TENSOR].axis, causes[Spent.TENSOR].first, causes[Spent.TENSOR].other) == (Axis.TENSOR, 4, 8)
    assert causes[COMPUTE] == causes[Spent.TENSOR]
    assert causes[Spent.DATA].axis is Axis.DATA
    assert causes[RECOMPUTATION] is None  # follows from the plan
    assert causes[BUBBLE] is None  # neither ranks nor schedule have changed


def test_one_configuration_does_not_differ_from_itself() -> None:
    parts = [PartTime(name=name, exposed_ns=10.5) for name in Spent]
    one = candidate(parts)
    found = difference(one, replace(one))
    assert not found.changes
    assert found.more_ns == 0 == found.share
