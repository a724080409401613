"""Combinations of cell contents against all of them, tried one by one; plain Python, not compiled."""

from itertools import pairwise, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.solve.columns.column_kernel import combine
from tests.thoroughness import examples

MANY = 10**6


@st.composite
def ranks(draw: st.DrawFn) -> dict[str, object]:
    """One to three cells of up to four options each."""
    sizes = draw(st.lists(st.integers(1, 4), min_size=1, max_size=3))
    starts = np.concatenate(([0], np.cumsum(sizes)))
    count = int(starts[-1])

    def amounts(low: int, high: int) -> np.ndarray:
        return np.array(draw(st.lists(st.integers(low, high), min_size=count, max_size=count)))

    first = amounts(0, 2)
    waits = draw(st.booleans())
    rows = draw(st.integers(1, 2))
    width = len(sizes) * (1 + waits)
    activations = amounts(0, 9)
    # A faster option comes before its slower one in the same cell, and holds more.
    faster = np.full(count, -1)
    for begin, end in pairwise(starts):
        for option in range(begin + 1, end):
            if activations[option - 1] > activations[option] and draw(st.booleans()):
                faster[option] = option - 1
    return {
        "loads": amounts(1, 9),
        "held": np.stack([activations, amounts(0, 5)][: 1 + waits]),
        "working": amounts(0, 9),
        "parameters": amounts(0, 5),
        "first_runs": first,
        "last_runs": first + amounts(0, 1),
        "faster": faster,
        "option_starts": starts,
        "live": np.array([[draw(st.integers(0, 3)) for _ in range(width)] for _ in range(rows)]),
        "num_least": draw(st.integers(1, rows)),
        "room": draw(st.integers(0, 60)),
        "max_load": draw(st.integers(1, 27)),
    }


def expected(rank: dict) -> list[list[int]]:
    starts, chunks = rank["option_starts"], len(rank["option_starts"]) - 1

    def fits(options: tuple[int, ...], num_rows: int) -> bool:
        static = sum(rank["parameters"][list(options)]) + max(rank["working"][list(options)])
        held = rank["held"][:, list(options)].reshape(-1)
        return all(static + sum(n * each for n, each in zip(row, held, strict=True)) <= rank["room"]
                   for row in rank["live"][:num_rows])  # fmt: skip

    kept = []
    for options in product(*(range(starts[chunk], starts[chunk + 1]) for chunk in range(chunks))):
        in_order = all(rank["last_runs"][before] <= rank["first_runs"][after] for before, after in pairwise(options))
        if not in_order or sum(rank["loads"][list(options)]) > rank["max_load"] or not fits(options, rank["num_least"]):
            continue
        swaps = [
            (*options[:chunk], rank["faster"][option], *options[chunk + 1 :])
            for chunk, option in enumerate(options)
            if rank["faster"][option] >= 0
        ]
        if not any(fits(swapped, len(rank["live"])) for swapped in swaps):
            kept.append(list(options))
    return kept


@given(rank=ranks(), capacity=st.integers(0, 70))
@settings(max_examples=examples(150))
def test_all_that_fit_and_are_no_slower_than_needed_are_kept(rank, capacity):
    columns = np.full((capacity, len(rank["option_starts"]) - 1), -1)
    found = combine(**rank, most_columns=MANY, most_steps=MANY, columns=columns)
    every = expected(rank)
    assert found == len(every)
    assert columns[:found].tolist() == every[:capacity]


@given(rank=ranks(), most=st.integers(0, 70))
@settings(max_examples=examples(60))
def test_more_columns_than_are_wanted_end_it(rank, most):
    columns = np.full((70, len(rank["option_starts"]) - 1), -1)
    number = len(expected(rank))
    assert combine(**rank, most_columns=most, most_steps=MANY, columns=columns) == (number if number <= most else -1)


@given(rank=ranks())
@settings(max_examples=examples(20))
def test_too_many_steps_end_it(rank):
    columns = np.zeros((0, len(rank["option_starts"]) - 1))
    assert combine(**rank, most_columns=MANY, most_steps=0, columns=columns) == -1
