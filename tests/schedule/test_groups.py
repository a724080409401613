"""Group sizes of interleaved schedules, against the table of Megatron-LM written again by its rule."""

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.baselines.equal_stages import equal_stages, peak_live
from evenflow.errors import InputError, ScheduleError
from evenflow.model import Sizes
from evenflow.schedule import Action, Op, Schedule, check_complete, make_schedule
from evenflow.schedule.groups import (
    different_group_sizes,
    fewest_in_group,
    first_group_size,
    group_sizes,
    usual_group_size,
)
from evenflow.schedule.orders import chunk_orders, merge
from evenflow.simulate import build_graph

WARMED = {"interleaved": 2, "interleaved-less-memory": 1, "interleaved-remainder-last": 2}
SIZES = [
    Sizes(num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches, sequence_splits=splits)
    for ranks, chunks, microbatches, splits in product(range(1, 7), (2, 3), range(1, 15), (1, 2))
]


def order_of(name: str, sizes: Sizes, group: int | None) -> Schedule:
    splits = {} if name == "interleaved-remainder-last" else {"sequence_splits": sizes.sequence_splits}
    return make_schedule(
        name,
        num_ranks=sizes.num_ranks,
        num_chunks=sizes.num_chunks,
        num_microbatches=sizes.num_microbatches,
        group_size=group,
        **splits,
    )


def megatron_orders(sizes: Sizes, group: int) -> list[list[str]]:
    """The order of every rank by the rules of Megatron-LM's `get_schedule_table` and `get_pp_rank_microbatches`."""
    ranks, chunks, count = sizes.num_ranks, sizes.num_chunks, sizes.num_microbatches
    table = [
        (microbatch, chunk)
        for first in range(0, count, group)
        for chunk in range(chunks)
        for microbatch in range(first, min(first + group, count))
    ]
    orders = []
    for rank in range(ranks):
        forwards = [Action(chunk * ranks + rank, Op.F, microbatch) for microbatch, chunk in table]
        backwards = [Action((chunks - 1 - chunk) * ranks + rank, Op.B, microbatch) for microbatch, chunk in table]
        warmup = min(len(table), 2 * (ranks - rank - 1) + (chunks - 1) * group)
        order = forwards[:warmup]
        for index in range(len(table) - warmup):
            order += [forwards[warmup + index], backwards[index]]
        orders.append([str(action) for action in order + backwards[len(table) - warmup :]])
    return orders


@pytest.mark.parametrize("name", ["interleaved", "interleaved-remainder-last"])
def test_every_group_size_that_megatron_takes_gives_its_order(name: str):
    compared = 0
    for sizes in SIZES:
        if sizes.sequence_splits > 1 or sizes.num_ranks == 1:  # Megatron has no pipeline of one rank
            continue
        for group in range(sizes.num_ranks, sizes.num_microbatches + 1):
            if 0 < sizes.num_microbatches % group < sizes.num_ranks:
                continue
            order = order_of(name, sizes, group)
            ours = [[str(action) for action in order.order(rank)] for rank in range(sizes.num_ranks)]
            assert ours == megatron_orders(sizes, group)
            compared += 1
    assert compared > 200


@pytest.mark.parametrize("name", ["interleaved", "interleaved-less-memory"])
def test_every_group_size_finishes_and_full_groups_wait_for_fill_and_drain_alone(name: str):
    for sizes in SIZES:
        for group in range(fewest_in_group(name, sizes), sizes.num_microbatches + 1):
            order = order_of(name, sizes, group)
            check_complete(order)
            simulation = equal_stages(order, forward_ns=3, backward_ns=5)  # refuses an order that gets stuck
            if group >= usual_group_size(sizes) and sizes.sequence_splits == 1:
                least_ns = (sizes.num_ranks - 1 + sizes.num_chunks * sizes.num_microbatches) * (3 + 5)
                assert simulation.makespan_ns == least_ns
                first = group_sizes(num_microbatches=sizes.num_microbatches, group=group, fill=sizes.num_ranks)[0]
                held = (sizes.num_chunks - 1) * first + WARMED[name] * (sizes.num_ranks - 1) + 1
                most = sizes.num_chunks * sizes.num_microbatches
                assert peak_live(simulation)[0] * sizes.num_chunks == min(most, held)


