"""Searches whose machine code is still being made: they answer in their time, with what they know without it."""

from collections.abc import Iterator
from threading import Event

import pytest

from evenflow.model import Request, Sizes
from evenflow.simulate import is_compiling
from evenflow.solve import solve
from evenflow.solve.clock import reproducible
from evenflow.solve.machine_code import MachineCode
from evenflow.solve.order.alternate import solve_any_order
from evenflow.solve.order.fitted import solve_fitted
from evenflow.solve.order.made_orders import MAKERS
from evenflow.solve.order.order_search import SEARCHER
from tests.networks import plain_network

REQUEST = Request(network=plain_network(10), sizes=Sizes(num_ranks=3, num_microbatches=5))


@pytest.fixture
def compiling(monkeypatch: pytest.MonkeyPatch) -> Iterator[Event]:
    """Machine code for orders is being made until this is set."""
    end = Event()
    for code in (MAKERS, SEARCHER):
        monkeypatch.setattr(code, "_thread", None)
        code.begin(end.wait)
    yield end
    end.set()
    for code in (MAKERS, SEARCHER):
        assert code.wait(is_over=lambda: False)


@pytest.mark.usefixtures("compiling")
def test_an_order_for_the_times_of_a_plan_is_left_out():
    found = solve_fitted(REQUEST, schedule="zb-h1", time_limit_s=0.5)
    assert found.plan is not None
    assert found.plan.order == ()


@pytest.mark.usefixtures("compiling")
def test_a_search_for_orders_has_the_best_family():
    found = solve_any_order(REQUEST, split_backward=True, time_limit_s=0.5)
    assert found.makespan_ns is not None
    even = solve(REQUEST, schedule="1f1b", time_limit_s=0.001)
    assert even.makespan_ns is not None
    assert found.makespan_ns <= even.makespan_ns
    assert found.lower_bound_ns <= found.makespan_ns


def test_a_search_for_orders_goes_on_once_they_are_compiled(compiling: Event):
    compiling.set()
    found = solve_any_order(REQUEST, split_backward=True, time_limit_s=3)
    family = solve_any_order(REQUEST, split_backward=True, time_limit_s=0.001)
    assert found.makespan_ns <= family.makespan_ns


def test_machine_code_is_made_once_and_waited_for():
    code, calls, end = MachineCode(), [], Event()

    def use() -> None:
        calls.append(is_compiling())
        end.wait()

    assert code.is_made
    for _ in range(2):
        code.begin(use)
    assert not code.is_made
    assert not code.wait(is_over=lambda: True)
    end.set()
    assert code.wait(is_over=lambda: False)
    code.begin(use)
    assert calls == [True]


def test_where_work_is_counted_nobody_makes_it_beforehand():
    code = MachineCode()
    with reproducible():
        code.begin(lambda: pytest.fail("this is a thread"))
        assert code.is_made
