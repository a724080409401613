"""The orders that torch.distributed.pipelining makes itself; `make check-torchtitan` compares them with PyTorch's."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import Sizes
from evenflow.schedule import check_complete, format_schedule, make_schedule
from evenflow.targets.torch.schedule_names import NAMES, ON_A_V, SINGLE, named_schedule, schedule_name


@given(st.sampled_from(NAMES), st.integers(2, 5), st.integers(2, 4), st.integers(1, 13))
def test_every_named_order_is_complete_or_refused(name: str, ranks: int, chunks: int, count: int) -> None:
    fixed = 1 if name in SINGLE else 2 if name in ON_A_V else chunks
    sizes = Sizes(num_ranks=ranks, num_chunks=fixed, num_microbatches=count)
    rounds = max(1, count // ranks)
    if (name == "DualPipeV" and count < 2 * ranks) or (name.startswith("Interleaved") and count % rounds):
        with pytest.raises(InputError):
            named_schedule(name, sizes, place="here")
    else:
        schedule = named_schedule(name, sizes, place="here")
        assert schedule.sizes == sizes
        check_complete(schedule)


def test_orders_that_are_no_families() -> None:
    sizes = Sizes(num_ranks=2, num_chunks=2, num_microbatches=2)
    texts = {
        name: format_schedule(named_schedule(name, sizes, place="here")).splitlines()
        for name in ("LoopedBFS", "ZBVZeroBubble", "InterleavedZeroBubble")
    }
    assert texts == {
        "LoopedBFS": ["0F0,0F1,2F0,2F1,2B1,2B0,0B1,0B0", "1F0,1F1,3F0,3F1,3B1,3B0,1B1,1B0"],
        "ZBVZeroBubble": [
            "0F0,0F1,3F0,3I0,3W0,3F1,3I1,3W1,0I0,0W0,0I1,0W1",
            "1F0,2F0,1F1,2F1,2I0,2W0,1I0,1W0,2I1,2W1,1I1,1W1",
        ],
        "InterleavedZeroBubble": [
            "0F0,0F1,2F0,2F1,2I0,2W0,2I1,2W1,0I0,0W0,0I1,0W1",
            "1F0,1F1,3F0,3I0,3F1,3I1,3W0,1I0,3W1,1I1,1W0,1W1",
        ],
    }


def test_interleaved_groups() -> None:
    sizes = Sizes(num_ranks=3, num_chunks=2, num_microbatches=8)
    schedule = named_schedule("Interleaved1F1B", sizes, place="here")
    assert schedule == make_schedule("interleaved", num_ranks=3, num_chunks=2, num_microbatches=8, group_size=4)


@pytest.mark.parametrize(
    ("name", "chunks", "count", "rule"),
    [
        ("1F1B", 2, 4, "must be one stage on each rank for 1F1B"),
        ("Interleaved1F1B", 1, 4, "must be at least two stages on each rank for Interleaved1F1B"),
        ("Interleaved1F1B", 2, 5, "must be a multiple of 2, the number of groups, for Interleaved1F1B"),
        ("ZBVZeroBubble", 3, 4, "must be two stages on each rank for ZBVZeroBubble"),
        ("DualPipeV", 2, 3, "must be at least 4 microbatches, as many as stages, for DualPipeV"),
    ],
)
def test_sizes_that_pytorch_refuses(name: str, chunks: int, count: int, rule: str) -> None:
    with pytest.raises(InputError) as error:
        named_schedule(name, Sizes(num_ranks=2, num_chunks=chunks, num_microbatches=count), place="file: schedule")
    assert f"file: schedule {rule}" in str(error.value)


def test_names_in_any_case() -> None:
    assert schedule_name("interleaved1f1b", place="here") == "Interleaved1F1B"
    with pytest.raises(InputError, match="did you mean Interleaved1F1B"):
        schedule_name("Interleaved1F2B", place="here")
    with pytest.raises(InputError, match="must be one of"):
        schedule_name(4, place="here")
