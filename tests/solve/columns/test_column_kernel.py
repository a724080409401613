"""Combinations of cell contents against all of them, tried one by one."""

from collections.abc import Callable
from itertools import pairwise, product

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.simulate.kernels import held_beside, saved_beside
from evenflow.solve.columns.column_kernel import NEVER, combine, fill_least
from tests.thoroughness import examples

MANY = 10**6
NUM_LAYERS = 6


@st.composite
def ranks(draw: st.DrawFn) -> dict:
    """One to three cells of up to two spans of layers, each with up to three options; pairs may save time."""
    spans = draw(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=2), min_size=1, max_size=3))
    chunks = len(spans)
    starts = np.concatenate(([0], np.cumsum([sum(sizes) for sizes in spans])))
    of_spans = np.concatenate(spans)
    span_ends = np.repeat(np.cumsum(of_spans), of_spans)
    count = len(span_ends)

    def amounts(low: int, high: int, size: int = count) -> np.ndarray:
        return np.array(draw(st.lists(st.integers(low, high), min_size=size, max_size=size)))

    first = amounts(0, 2)
    waits = draw(st.booleans())
    rows = draw(st.integers(1, 2))
    width = chunks * (1 + waits)
    activations, work = amounts(0, 9), amounts(10, 40)
    first_layers, layers = (np.repeat(amounts(0, 3, len(of_spans)), of_spans) for _ in range(2))
    faster = np.full(count, -1)
    for begin, end in zip(span_ends - np.repeat(of_spans, of_spans), span_ends, strict=True):
        work[begin:end] = np.sort(work[begin:end])
        for option in range(begin + 1, end):  # a faster one comes before its slower one, and holds more
            fuller = [before for before in range(begin, option) if activations[before] > activations[option]]
            faster[option] = draw(st.sampled_from([-1, *fuller]))
    types = amounts(0, 1, NUM_LAYERS)
    saved_of = amounts(0, 2, 4).reshape(2, 2)
    most_saved = np.array(
        [sum(saved_of.max(axis=0)[types[at : at + size]]) for at, size in zip(first_layers, layers, strict=True)]
    )
    return {
        "work": work,
        "held": np.stack([activations, amounts(0, 5)][: 1 + waits]),
        "working": amounts(0, 9),
        "parameters": amounts(0, 5),
        "starts": first_layers,
        "layers": layers,
        "first_runs": first,
        "last_runs": first + amounts(0, 1),
        "faster": faster,
        "option_starts": starts,
        "span_ends": span_ends,
        "pairs": amounts(0, 2, chunks**2).reshape(chunks, chunks) * draw(st.booleans()),
        "types": types,
        "saved_of": saved_of,
        "most_saved": most_saved,
        "live": np.array([[draw(st.integers(0, 3)) for _ in range(width)] for _ in range(rows)]),
        "counts": layers[:, np.newaxis],
        "in_pairs": memory_in_pairs(draw, amounts, chunks, width),
        "room": draw(st.integers(0, 60)),
        "most_work": draw(st.integers(10, 100)),
        "fewest": draw(st.integers(0, 7)),
    }


def memory_in_pairs(draw: st.DrawFn, amounts: Callable, chunks: int, width: int) -> tuple:
    """What is live beside pairs, which hold all of both parts, or what layers that keep any amounts hold in turn."""
    rows = draw(st.integers(0, 2))
    live = np.array([[draw(st.integers(0, 2)) for _ in range(width)] for _ in range(rows)], dtype=np.int64)
    own = np.concatenate(([[0]], np.cumsum(amounts(0, 5, NUM_LAYERS)[np.newaxis], axis=1)), axis=1)
    mlp = np.minimum(amounts(0, 5, NUM_LAYERS)[np.newaxis], np.diff(own))
    is_whole = draw(st.booleans())
    return (
        live.reshape(rows, width), amounts(0, chunks - 1, 2 * rows).reshape(rows, 2).astype(np.int64),
        np.arange(chunks), own, mlp, own, mlp, np.zeros((2, chunks), dtype=np.int64), draw(st.booleans()), is_whole,
        False,
    )  # fmt: skip


def combined(rank: dict, *, columns: np.ndarray, most_columns: int = MANY, most_steps: int = MANY) -> int:
    """What the loop says, with the least that chunks need."""
    chunks = len(rank["option_starts"]) - 1
    least_work = np.zeros((chunks + 1, 10), dtype=np.int64)
    least_memory = np.zeros((chunks + 1, len(rank["live"]), 10), dtype=np.int64)
    in_pairs = np.repeat(rank["pairs"].sum(axis=0), np.diff(rank["option_starts"]))
    fill_least(
        rank["work"] - in_pairs * rank["most_saved"], rank["held"], rank["parameters"], rank["layers"],
        rank["option_starts"], rank["live"], least_work, least_memory,
    )  # fmt: skip
    return combine(
        *rank.values(), least_work=least_work, least_memory=least_memory, most_columns=most_columns,
        most_steps=most_steps, columns=columns,
    )  # fmt: skip


