"""What equal stages idle under the order of a plan, by formula and simulated, on the costs of a real plan."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.language import CHINESE, ENGLISH, speaking
from evenflow.model import Plan
from evenflow.schedule import FAMILIES, format_schedule
from evenflow.simulate import simulate
from tests.networks import plain_network


@given(st.sampled_from(list(FAMILIES)), st.integers(1, 4), st.integers(1, 3), st.integers(1, 9), st.integers(1, 2))
def test_the_formula_is_exact_where_there_is_one(family, ranks, chunks, microbatches, splits):
    chunks = FAMILIES[family].num_chunks or chunks
    plan = Plan(
        schedule=family,
        num_microbatches=microbatches,
        layers=((2,) * ranks,) * chunks,
        recompute={"full": ((1,) + (0,) * (ranks - 1),) * chunks},
        sequence_splits=1 if family == "interleaved-remainder-last" else splits,
    )
    network = plain_network(2 * ranks * chunks)
    try:
        idle = simulate(network, replace(plan, recompute={}) if plan.sequence_splits > 1 else plan).fill_drain
    except InputError:
        return  # sizes that the family does not have
    assert idle.words
    if idle.by_formula is not None:
        assert idle.by_formula == pytest.approx(idle.simulated, rel=1e-9, abs=1e-12)


def test_an_order_of_its_own_has_no_formula():
    plan = Plan(schedule="1f1b", num_microbatches=3, layers=((2, 2),))
    schedule = simulate(plain_network(4), plan).timeline.schedule
    own = replace(plan, schedule="search", order=tuple(format_schedule(schedule).splitlines()))
    idle = simulate(plain_network(4), own).fill_drain
    assert (idle.by_formula, idle.words) == (None, "the order is the plan's own")
    assert idle.simulated == pytest.approx(simulate(plain_network(4), plan).fill_drain.simulated)


def test_the_words_are_in_the_language_that_is_spoken_when_they_are_read():
    plan = Plan(schedule="1f1b-v", num_microbatches=3, layers=((1, 1), (1, 1)))
    simulation = simulate(plain_network(4), plan)
    with speaking(ENGLISH):
        english = simulation.fill_drain.words
    with speaking(CHINESE):
        chinese = simulation.fill_drain.words
    assert english.isascii()
    assert not chinese.isascii()
