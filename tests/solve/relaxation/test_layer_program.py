"""The program over parts of layers: no plan is shorter than its value, and plans near its solution may be."""

import math
from itertools import count

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import FULL, NONE, EndBlock, Layer, LayerRun, Mode, Network, Request, Sizes
from evenflow.solve import Status, plan
from evenflow.solve.bounds import ramp_bound_ns
from evenflow.solve.clock import reproducible
from evenflow.solve.known_plans import allowed_counts
from evenflow.solve.problem import Problem, make_problem
from evenflow.solve.relaxation import layer_program
from evenflow.solve.relaxation.layer_program import Relaxation, Relaxed
from evenflow.solve.relaxation.rounded import rounded_plans
from evenflow.units import MEGABYTE
from tests.solve.cases import cases
from tests.solve.exhaustive import Case, every_plan
from tests.solve.test_cell_rules import ruled
from tests.solve.test_unequal_ranks import unequal
from tests.thoroughness import examples

MILLISECOND = 1_000_000


def relaxed(problem: Problem) -> Relaxed:
    relaxation = Relaxation(problem, scale_ns=ramp_bound_ns(problem))
    found = relaxation.run(keep_going=lambda: True, report=lambda _bound: None)
    assert relaxation.is_over
    return found


def check(case: Case, limit: int | None) -> None:
    problem = case.problem(limit)
    found = relaxed(problem)
    best = every_plan(case).best_ns(limit)
    if best is None:
        assert found.bound_ns >= 0, "it may also be infinite"
    else:
        assert found.bound_ns <= best
        assert found.borders is not None
        for counts in rounded_plans(problem, found.borders):
            assert allowed_counts(problem, problem.plan(counts)) is not None
            assert best <= problem.simulate(counts).makespan_ns


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None)
def test_no_plan_is_shorter(data):
    case = data.draw(cases(time=1_000_000, memory=2**20 + 7))
    check(case, data.draw(st.sampled_from([None, *every_plan(case).limits()])))


@given(data=st.data())
@settings(max_examples=examples(25), deadline=None)
def test_nor_on_unequal_ranks(data):
    case = data.draw(unequal(time=1_000_000, memory=2**20 + 7, any_order=False))
    check(case, data.draw(st.sampled_from([None, *every_plan(case).limits()])))


@given(data=st.data())
@settings(max_examples=examples(25), deadline=None)
def test_nor_under_a_rule_of_cells(data):
    case = data.draw(ruled(time=1_000_000, memory=2**20 + 7, any_order=False))
    check(case, data.draw(st.sampled_from([None, *every_plan(case).limits()])))


def layer(name: str, time_ms: float, activation_mb: int) -> Layer:
    backward = round(2 * time_ms * MILLISECOND)
    return Layer(
        name=name,
        forward_ns=round(time_ms * MILLISECOND),
        parameter_bytes=300 * MEGABYTE,
        modes={
            NONE: Mode(activation_bytes=activation_mb * MEGABYTE, backward_ns=backward),
            FULL: Mode(activation_bytes=32 * MEGABYTE, backward_ns=backward * 3 // 2),
        },
    )


MIXED = (layer("attention", 5.1, 270), layer("MLP", 4.2, 300), layer("Mamba", 3.3, 340), layer("experts", 9.4, 410))


def many_kinds(num_layers: int, limit_mb: int) -> Request:
    """Four kinds of layers in turn, on 8 ranks with two chunks."""
    runs = tuple(LayerRun(layer=MIXED[place % 4], count=1) for place in range(num_layers))
    tail = EndBlock(name="output", forward_ns=9 * MILLISECOND, backward_ns=18 * MILLISECOND)
    return Request(
        network=Network(name="mixed", runs=runs, tail=tail),
        sizes=Sizes(num_ranks=8, num_chunks=2, num_microbatches=16),
        memory_limit_bytes=limit_mb * MEGABYTE,
        allow_empty=False,
    )


def test_it_says_more_than_ramps_where_memory_binds():
    problem = make_problem(many_kinds(64, 12_000), schedule="interleaved")
    assert relaxed(problem).bound_ns > 1.2 * ramp_bound_ns(problem)


def test_a_plan_is_found_at_once_where_the_even_one_does_not_fit():
    request = many_kinds(64, 9_000)
    problem = make_problem(request, schedule="interleaved")
    found = relaxed(problem)
    near = rounded_plans(problem, found.borders)
    assert near
    steps = [problem.simulate(counts).makespan_ns for counts in near]
    assert steps == sorted(steps)
    assert steps[0] < 1.5 * found.bound_ns
    network, sizes = request.network, request.sizes
    with reproducible():  # a slow machine is no less far with the program
        outcome = plan(
            network, num_ranks=sizes.num_ranks, num_chunks=sizes.num_chunks, num_microbatches=sizes.num_microbatches,
            memory_limit_bytes=request.memory_limit_bytes, time_limit_s=6.0,
        )  # fmt: skip
    assert outcome.status in (Status.OPTIMAL, Status.FEASIBLE)
    assert int(found.bound_ns) <= outcome.lower_bound_ns <= outcome.makespan_ns <= steps[0]


def test_a_program_that_is_too_large_is_left_out(monkeypatch):
    problem = make_problem(many_kinds(64, 12_000), schedule="interleaved")
    monkeypatch.setattr(layer_program, "_MOST_ENTRIES", 10)
    relaxation = Relaxation(problem, scale_ns=1)
    assert relaxation.is_over
    assert relaxation.run(keep_going=lambda: True, report=lambda _bound: None).borders is None


@given(data=st.data())
@settings(max_examples=examples(20), deadline=None)
def test_many_short_runs_find_what_a_long_one_does(data):
    problem = data.draw(cases(time=1_000_000, memory=2**20 + 7)).problem(None)
    whole, parts = relaxed(problem), Relaxation(problem, scale_ns=ramp_bound_ns(problem))
    bounds = [0.0]
    for _run in range(1_000):
        if parts.is_over:
            break
        asked = count()
        bounds.append(parts.run(keep_going=lambda: next(asked) < 2, report=lambda _bound: None).bound_ns)  # noqa: B023
    assert parts.is_over
    assert bounds == sorted(bounds)
    assert math.isclose(bounds[-1], whole.bound_ns, rel_tol=1e-6)


def test_what_fits_nowhere_is_refuted():
    found = relaxed(make_problem(many_kinds(64, 2_000), schedule="interleaved"))
    assert math.isinf(found.bound_ns)
    assert found.borders is None


def test_borders_are_rounded_together_and_leave_every_cell_its_layers():
    problem = make_problem(many_kinds(32, 90_000), schedule="interleaved")
    borders = np.linspace(0, 32, 17)
    borders[3:6] = borders[3]
    for counts in rounded_plans(problem, borders):
        assert counts.sum() == 32
        assert counts.sum(axis=1).min() >= 1