def fits(rank: dict, options: tuple[int, ...]) -> bool:
    static = sum(rank["parameters"][list(options)]) + max(rank["working"][list(options)])
    held = rank["held"][:, list(options)].reshape(-1)
    live, pair_chunks, cells, *tables, releases, is_whole, _is_most = rank["in_pairs"]
    needed = [static + int(row @ held) for row in rank["live"]]
    for row, (ahead, back) in zip(live, pair_chunks, strict=True):
        first, other = options[ahead], options[back]
        together = rank["held"][0][first] + rank["held"][0][other]
        if not is_whole:
            contents = [
                (cells[at], rank["starts"][one], rank["counts"][one]) for at, one in ((ahead, first), (back, other))
            ]
            together = held_beside(*tables, releases, *contents[0], *contents[1])
        needed.append(static + int(row @ held) + int(together))
    return max(needed) <= rank["room"]


def work_of(rank: dict, options: tuple[int, ...]) -> int:
    work = int(sum(rank["work"][list(options)]))
    spans = [(int(rank["starts"][option]), int(rank["layers"][option])) for option in options]
    for (forward, first), (backward, second) in product(enumerate(spans), repeat=2):
        saved = saved_beside(rank["types"], rank["saved_of"], *first, *second)
        work -= int(rank["pairs"][forward, backward]) * int(saved)
    return work


def expected(rank: dict) -> list[list[int]]:
    starts, chunks = rank["option_starts"], len(rank["option_starts"]) - 1
    kept = []
    for options in product(*(range(starts[chunk], starts[chunk + 1]) for chunk in range(chunks))):
        in_order = all(rank["last_runs"][before] <= rank["first_runs"][after] for before, after in pairwise(options))
        enough = sum(rank["layers"][list(options)]) >= rank["fewest"]
        if not in_order or not enough or work_of(rank, options) > rank["most_work"] or not fits(rank, options):
            continue
        swaps = [
            (*options[:chunk], rank["faster"][option], *options[chunk + 1 :])
            for chunk, option in enumerate(options)
            if rank["faster"][option] >= 0
        ]
        if not any(fits(rank, swapped) for swapped in swaps):
            kept.append(list(options))
    return kept


@given(rank=ranks(), capacity=st.integers(0, 70))
@settings(max_examples=examples(150))
def test_all_that_fit_and_are_no_slower_than_needed_are_kept(rank, capacity):
    columns = np.full((capacity, len(rank["option_starts"]) - 1), -1)
    found = combined(rank, columns=columns)
    every = expected(rank)
    kept = columns[:found].tolist()
    missing = [options for options in every if options not in kept]
    assert kept == [options for options in every if options in kept]
    assert found + len(missing) == len(every) or found > capacity
    if found > capacity:
        return
    for *others, option in missing:  # a faster one of the last cell fits, if not the next one
        chain = [option]
        while rank["faster"][chain[-1]] >= 0:
            chain.append(int(rank["faster"][chain[-1]]))
        assert any(fits(rank, (*others, faster)) for faster in chain[1:])


@given(rank=ranks(), most=st.integers(0, 70))
@settings(max_examples=examples(60))
def test_more_columns_than_are_wanted_end_it(rank, most):
    columns = np.full((70, len(rank["option_starts"]) - 1), -1)
    number = combined(rank, columns=columns)
    assert combined(rank, most_columns=most, columns=columns) == min(number, most + 1)


@given(rank=ranks())
@settings(max_examples=examples(20))
def test_too_many_steps_end_it(rank):
    columns = np.zeros((0, len(rank["option_starts"]) - 1), dtype=np.int64)
    assert combined(rank, most_steps=0, columns=columns) == -1


@given(rank=ranks())
@settings(max_examples=examples(60))
def test_nothing_needs_less_than_the_least(rank):
    starts, chunks = rank["option_starts"], len(rank["option_starts"]) - 1
    least_work = np.zeros((chunks + 1, 10), dtype=np.int64)
    least_memory = np.zeros((chunks + 1, len(rank["live"]), 10), dtype=np.int64)
    names = ("work", "held", "parameters", "layers", "option_starts", "live")
    fill_least(*(rank[name] for name in names), least_work, least_memory)
    every = list(product(*(range(starts[chunk], starts[chunk + 1]) for chunk in range(chunks))))
    layers = [int(sum(rank["layers"][list(options)])) for options in every]
    for number in range(10):
        own = [list(options) for options, held in zip(every, layers, strict=True) if held >= number]
        assert least_work[0, number] == min((sum(rank["work"][options]) for options in own), default=NEVER)
        for row, live in enumerate(rank["live"]):
            needs = [sum(rank["parameters"][at]) + live @ rank["held"][:, at].reshape(-1) for at in own]
            assert least_memory[0, row, number] == min(needs, default=NEVER)