@pytest.mark.parametrize("ranks", range(4, 9))
def test_with_smaller_groups_some_numbers_of_microbatches_never_finish(ranks: int):
    """The least size of the less-memory order is the least that always finishes."""
    sizes = Sizes(num_ranks=ranks, num_chunks=3, num_microbatches=4 * ranks)
    group = fewest_in_group("interleaved-less-memory", sizes) - 1

    def finishes(count: int) -> bool:
        groups = group_sizes(num_microbatches=count, group=group, fill=ranks)
        forwards, backwards = chunk_orders(groups=groups, num_chunks=3, sequence_splits=1)
        warmups = [2 * groups[0] + ranks - rank - 1 for rank in range(ranks)]
        codes = merge(forwards, backwards, warmups=warmups)
        try:
            build_graph(Schedule.from_table(name="x", num_stages=3 * ranks, num_microbatches=count, codes=codes))
        except ScheduleError:
            return False
        return True

    assert not all(finishes(count) for count in range(group, 4 * ranks + 1))


@pytest.mark.parametrize("name", WARMED)
def test_the_different_sizes_are_all_orders_once(name: str):
    for sizes in SIZES:
        if sizes.sequence_splits > 1 and name == "interleaved-remainder-last":
            continue

        def order(group: int | None, sizes: Sizes = sizes) -> Schedule | None:
            try:
                return order_of(name, sizes, group)
            except InputError:
                return None

        different = different_group_sizes(name, sizes)
        orders = {group: order(group) for group in different}
        assert None not in [orders[group] for group in different[1:]]
        known = [each for each in orders.values() if each is not None]
        assert not any(one.same_order(other) for one, other in product(known, known) if one is not other)
        for group in range(1, sizes.num_microbatches + 1):
            each = order(group)
            assert each is None or any(each.same_order(other) for other in known)


def test_the_usual_size_is_not_told_apart():
    usual = make_schedule("interleaved", num_ranks=4, num_chunks=2, num_microbatches=9)
    assert make_schedule("interleaved", num_ranks=4, num_chunks=2, num_microbatches=9, group_size=4) == usual
    assert usual.group_size is None


@given(st.integers(1, 30), st.integers(1, 12), st.integers(1, 8))
def test_groups_hold_every_microbatch_and_the_first_is_the_largest(count: int, group: int, fill: int):
    groups = group_sizes(num_microbatches=count, group=group, fill=min(group, fill))
    assert sum(groups) == count
    assert groups[0] == max(groups)


@pytest.mark.parametrize(
    ("name", "sizes", "group", "message"),
    [
        ("1f1b", (4, 1, 8), 4, r"group size must not be given for 1f1b, which has no groups .*got 4"),
        ("interleaved", (4, 1, 8), 4, r"must not be given for one chunk per rank"),
        ("interleaved", (4, 2, 3), 3, r"must not be given for 3 microbatches, which are one group at most, got 3"),
        ("interleaved", (4, 2, 8), 3, r"must be from 4 to the number of microbatches \(8\) for interleaved, got 3"),
        ("interleaved", (4, 2, 8), 9, r"must be from 4 to the number of microbatches \(8\) for interleaved, got 9"),
        ("interleaved-less-memory", (4, 2, 8), 1, r"must be from 2 to .* got 1; .* wait for each other in a circle"),
        ("interleaved-remainder-last", (4, 2, 11), 5, r"must leave no last group of fewer .* leaves 1, got 5"),
    ],
)
def test_refused(name: str, sizes: tuple[int, int, int], group: int, message: str):
    ranks, chunks, microbatches = sizes
    with pytest.raises(InputError, match=message):
        make_schedule(name, num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches, group_size=group)


@given(st.integers(1, 60), st.integers(1, 20), st.integers(1, 8))
def test_the_first_group_is_known_without_the_others(count: int, group: int, fill: int):
    sizes = {"num_microbatches": count, "group": group, "fill": min(group, fill)}
    assert first_group_size(**sizes) == group_sizes(**sizes)[0]


def test_different_sizes_of_many_microbatches_are_found_at_once():
    sizes = Sizes(num_ranks=4, num_chunks=2, num_microbatches=200_003)
    different = different_group_sizes("interleaved", sizes)
    assert different[0] is None
    assert len(different) > 100_000
