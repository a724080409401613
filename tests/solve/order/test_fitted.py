"""Plans under one family, in an order made for their times where that is shorter."""

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import repeat
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.export.results.outcome_fields import outcome_fields
from evenflow.model import FULL, NONE, Communication, EndBlock, Layer, LayerRun, Mode, Network, Request, Sizes
from evenflow.profiles.plan_file import parse_plan
from evenflow.schedule import FAMILIES, check_complete, schedule_of
from evenflow.simulate import simulate
from evenflow.solve import Outcome, Status, solve
from evenflow.solve.clock import Clock
from evenflow.solve.order import fitted
from evenflow.solve.order.fitted import solve_fitted
from evenflow.solve.order.made_orders import MadeOrder, family_orders
from evenflow.solve.order.ordered_outcome import OrderedOutcome
from evenflow.solve.problem import make_problem
from evenflow.solve.race import Race
from evenflow.solve.work import Work
from tests.thoroughness import examples

WITH_PATTERN = [name for name, family in FAMILIES.items() if family.patterns]


def network(
    layers: int = 12, *, forward: int = 400, backward: int = 700, weight: int = 150, tail: int = 500
) -> Network:
    layer = Layer(
        name="layer",
        forward_ns=forward,
        parameter_bytes=50,
        modes={
            NONE: Mode(activation_bytes=60, backward_ns=backward),
            FULL: Mode(activation_bytes=9, backward_ns=backward + forward),
        },
        stated_weight_ns=weight,
        stated_until_weight_bytes=30,
    )
    return Network(
        name="small",
        runs=(LayerRun(layer=layer, count=layers),),
        head=EndBlock(forward_ns=tail // 5, backward_ns=tail // 4, parameter_bytes=70),
        tail=EndBlock(forward_ns=tail, backward_ns=2 * tail, parameter_bytes=80),
    )


def request_of(name: str, *, ranks: int = 3, microbatches: int = 7, limit: int | None = None, **more: int) -> Request:
    chunks = FAMILIES[name].num_chunks or 1
    return Request(
        network=network(**more),
        sizes=Sizes(num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches),
        memory_limit_bytes=limit,
    )


@st.composite
def small_requests(draw: st.DrawFn) -> tuple[Request, str]:
    name, ranks = draw(st.sampled_from(WITH_PATTERN)), draw(st.integers(2, 4))
    weight = draw(st.integers(0, 600))
    request = Request(
        network=network(
            draw(st.integers(2 * ranks, 8)),
            forward=draw(st.integers(100, 600)),
            backward=weight + draw(st.integers(100, 900)),
            weight=weight,
            tail=draw(st.sampled_from([0, 300, 1500])),
        ),
        sizes=Sizes(
            num_ranks=ranks,
            num_chunks=FAMILIES[name].num_chunks or 1,
            num_microbatches=draw(st.integers(1, 8)),
        ),
        memory_limit_bytes=draw(st.sampled_from([None, 500, 900, 1500])),
        communication=draw(st.sampled_from([None, Communication(latency_ns=90)])),
    )
    return request, name


def check_plan(outcome: Outcome, request: Request, name: str) -> None:
    """The plan fits, runs as long as is said, and so does the one that is read back from its file."""
    assert outcome.plan is not None
    assert outcome.plan.schedule == name
    check_complete(schedule_of(outcome.plan))
    text = json.dumps(outcome_fields(outcome, request.sizes, schedule=name))
    for plan in (outcome.plan, parse_plan(text, place="plan")):
        again = simulate(request.network, plan, communication=request.communication)
        assert again.makespan_ns == outcome.makespan_ns
        assert again.fits(request.memory_limit_bytes)


@settings(max_examples=examples(12), deadline=None)
@given(small_requests())
def test_never_longer_than_under_the_order_for_equal_times(asked: tuple[Request, str]):
    request, name = asked
    equal = solve(request, schedule=name, time_limit_s=1.5)
    outcome = solve_fitted(request, schedule=name, time_limit_s=1.5)
    if equal.status is Status.INFEASIBLE:
        assert outcome.status is Status.INFEASIBLE
        return
    check_plan(outcome, request, name)
    if equal.status is Status.OPTIMAL:
        assert outcome.makespan_ns <= equal.makespan_ns * (1 + 4e-6)
    assert outcome.lower_bound_ns <= outcome.makespan_ns


def test_a_made_order_is_shorter_and_is_said_to_be():
    request = request_of("zbv")
    outcome = solve_fitted(request, schedule="zbv", time_limit_s=4.0)
    assert isinstance(outcome, OrderedOutcome)
    check_plan(outcome, request, "zbv")
    assert outcome.plan is not None
    assert outcome.plan.order
    assert outcome.family.plan is not None
    assert not outcome.family.plan.order
    assert outcome.makespan_ns < outcome.family.makespan_ns
    assert outcome.lower_bound_ns <= outcome.order_lower_bound_ns <= outcome.makespan_ns
    gain, of_cells, of_any = outcome.certificate().splitlines()
    saved = 100 * (1 - outcome.makespan_ns / outcome.family.makespan_ns)
    assert gain == (
        f"{outcome.makespan_ns / 1e6:,.3f} ms with the order of zbv made for these times, {saved:.2f} % less than "
        f"under its order for equal times ({outcome.family.certificate()})"
    )
    assert of_cells.startswith("bound for any order of these cells: ")
    assert of_any.startswith("bound for any order of any cells: ")


@pytest.mark.parametrize("name", ["1f1b", "zb-h1"])
def test_the_outcome_for_equal_times_stays_where_nothing_is_shorter(name: str):
    request = request_of(name, ranks=2, microbatches=4, layers=4, forward=200, backward=400, weight=200, tail=0)
    outcome = solve_fitted(request, schedule=name, time_limit_s=4.0)
    assert not isinstance(outcome, OrderedOutcome)
    assert outcome.status is Status.OPTIMAL
    assert outcome.makespan_ns == solve(request, schedule=name, time_limit_s=4.0).makespan_ns
    assert outcome.plan is not None
    assert not outcome.plan.order


def test_without_a_plan_the_reason_is_that_of_the_order_for_equal_times():
    request = request_of("zbv", limit=300)
    outcome = solve_fitted(request, schedule="zbv", time_limit_s=4.0)
    assert outcome.status is Status.INFEASIBLE
    assert outcome.infeasibility == solve(request, schedule="zbv", time_limit_s=4.0).infeasibility


@pytest.mark.parametrize(("step", "has_made_order"), [("family_orders", False), ("problem_of_order", True)])
def test_ctrl_c_keeps_what_was_found(monkeypatch: pytest.MonkeyPatch, step: str, has_made_order: bool):
    def interrupt(*_given: object, **_named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(fitted, step, interrupt)
    request = request_of("zbv", limit=1500)
    outcome = solve_fitted(request, schedule="zbv", time_limit_s=4.0)
    assert outcome.interrupted
    assert outcome.binding is None
    assert isinstance(outcome, OrderedOutcome) == has_made_order
    check_plan(outcome, request, "zbv")


def test_no_order_is_made_after_ctrl_c(monkeypatch: pytest.MonkeyPatch):
    class Interrupted(Race):
        def run(self, *given: Any, **named: Any) -> Outcome:
            return replace(super().run(*given, **named), interrupted=True)

    monkeypatch.setattr(fitted, "Race", Interrupted)
    monkeypatch.setattr(fitted, "family_orders", None)
    outcome = solve_fitted(request_of("zbv"), schedule="zbv", time_limit_s=4.0)
    assert outcome.interrupted
    assert not isinstance(outcome, OrderedOutcome)


def test_no_more_orders_are_made_when_the_time_is_up(monkeypatch: pytest.MonkeyPatch):
    def endless(name: str, work: Work) -> Iterator[MadeOrder]:
        yield from repeat(next(family_orders(name, work)))

    monkeypatch.setattr(fitted, "family_orders", endless)
    request = request_of("zbv")
    first = solve(request, schedule="zbv", time_limit_s=4.0)
    assert first.simulation is not None
    fitting = fitted._Fitting(
        problem=make_problem(request, schedule="zbv"),
        best=first.simulation,
        clock=Clock(limit_s=0.0),
        after_s=0.0,
        progress=None,
    )
    fitting.run()
    assert fitting.best is first.simulation
