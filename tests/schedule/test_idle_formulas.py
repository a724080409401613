"""Idle time by formula against the simulator, for every size up to 8 ranks, 24 microbatches and 4 chunks."""

import random
import re
from functools import cache
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import Sizes
from evenflow.schedule import FAMILIES, different_group_sizes, make_schedule
from evenflow.schedule.idle_formulas import idle_by_formula
from evenflow.simulate import Graph, build_graph, run
from tests.paths import ROOT
from tests.schedule.test_bubble_formulas import COVERAGE as COVERAGE_BY_PLACE

ALGORITHMS = ROOT / "docs" / "algorithms.md"
TIMES = ((1, 2, 1), (2, 4, 2), (3, 5, 1), (5, 4, 3), (2, 9, 7), (7, 3, 1), (1, 50, 25), (50, 2, 1))
"""Forward, backward, and the part of it for the weights."""
EQUAL_TIMES = TIMES[0]

COVERAGE = {
    "naive": (100, 100), "f-then-b": (100, 100), "1f1b": (100, 100), "eager-1f1b": (100, 100),
    "interleaved": (100, 100), "interleaved-less-memory": (100, 100), "interleaved-remainder-last": (59, 59),
    "zb-h1": (100, 89), "zb-h2": (100, 78), "zbv": (100, 69), "v-half": (100, 25), "v-min": (98, 24),
    "dualpipe-v": (100, 75),
}  # fmt: skip
"""Percent of the sizes that have a formula for f = i = w, and of sizes with the times above. [docs/algorithms.md]"""


@cache
def graph_of(family: str, sizes: Sizes, group_size: int | None) -> Graph:
    splits = {"sequence_splits": sizes.sequence_splits} if FAMILIES[family].can_split else {}
    return build_graph(
        make_schedule(
            family,
            num_ranks=sizes.num_ranks,
            num_chunks=sizes.num_chunks,
            num_microbatches=sizes.num_microbatches,
            group_size=group_size,
            **splits,
        )
    )


def has_formula(family: str, sizes: Sizes, times: tuple[int, int, int], group_size: int | None = None) -> bool:
    """Whether there is a formula, which must then give the idle time of every rank."""
    forward, backward, weight = times
    formula = idle_by_formula(
        family, sizes, forward_ns=forward, backward_ns=backward, weight_ns=weight, group_size=group_size
    )
    assert formula.words
    if formula.idle_ns is None:
        return False
    graph = graph_of(family, sizes, group_size)
    durations = np.tile(np.array([forward, backward, backward - weight, weight], dtype=np.int64), sizes.num_cells)
    timeline = run(graph, durations)
    idle = set((timeline.makespan_ns - timeline.busy_ns).tolist())
    assert idle == {formula.idle_ns}, (family, sizes, times, group_size, formula.words)
    return True


def sizes_of(family: str) -> list[Sizes]:
    """Every size that the family has."""
    fixed = FAMILIES[family].num_chunks
    every = (
        Sizes(num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches)
        for ranks in range(1, 9)
        for chunks in ((fixed,) if fixed else range(FAMILIES[family].fewest_chunks, 5))
        for microbatches in range(1, 25)
    )
    return [sizes for sizes in every if exists(family, sizes)]


def exists(family: str, sizes: Sizes) -> bool:
    try:
        graph_of(family, sizes, None)
    except InputError:
        return False
    return True


@pytest.mark.parametrize("family", COVERAGE)
def test_every_formula_is_exact_and_so_many_sizes_have_one(family: str):
    sizes = sizes_of(family)
    equal = sum(has_formula(family, each, EQUAL_TIMES) for each in sizes)
    of_any = sum(has_formula(family, each, times) for each in sizes for times in TIMES)
    percent = (100 * equal // len(sizes), 100 * of_any // (len(sizes) * len(TIMES)))
    assert percent == COVERAGE[family]
    graph_of.cache_clear()


@pytest.mark.parametrize("family", ["v-half", "v-min", "zbv", "dualpipe-v", "zb-h2"])
def test_many_ranks(family: str):
    chunks = FAMILIES[family].num_chunks
    for ranks, microbatches in product((9, 12, 15, 20, 21, 32), (1, 4, 9, 15, 16, 32, 65)):
        sizes = Sizes(num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches)
        known = has_formula(family, sizes, EQUAL_TIMES)
        assert known or (family in ("v-half", "v-min") and microbatches < ranks)
    graph_of.cache_clear()


@pytest.mark.parametrize("family", ["interleaved", "interleaved-less-memory"])
def test_every_group_that_fills_the_pipeline_has_the_same_formula(family: str):
    for ranks, chunks, microbatches in product(range(2, 7), (2, 4), range(1, 17)):
        sizes = Sizes(num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches)
        for group in different_group_sizes(family, sizes):
            assert has_formula(family, sizes, (3, 5, 2), group) == (group is None or group >= ranks)
    graph_of.cache_clear()


@given(
    st.sampled_from(list(FAMILIES)), st.integers(1, 8), st.integers(1, 4), st.integers(1, 24), st.integers(1, 3),
    st.integers(1, 100), st.integers(1, 100), st.integers(1, 100),
)  # fmt: skip
def test_any_sizes_and_times(family, ranks, chunks, microbatches, splits, forward, gradient, weight):
    sizes = Sizes(
        num_ranks=ranks,
        num_chunks=FAMILIES[family].num_chunks or chunks,
        num_microbatches=microbatches,
        sequence_splits=splits if FAMILIES[family].can_split else 1,
    )
    if exists(family, sizes):
        has_formula(family, sizes, (forward, gradient + weight, weight))


def test_the_formula_of_zb_v_is_not_used_where_it_fails():
    """For f > i > w a rank may wait for every microbatch."""
    generator = random.Random(1)
    for _ in range(100):
        weight, gradient, forward = sorted(generator.sample(range(1, 30), 3))
        sizes = Sizes(num_ranks=4, num_chunks=2, num_microbatches=12)
        assert not has_formula("zbv", sizes, (forward, gradient + weight, weight))


def test_an_order_of_no_family_has_none():
    sizes = Sizes(num_ranks=2, num_microbatches=2)
    formula = idle_by_formula("mine", sizes, forward_ns=1, backward_ns=2)
    assert (formula.idle_ns, formula.words) == (None, "none is known for mine")


def test_the_documentation_says_how_many():
    row = r"^\| `([a-z0-9-]+)` \|.*\| (\d+) % \| (\d+) % \| (\d+) % \|$"
    rows = re.findall(row, ALGORITHMS.read_text(), re.MULTILINE)
    said = {family: ((int(equal), int(any_one)), int(by_place)) for family, equal, any_one, by_place in rows}
    assert said == {family: (COVERAGE[family], COVERAGE_BY_PLACE[family]) for family in COVERAGE}
