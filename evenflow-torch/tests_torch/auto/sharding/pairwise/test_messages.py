"""Bounds, choices and what is dropped, against all choices."""

import math
import time

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from evenflow_torch.auto.sharding.pairwise import Pairwise, Solver
from evenflow_torch.auto.sharding.pairwise.integer_program import search
from evenflow_torch.auto.sharding.pairwise.messages import Messages
from tests_torch.auto.sharding.pairwise.programs import all_choices, programs

SOON = 60.0


@given(programs())
def test_the_bound_is_below_all_choices_and_the_choices_are_allowed(program: Pairwise) -> None:
    assume(program.has_choices)
    messages, allowed = Messages(program), all_choices(program)
    lower, met = messages.ascend(None, time.monotonic() + SOON)
    best = min((cost for cost, _ in allowed.values()), default=math.inf)
    assert lower <= best
    if met is not None:
        choices = messages.among_all(met)
        assert messages.cost_of(met) == allowed[choices][0]
        assert np.array_equal(messages.among_allowed(choices), met)


@given(programs(), st.floats(0, 1))
def test_the_rest_has_all_choices_within_the_slack_at_their_cost(program: Pairwise, share: float) -> None:
    assume(program.has_choices)
    messages, allowed = Messages(program), all_choices(program)
    lower, _met = messages.ascend(None, time.monotonic() + SOON)
    assume(messages.is_exact and allowed)
    costs = sorted({cost for cost, _ in allowed.values()})
    most = costs[int(share * (len(costs) - 1))]
    rest = messages.rest(most - lower)
    assert rest is not None
    left = {rest.expand(choices): both for choices, both in all_choices(rest.program).items()}
    assert left.items() <= allowed.items()
    assert all(choices in left for choices, (cost, _) in allowed.items() if cost <= most)


@given(programs(), st.integers(0, 2**32))
def test_other_costs_of_nodes_are_bounded_as_well(program: Pairwise, seed: int) -> None:
    assume(program.has_choices)
    random = np.random.default_rng(seed)
    messages = Messages(program)
    messages.ascend(None, time.monotonic() + SOON)
    assume(messages.is_exact)
    costs = [np.where(np.isfinite(old), random.integers(0, 20_000, len(old)), np.inf) for old in program.costs]
    changed = Pairwise(costs=costs, memory=program.memory, edges=program.edges)
    assert messages.change_costs(changed.costs)
    lower, met = messages.ascend(None, time.monotonic() + SOON)
    allowed = all_choices(changed)
    assert lower <= min((cost for cost, _ in allowed.values()), default=math.inf)
    if met is not None and messages.is_exact:
        assert messages.cost_of(met) == allowed[messages.among_all(met)][0]


def test_a_patient_ascent_goes_on_after_a_slow_round() -> None:
    random = np.random.default_rng(14)
    nodes, choices = 100, 8
    program = Pairwise()
    for _node in range(nodes):
        program.node(random.integers(0, 100, choices).astype(float), np.zeros(choices))
    chords = {tuple(sorted(random.choice(nodes, 2, replace=False).tolist())) for _chord in range(8)}
    for i, j in sorted({(i, i + 1) for i in range(nodes - 1)} | chords):
        program.edge(i, j, random.integers(0, 100, (choices, choices)).astype(float))
    assert _is_proven(program, patient=True)
    assert not _is_proven(program, patient=False)
    assert Solver(program).solve().cost == program.cost_of(
        search(program, memory_limit=None, time_limit_s=SOON).choices or ()
    )


def _is_proven(program: Pairwise, *, patient: bool) -> bool:
    messages = Messages(program)
    lower, met = messages.ascend(None, time.monotonic() + SOON, patient=patient)
    return met is not None and lower > messages.cost_of(met) - 1


def test_costs_that_allow_other_choices_are_not_taken() -> None:
    program = Pairwise(costs=[np.array([1.0, 2.0])], memory=[np.zeros(2)])
    messages = Messages(program)
    assert not messages.change_costs([np.array([1.0, np.inf])])
    assert messages.among_allowed((1,)) is not None
    assert Messages(Pairwise(costs=[np.array([1.0, np.inf])], memory=[np.zeros(2)])).among_allowed((1,)) is None


@given(programs())
def test_settled_costs_no_more_and_needs_no_more(program: Pairwise) -> None:
    for choices, (cost, memory) in list(all_choices(program).items())[:20]:
        after = Messages(program).settled(choices)
        assert program.cost_of(after) <= cost
        assert program.memory_of(after) <= memory
