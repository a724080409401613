"""Bounds that know that a framework has one number of recomputed layers for all cells."""

from dataclasses import replace
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import FULL, SELECT, Abilities, CellRule, Plan, Recomputation, Scope
from evenflow.predict.training import Training
from evenflow.solve.recompute_ways import RecomputeWay
from evenflow.tune.axes import Axis, schedule_of
from evenflow.tune.bounds import StepBounds
from evenflow.tune.candidate import Pricing
from evenflow.tune.question import TuningQuestion
from evenflow.tune.space import space_of
from evenflow.tune.ways_bound import bound_of_ways_ns
from tests.thoroughness import examples
from tests.tune.questions import question

COUNTED = Abilities(
    schedules=("1f1b", "interleaved"),
    recomputation=(Recomputation(scope=Scope.COUNT), Recomputation(scope=Scope.MODEL, kinds=(FULL, SELECT))),
)


@cache
def asked(gigabytes: float, *, allow_empty: bool) -> tuple[TuningQuestion, Pricing, StepBounds, list[Training]]:
    of = replace(
        question(), abilities=COUNTED, schedules=("1f1b", "interleaved"), allow_empty=allow_empty,
        memory_limit_bytes=int(gigabytes * 2**30), fixed={Axis.ZERO: 1, Axis.TENSOR: 1, Axis.CONTEXT: 1},
    )  # fmt: skip
    pricing = Pricing(question=of)
    legal = [training for training in space_of(of).legal if training.degrees.chunks < 4]
    return of, pricing, StepBounds(pricing=pricing), legal


@settings(max_examples=examples(120), deadline=None)
@given(st.data())
def test_no_plan_that_the_framework_runs_is_shorter(data: st.DataObject) -> None:
    allow_empty = data.draw(st.booleans())
    _of, pricing, bounds, legal = asked(data.draw(st.sampled_from([4, 5, 6, 8, 80])), allow_empty=allow_empty)
    training = data.draw(st.sampled_from(legal))
    bound_ns = bounds.order_ns(training)
    ranks, chunks, layers = training.degrees.pipeline, training.degrees.chunks, training.model.layers
    cells, least = ranks * chunks, 0 if allow_empty else 1
    for _ in range(6):
        spare = layers - least * cells
        borders = sorted(data.draw(st.lists(st.integers(0, spare), min_size=cells - 1, max_size=cells - 1)))
        sizes = [least + end - start for start, end in zip([0, *borders], [*borders, spare], strict=True)]
        number = data.draw(st.integers(0, layers))
        kind = data.draw(st.sampled_from([FULL, SELECT]))
        again = [min(number, size) if kind == FULL else size for size in sizes]
        rows = [[sizes[chunk * ranks + rank] for rank in range(ranks)] for chunk in range(chunks)]
        counts = [[again[chunk * ranks + rank] for rank in range(ranks)] for chunk in range(chunks)]
        plan = Plan(
            schedule=schedule_of(training),
            num_microbatches=training.microbatches,
            layers=tuple(map(tuple, rows)),
            recompute={kind: tuple(map(tuple, counts))},
        )
        found = pricing.planned_step(training, plan)
        assert found is None or bound_ns <= found.step_ns
        above_ns = bounds.order_ns(training, aim_ns=0.5 * bound_ns)
        assert above_ns <= bound_ns or above_ns <= (found.step_ns if found else float("inf"))


def test_where_the_first_rank_must_recompute_all_of_them_do() -> None:
    """Of four ranks the first keeps four microbatches, the last one: with any mixture, the last recomputes nothing."""
    of, pricing, _bounds, legal = asked(80, allow_empty=False)
    training = next(one for one in legal if one.degrees.pipeline == 4 and one.microbatch == 1)
    roomy, tight = (pricing.planned_step(training, _plan(training, (2, 2, 2, 2), kind, 8)) for kind in (SELECT, FULL))
    assert roomy is not None
    assert tight is not None
    limit = (max(roomy.rank_bytes) + 3 * max(tight.rank_bytes)) // 4
    short = Pricing(question=replace(of, memory_limit_bytes=limit))
    free = StepBounds(pricing=Pricing(question=replace(short.question, abilities=None)))
    every = [
        short.planned_step(training, _plan(training, tuple(map(int, cut)), kind, number))
        for cut in product(range(1, 6), repeat=4)
        if sum(cut) == training.model.layers
        for kind, number in [(SELECT, 8), *((FULL, number) for number in range(6))]
    ]
    best_ns = min(planned.step_ns for planned in every if planned is not None)
    bound_ns = StepBounds(pricing=short).order_ns(training)
    assert free.order_ns(training) < 0.97 * best_ns
    assert max(0.95 * best_ns, 1.01 * free.order_ns(training)) <= bound_ns <= best_ns


def _plan(training: Training, layers: tuple[int, ...], kind: str, number: int) -> Plan:
    """Return the plan with so many layers on each rank, of which so many at most recompute."""
    recompute = {kind: (tuple(min(number, count) for count in layers),)}
    return Plan(
        schedule="1f1b", num_microbatches=training.microbatches, layers=(layers,), recompute=recompute if number else {}
    )


WAYS = (
    RecomputeWay(rule=CellRule(kinds=("none",))),
    RecomputeWay(rule=CellRule(kinds=(SELECT,))),
    *(RecomputeWay(rule=CellRule(full=(count, count)), count=count) for count in (1, 2)),
)


@pytest.mark.parametrize("least", range(2, 9))
@given(st.lists(st.integers(10, 99), min_size=8, max_size=8), st.integers(10, 99), st.integers(10, 120))
def test_it_is_the_least_of_all_ways(least: int, numbers: list[int], selected: int, aim: int) -> None:
    """Each number of layers is bounded by `numbers`, many at once by no more than the least of them."""
    asked_for: list[CellRule] = []

    def rule_ns(rule: CellRule) -> float:
        asked_for.append(rule)
        if rule.kinds == ("none",):
            return 100.0
        if rule.kinds == (SELECT,):
            return float(selected)
        low, high = rule.full or (least, least)
        return float(min(numbers[low - 1 : high]))

    bound = bound_of_ways_ns(WAYS, rule_ns, known_ns=5.0, aim_ns=float(aim), most=least)
    exact = min(100.0, selected, *numbers[:least])
    assert bound <= exact or bound <= 5.0
    assert bound >= min(exact, aim)
    assert len(asked_for) <= 2 + 2 * least
