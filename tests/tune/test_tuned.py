"""What is said of a ranking, and what is proven of it."""

from dataclasses import replace

import pytest

from evenflow.model import Abilities, Empty
from evenflow.tune.axes import Axis
from tests.tune.rankings import ranking


def test_the_summary_has_the_first_rows_and_the_proof():
    assert ranking().summary() == (
        "1. tensor 2, pipeline 4, data 1, microbatch 1, 1f1b, recompute none: 400.0 ms\n"
        "2. tensor 2, pipeline 2 x 2, data 2, microbatch 1, interleaved, recompute full 2 of 8: 404.0 ms\n"
        "3. tensor 1, pipeline 1, context 2, data 4, microbatch 1, 1f1b, recompute full: 500.0 ms\n"
        "no configuration of this space is faster than 396.0 ms in this model (proven): at most 1.00 % of the first "
        "could be saved"
    )


def test_the_first_may_be_proven_the_fastest():
    assert ranking(lower_bound_ns=400e6).certificate() == (
        "no configuration of this space is faster than the first in this model (proven to 2 parts in a million): "
        "400.0 ms"
    )


def test_what_is_left_out_is_named():
    tuned = ranking(lower_bound_ns=400e6)
    tuned = replace(tuned, question=replace(tuned.question, allow_empty=False))
    assert tuned.certificate() == (
        "no configuration of this space with a layer in every cell is faster than the first in this model (proven to 2 "
        "parts in a million): 400.0 ms"
    )


@pytest.mark.parametrize(
    "changes",
    [
        {"allow_empty": True},
        {"abilities": Abilities(schedules=("1f1b",), recomputation=(), empty=Empty.NONE)},
        {"fixed": {Axis.PIPELINE: 1}},
    ],
)
def test_where_no_plan_with_empty_cells_is_left_out_nothing_is_said_of_them(changes):
    tuned = ranking()
    tuned = replace(tuned, question=replace(tuned.question, **({"allow_empty": False} | changes)))
    assert tuned.certificate().startswith("no configuration of this space is faster than 396.0 ms")


def test_counts():
    tuned = ranking()
    assert (tuned.num_legal, tuned.num_solved, tuned.num_refuted) == (4, 3, 1)
    assert tuned.gap == 1 - 396 / 400


def test_without_a_ranking_the_summary_says_why():
    assert ranking(ranked=(), lower_bound_ns=float("inf")).summary() == "no configuration fits"
    assert ranking(ranked=(), made=(), lower_bound_ns=float("inf")).summary() == "no configuration is legal"
    assert ranking(ranked=(), lower_bound_ns=1e6).summary() == "no configuration was found in the time given"
