"""Exchanges bucket by bucket: the closed form against one exchange after the other."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.predict.step.data_parallel import Buckets, last_reduced_ns, longest_wait_ns


@st.composite
def passes(draw: st.DrawFn) -> list[Buckets]:
    """Passes one after the other, with pauses between them, and their exchanges."""
    found, now = [], 0.0
    for _pass in range(draw(st.integers(0, 5))):
        begin = now + draw(st.integers(0, 50))
        now = begin + draw(st.integers(0, 100))
        found.append(Buckets(begin, now, draw(st.integers(1, 12)), draw(st.integers(0, 40))))
    return found


@given(passes())
def test_reductions_one_by_one(every: list[Buckets]) -> None:
    end = 0.0
    for buckets in every:
        for index in range(buckets.count):
            ready = buckets.begin_ns + (index + 1) * (buckets.end_ns - buckets.begin_ns) / buckets.count
            end = max(end, ready) + buckets.each_ns
    assert last_reduced_ns(every) == pytest.approx(end)


@given(passes())
def test_gathers_one_by_one(every: list[Buckets]) -> None:
    done = wait = 0.0
    for buckets in every:
        for index in range(buckets.count):
            needed = buckets.begin_ns + index * (buckets.end_ns - buckets.begin_ns) / buckets.count
            done += buckets.each_ns
            wait = max(wait, done - needed)
    assert longest_wait_ns(every) == pytest.approx(wait)


def test_the_last_bucket_is_never_hidden() -> None:
    assert last_reduced_ns([Buckets(0, 100, 10, 1)]) == 101  # short exchanges: one is left
    assert last_reduced_ns([Buckets(0, 100, 10, 20)]) == 10 + 200  # long ones: they follow the first
    assert longest_wait_ns([Buckets(0, 100, 10, 1)]) == 1
    assert longest_wait_ns([Buckets(30, 130, 10, 20)]) == 200 - 120
