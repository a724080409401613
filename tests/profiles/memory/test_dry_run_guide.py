from collections.abc import Sequence
from itertools import combinations_with_replacement

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.export.mindformers import mindformers_lists
from evenflow.model import Plan
from evenflow.profiles.memory.dry_run_guide import FEWEST_RANKS, Guide, find_dry_runs, measured_ranks
from evenflow.profiles.memory.equations import coefficients
from tests.profiles.memory.every_round import every_round
from tests.thoroughness import examples

KINDS = ("full", "both", "select", "comm")
some_kinds = st.sets(st.sampled_from(KINDS))


@st.composite
def sizes(draw: st.DrawFn, most_ranks: int = 12) -> tuple[int, int]:
    """Ranks and layers that can be measured."""
    ranks = draw(st.integers(2, most_ranks))
    fewest = max(ranks, FEWEST_RANKS) + 1
    return ranks, draw(st.integers(fewest, fewest + 60))


def system(found: Guide) -> np.ndarray:
    """The equations of the peaks that are needed."""
    return np.array(
        [
            coefficients(plan, rank, found.unknowns)
            for index, plan in enumerate(found.rounds)
            for rank in measured_ranks(found.num_ranks, round_index=index)
        ]
    )


@settings(max_examples=examples(10), deadline=None)
@given(sizes(), some_kinds, st.randoms(use_true_random=False))
def test_the_peaks_determine_every_unknown(size, kinds, random):
    found = find_dry_runs(*size, kinds)
    matrix = system(found)
    assert set(found.unknowns) == {"constant", "parameter", "none", "head", "tail", *kinds}
    assert np.linalg.matrix_rank(matrix) == len(found.unknowns)
    truth = np.array([random.randrange(10_000) for _ in found.unknowns])
    solved = np.linalg.lstsq(matrix.astype(float), (matrix @ truth).astype(float))[0]
    assert solved == pytest.approx(truth, abs=1e-3)


@settings(max_examples=examples(10), deadline=None)
@given(sizes(), some_kinds)
def test_no_fewer_rounds_could_do_and_mindformers_can_express_each(size, kinds):
    ranks, layers = size
    found = find_dry_runs(ranks, layers, kinds)
    if ranks >= FEWEST_RANKS:
        assert found.num_ranks == ranks
    middle_unknowns = 3 + len(kinds)
    assert (len(found.rounds) - 1) * (found.num_ranks - 2) < middle_unknowns
    for plan in found.rounds:
        assert (plan.num_chunks, plan.num_ranks, plan.num_layers) == (1, found.num_ranks, layers)
        assert (plan.schedule, plan.num_microbatches) == ("1f1b", found.num_ranks)
        assert min(plan.layers[0]) >= 1
        assert set(plan.recompute) <= set(kinds)
        lists = mindformers_lists(plan)  # refuses select-only beside comm-only layers
        assert sum(lists["offset"][0]) == layers % found.num_ranks
        for name in ("recompute", "select_recompute", "select_comm_recompute"):
            assert all(0 <= count <= most for count, most in zip(lists[name][0], plan.layers[0], strict=True))


@settings(max_examples=4, deadline=None)
@given(sizes(), some_kinds)
def test_the_same_question_has_the_same_answer(size, kinds):
    assert find_dry_runs(*size, kinds) == find_dry_runs(*size, sorted(kinds, reverse=True))


def test_standard_errors_and_condition_number_are_those_of_the_equations():
    found = find_dry_runs(5, 23, ["full", "comm"])
    matrix = system(found)
    variances = np.diag(np.linalg.inv(matrix.T @ matrix))
    assert [found.standard_errors[name] for name in found.unknowns] == pytest.approx(np.sqrt(variances))
    assert found.condition_number == pytest.approx(np.linalg.cond(matrix / np.linalg.norm(matrix, axis=0)))


