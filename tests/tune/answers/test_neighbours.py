"""One step away from a configuration: every step is legal and has the devices, and what cannot be has its reason."""

from dataclasses import replace

import pytest

from evenflow.predict.transformer import Experts
from evenflow.solve.time_left import TimeLeft
from evenflow.tune.answers.alone import needed_bytes, only, solved
from evenflow.tune.answers.neighbours import moved, neighbours
from evenflow.tune.axes import Axis, value_of
from evenflow.tune.candidate import Candidate, Pricing
from evenflow.tune.question import TuningQuestion
from evenflow.tune.search import search
from evenflow.tune.space import refusals, space_of
from tests.tune.questions import question

FOLLOW = {
    Axis.TENSOR: {Axis.DATA, Axis.EXPERT_TENSOR},
    Axis.CONTEXT: {Axis.DATA},
    Axis.PIPELINE: {Axis.DATA, Axis.SCHEDULE, Axis.CHUNKS, Axis.ZERO},
    Axis.CHUNKS: {Axis.SCHEDULE},
    Axis.SCHEDULE: {Axis.CHUNKS},
}
"""Axes that may change with another."""


def asked(*, has_experts: bool = False) -> TuningQuestion:
    base = replace(question(), schedules=("1f1b", "interleaved", "zbv"))
    experts = Experts(count=8, active=2, ffn=1024) if has_experts else None
    return replace(base, model=replace(base.model, experts=experts))


@pytest.mark.parametrize("has_experts", [False, True])
def test_every_step_is_a_legal_configuration_of_as_many_devices(has_experts: bool) -> None:
    asks = asked(has_experts=has_experts)
    pricing = Pricing(question=asks)
    for training in space_of(asks).legal[::17]:
        chosen, tried = Candidate(training=training, pricing=pricing), []
        found = list(neighbours(chosen, tried.append, TimeLeft.of(60)))
        assert [one.refusal is None for one in found].count(True) == len(tried)
        for one, other in zip([each for each in found if each.refusal is None], tried, strict=True):
            changed = {axis for axis in Axis if value_of(training, axis) != value_of(other, axis)}
            assert one.axis in changed <= {one.axis} | FOLLOW.get(one.axis, set())
            assert value_of(other, one.axis) == one.value
            assert other.degrees.devices == asks.devices
            assert space_of(only(asks, other)).legal == [other]
        for one in found:
            if one.refusal is not None:
                assert one.refusal.rule


def test_between_a_value_and_the_next_legal_one_nothing_is_legal() -> None:
    asks = asked()
    training = next(each for each in space_of(asks).legal if each.degrees.tensor == 4 and each.degrees.pipeline == 1)
    chosen = Candidate(training=training, pricing=Pricing(question=asks))
    found = [one for one in neighbours(chosen, lambda _training: None, TimeLeft.of(60)) if one.axis is Axis.MICROBATCH]
    for one in found:
        low, high = sorted((int(one.value), training.microbatch))
        between = [moved(asks, training, Axis.MICROBATCH, size) for size in range(low + 1, high)]
        assert all(next(refusals(asks, each), None) is not None for each in between)


def test_a_step_has_the_price_of_its_own_search() -> None:
    asks = replace(asked(), memory_limit_bytes=20 * 2**30, schedules=("1f1b",))
    asks = replace(asks, fixed={Axis.PIPELINE: 2, Axis.ZERO: 1, Axis.CONTEXT: 1})
    best = search(asks, rows=1, time_limit_s=5).best
    assert best is not None
    found = list(neighbours(best, lambda training: solved(asks, training, time_limit_s=0.5), TimeLeft.of(60)))
    assert found
    legal = {each.training: each for each in search(asks, rows=100, time_limit_s=5).candidates}
    compared = 0
    for one in found:
        if one.candidate is not None and one.candidate.training in legal:
            there = legal[one.candidate.training]
            if there.found is not None:
                compared += 1
                assert one.candidate.step_ns == pytest.approx(there.step_ns, rel=0.02)
                assert one.candidate.step_ns >= best.step_ns * (1 - 1e-9)
    assert compared >= 2


def test_the_memory_that_is_missing_is_the_least_that_would_do() -> None:
    asks = replace(asked(), schedules=("1f1b",))
    training = next(each for each in space_of(asks).legal if each.degrees.pipeline == 4 and each.degrees.data == 2)
    needed = needed_bytes(Pricing(question=asks), training)
    for limit, fits in ((needed, True), (int(0.99 * needed), False)):
        found = solved(replace(asks, memory_limit_bytes=limit), training, time_limit_s=2)
        assert found is not None
        assert (found.found is not None) is fits
