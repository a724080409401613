"""Whose memory a peak is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.profiles.measured.logs.log_format import PeakOf
from evenflow.profiles.measured.logs.logged_run import logged_peak

GIB = 2**30


def peak(by_rank: dict[int | None, int], *, dp_is_outside: bool = False, **fields: object) -> tuple[float, str] | None:
    found = logged_peak({PeakOf.RESERVED: by_rank}, fields, dp_is_outside=dp_is_outside)
    return None if found is None else found[1:]


@given(st.lists(st.integers(1, 80), min_size=4, max_size=4))
def test_of_all_pipeline_ranks_the_fullest_counts(sizes: list[int]) -> None:
    by_rank = {4 * stage: size * GIB for stage, size in enumerate(sizes)}
    assert peak(by_rank, pp=4, gpus=16) == (max(sizes), "max")
    del by_rank[0]
    assert peak(by_rank, pp=4, gpus=16) == (sizes[3], "last")
    del by_rank[12]
    assert peak(by_rank, pp=4, gpus=16) is None


def test_without_a_pipeline_any_rank_counts() -> None:
    assert peak({None: GIB, 3: 2 * GIB}, pp=1) == (2.0, "max")
    assert peak({None: GIB}) == (1.0, "max")


def test_of_a_pipeline_a_rank_that_is_not_said_does_not_count() -> None:
    assert peak({None: GIB}, pp=2, gpus=2) is None
    assert peak({7: GIB}, pp=2, gpus=2) is None


def test_data_parallelism_outside_of_the_pipeline() -> None:
    by_rank = {0: 3 * GIB, 2: 2 * GIB, 4: 1 * GIB}
    assert peak(by_rank, pp=2, tp=2, cp=1, gpus=8, dp_is_outside=True) == (3.0, "max")
    assert peak({2: 2 * GIB, 6: 1 * GIB}, pp=2, tp=2, cp=1, gpus=8, dp_is_outside=True) == (2.0, "last")


@pytest.mark.parametrize("kinds", [(PeakOf.ALLOCATED, PeakOf.RESERVED), (PeakOf.RESERVED, PeakOf.DEVICE)])
def test_what_tensors_take_goes_before_what_is_reserved_or_on_the_device(
    kinds: tuple[PeakOf, PeakOf],
) -> None:
    peaks = {kinds[1]: {None: 9 * GIB}, kinds[0]: {None: 5 * GIB}}
    assert logged_peak(peaks, {"pp": 1}, dp_is_outside=False) == (kinds[0], 5.0, "max")
    assert logged_peak({}, {"pp": 1}, dp_is_outside=False) is None