def guide_plan(offset: Sequence[int], each: int, **tables: Sequence[int]) -> Plan:
    return Plan(
        schedule="1f1b",
        num_microbatches=len(offset),
        layers=(tuple(each + extra for extra in offset),),
        recompute={kind: (tuple(table),) for kind, table in tables.items()},
    )


GUIDE_16 = guide_plan(
    [0, 0, -4, -2, 2, -2, -2, 10, -2, -2, -2, 0, 2, 2, 0, 0],
    6,
    both=[0, 5, 0, 1, 1, 3, 2, 2, 1, 3, 2, 6, 1, 5, 5, 1],
    select=[5, 0, 2, 0, 3, 0, 0, 12, 3, 1, 2, 0, 0, 0, 0, 5],
    comm=[0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0],
)
GUIDE_4 = (
    guide_plan([0, 1, -1, 0], 20, full=[1, 2, 1, 1]),
    guide_plan([0, -1, 1, 0], 20, full=[1, 3, 4, 1]),
)


@pytest.mark.parametrize(
    ("size", "kinds", "document"),
    [((16, 96), ("select", "comm", "both"), (GUIDE_16,)), ((4, 80), ("full",), GUIDE_4)],
)
def test_better_than_the_configurations_of_the_guide(size, kinds, document):
    found = find_dry_runs(*size, kinds)
    theirs = Guide(rounds=document, unknowns=found.unknowns, condition_number=0.0, standard_errors={})
    assert len(found.rounds) == len(document)
    matrix = system(theirs)
    assert found.condition_number < np.linalg.cond(matrix / np.linalg.norm(matrix, axis=0))
    variances = np.diag(np.linalg.inv(matrix.T @ matrix))
    for name, variance in zip(found.unknowns[:-2], variances, strict=False):
        assert found.standard_errors[name] < np.sqrt(variance)


@pytest.mark.parametrize(("ranks", "layers", "kinds"), [(4, 5, ()), (4, 6, ()), (4, 5, ("full",)), (5, 6, ("comm",))])
def test_as_few_rounds_as_exhaustive_search_finds(ranks, layers, kinds):
    rounds = every_round(ranks, layers, 1 + len(kinds))
    needed = 3 + len(kinds)
    fewest = next(
        count
        for count in range(1, 4)
        if any(
            np.linalg.matrix_rank(np.concatenate(chosen)) == needed
            for chosen in combinations_with_replacement(rounds, count)
        )
    )
    assert len(find_dry_runs(ranks, layers, kinds).rounds) == fewest


@pytest.mark.parametrize(
    ("ranks", "layers", "kinds", "says"),
    [
        (1, 8, (), "ranks must be from 2 to"),
        (0, 8, (), "ranks must be from 2 to"),
        (10**6, 10**6 + 1, (), "ranks must be from 2 to"),
        (4, 10**9, (), "layers must be at most"),
        (4, 3, (), "must be at least one for each of the 4 ranks, got 3; dry-run the model with more layers"),
        (8, 8, (), "cannot be told from the constant that every rank has, got 8"),
        (2, 2, (), "5 or more"),
        (3, 4, (), "must be at least 5, because dry runs need 4 ranks or more to determine the memory, got 4"),
        (8, 16, ("full", "some"), "recompute kinds must be some of full, both, select, comm, got 'some'"),
        (8, 16, ("none",), "got 'none'"),
    ],
)
def test_what_cannot_be_measured_is_refused_with_the_reason(ranks, layers, kinds, says):
    with pytest.raises(InputError) as caught:
        find_dry_runs(ranks, layers, kinds)
    assert says in str(caught.value)


def test_three_ranks_cannot_do_whatever_the_rounds_so_dry_runs_have_more():
    rounds = every_round(3, 9, 2)
    assert np.linalg.matrix_rank(np.concatenate(rounds)) < 4
    assert find_dry_runs(3, 9, ["full"]).num_ranks == find_dry_runs(2, 9, ["full"]).num_ranks == 6
