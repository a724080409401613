"""Closed forms that others published, against the simulator."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.schedule import Schedule, f_then_b, interleaved, one_f_one_b, zb_h1
from evenflow.schedule.groups import group_sizes
from evenflow.schedule.orders import chunk_orders, merge
from tests.oracle import equal_stages

times = st.integers(1, 1000)


@given(st.integers(1, 12), st.integers(1, 40), st.integers(1, 4), times, times)
def test_bubble_of_gpipe(ranks: int, microbatches: int, splits: int, forward_ns: int, backward_ns: int):
    """(K - 1) / (K + M - 1) of the step is idle. [GPipe, arXiv:1811.06965, §2.3]"""
    schedule = f_then_b(num_ranks=ranks, num_microbatches=microbatches, sequence_splits=splits)
    timeline = equal_stages(schedule, forward_ns, backward_ns)
    for busy_ns in timeline.busy_ns:
        idle = Fraction(timeline.makespan_ns - int(busy_ns), timeline.makespan_ns)
        assert idle == Fraction(ranks - 1, ranks + microbatches * splits - 1)


@given(st.integers(1, 12), st.integers(1, 40), times, times)
def test_makespan_of_1f1b(ranks: int, microbatches: int, forward_ns: int, backward_ns: int):
    timeline = equal_stages(one_f_one_b(num_ranks=ranks, num_microbatches=microbatches), forward_ns, backward_ns)
    assert timeline.makespan_ns == (microbatches + ranks - 1) * (forward_ns + backward_ns)


@given(st.integers(1, 12), st.integers(0, 30), times)
def test_idle_time_of_zb_h1(ranks: int, more: int, unit_ns: int):
    """(ranks - 1) (F + I - W) where F = I = W and microbatches >= ranks. [ZeroBubble, arXiv:2401.10241, table 2]"""
    schedule = zb_h1(num_ranks=ranks, num_microbatches=ranks + more)
    timeline = equal_stages(schedule, unit_ns, 2 * unit_ns, unit_ns)
    assert (timeline.makespan_ns - timeline.busy_ns).tolist() == [(ranks - 1) * unit_ns] * ranks


@given(st.integers(1, 10), st.integers(1, 4), st.integers(0, 30), st.integers(1, 4), st.booleans(), times, times)
def test_idle_time_of_interleaved(
    ranks: int, chunks: int, more: int, splits: int, less_memory: bool, forward_ns: int, backward_ns: int
):
    """(ranks - 1) (F + B) / chunks for a rank's F and B, remainders included. [Megatron-LM, arXiv:2104.04473, §2.2]"""
    schedule = interleaved(
        num_ranks=ranks,
        num_chunks=chunks,
        num_microbatches=ranks + more,
        sequence_splits=splits,
        less_memory=less_memory,
    )
    timeline = equal_stages(schedule, forward_ns, backward_ns)
    assert (timeline.makespan_ns - timeline.busy_ns).tolist() == [(ranks - 1) * (forward_ns + backward_ns)] * ranks


@pytest.mark.parametrize(("microbatches", "percent"), [(9, 14.3), (5, 23.1)])
def test_bubble_shares_of_document_004(microbatches: int, percent: float):
    schedule = interleaved(num_ranks=4, num_chunks=2, num_microbatches=microbatches)
    timeline = equal_stages(schedule, 7, 14)
    share = 1 - int(timeline.busy_ns[0]) / timeline.makespan_ns
    assert round(100 * share, 1) == percent


@given(st.integers(2, 6), st.integers(2, 3), st.integers(1, 10), st.data())
def test_the_short_warm_up_is_the_shortest(ranks: int, chunks: int, more: int, data: st.DataObject):
    """One forward less before a rank's first backward, and equal stages take longer."""
    microbatches = ranks + more
    shorter = data.draw(st.integers(0, ranks - 2))
    groups = group_sizes(num_microbatches=microbatches, group=ranks, fill=ranks)
    forwards, backwards = chunk_orders(groups=groups, num_chunks=chunks, sequence_splits=1)
    warmups = [(chunks - 1) * groups[0] + ranks - rank - 1 - (rank == shorter) for rank in range(ranks)]
    orders = merge(forwards, backwards, warmups=warmups)
    schedule = Schedule.from_table(
        name="shorter", num_stages=ranks * chunks, num_microbatches=microbatches, codes=orders
    )
    assert equal_stages(schedule, 1, 2).makespan_ns > (chunks * microbatches + ranks - 1) * 3
