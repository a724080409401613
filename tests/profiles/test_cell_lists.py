"""Cumulative lists of MindFormers, against a layer-by-layer reading and against their inverse."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.export.mindformers import mindformers_lists
from evenflow.model import Plan
from evenflow.profiles.cell_lists import RECOMPUTE_LISTS, check_counts, exclusive_counts, layers_by_cell

counts = st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 5))


@given(counts)
def test_the_first_layers_of_a_cell_are_under_a_kind(cell):
    """Layer i of a cell recomputes fully for i < full, else its attention for i < select, and so for comm."""
    full, select, comm = cell
    kinds = ["full" if i < full else "select" * (i < select) + "comm" * (i < comm) for i in range(5)]
    expected = {kind: kinds.count(kind.replace("both", "selectcomm")) for kind in ("full", "both", "select", "comm")}
    exclusive = exclusive_counts([[full]], [[select]], [[comm]])
    assert exclusive == {kind: ((count,),) for kind, count in expected.items() if count}


@given(st.lists(counts, min_size=1, max_size=4), st.integers(0, 9))
def test_offsets_and_lists_are_the_inverse_of_what_is_written_for_mindformers(cells, num_more):
    layers = ((*(max(cell) + 1 for cell in cells[:-1]), max(cells[-1]) + 1 + num_more),)
    recompute = exclusive_counts(*([list(column)] for column in zip(*cells, strict=True)))
    plan = Plan(schedule="1f1b", num_microbatches=len(cells), layers=layers, recompute=recompute)
    written = mindformers_lists(plan)
    offset = layers_by_cell(written["offset"], num_layers=sum(layers[0]), place="offset", cell="{}, {}".format)
    assert offset == layers
    assert exclusive_counts(*(written[key] for key in RECOMPUTE_LISTS)) == recompute


@pytest.mark.parametrize(
    ("check", "message"),
    [
        (
            lambda: layers_by_cell([[1, 1]], num_layers=5, place="offset", cell=lambda _, rank: f"rank {rank}"),
            "offset must sum to 1, because 5 layers on 2 ranks x 1 chunks are 2 in each cell and 1 over, got 2",
        ),
        (
            lambda: layers_by_cell([[4, -3]], num_layers=5, place="offset", cell=lambda _, rank: f"rank {rank}"),
            "offset, rank 1 must be -2 or more, because the cell has 2 layers before its offset is added, got -3",
        ),
        (
            lambda: check_counts([[0], [3]], ((1,), (2,)), place="recompute", cell=lambda chunk, _: f"chunk {chunk}"),
            "recompute, chunk 1 must be from 0 to the 2 layers of its cell, got 3",
        ),
    ],
)
def test_messages(check, message):
    with pytest.raises(InputError) as caught:
        check()
    assert str(caught.value) == message
