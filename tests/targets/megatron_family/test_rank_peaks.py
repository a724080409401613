"""Peaks in the output of a Megatron-LM job."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.profiles.logs.stage_peaks import PeakKind
from evenflow.targets.megatron_family.rank_peaks import parse_rank_lines
from evenflow.units import MEGABYTE

MEGATRON = (
    "[Rank {}] (after 2 iterations) memory (MB) | allocated: 3.5 | max allocated: {} | reserved: 6.0 | max reserved: {}"
)


def test_of_megatrons_ranks_the_fullest_of_a_stage_counts():
    # 2 stages of 4 ranks; two tensor-parallel ranks of each report, rank 1 a second time and beside another rank.
    lines = [
        "iteration 2/10 | lm loss: 9",
        f"0: {MEGATRON.format(0, 10, 12)}",
        MEGATRON.format(1, 50, 60),
        MEGATRON.format(4, 7, 8) + MEGATRON.format(5, "7.25", "8.5"),
        MEGATRON.format(1, 11, 13),
    ]
    assert parse_rank_lines(lines, ranks_per_stage=4, place="log") == (13 * MEGABYTE, round(8.5 * MEGABYTE))
    used = parse_rank_lines(lines, ranks_per_stage=4, place="log", kind=PeakKind.USED)
    assert used == (11 * MEGABYTE, round(7.25 * MEGABYTE))
    with pytest.raises(InputError, match="none of 1"):
        parse_rank_lines(lines, ranks_per_stage=2, place="log")
    with pytest.raises(InputError, match="log-interval"):
        parse_rank_lines(["nothing"], ranks_per_stage=2, place="log")


def test_megatron_bridge_counts_in_thousands():
    line = (
        "0 [Rank {}] (after 2 iterations) memory (GB) | mem-allocated-gigabytes: 3.6 | mem-reserved-gigabytes: 82.2 "
        "| mem-max-allocated-gigabytes: {} | mem-max-active-gigabytes: 9 | mem-max-reserved-gigabytes: {} |"
    )
    lines = [line.format(0, 2.5, "3"), line.format(4, "1.25", 2), line.format(0, 2.75, 3.5)]
    assert parse_rank_lines(lines, ranks_per_stage=4, place="log") == (3_500_000_000, 2_000_000_000)
    used = parse_rank_lines(lines, ranks_per_stage=4, place="log", kind=PeakKind.USED)
    assert used == (2_750_000_000, 1_250_000_000)


PIECES = st.sampled_from(
    [
        *("[Rank 3] ", "[Rank " + "9" * 30, ":12:", "9" * 400, "1e5", "-3", "\n", "\x00", "é", " "),
        *("memory (MB) | allocated: 1 | max allocated: 2 | reserved: 3 | max reserved: 4", "| allocated: "),
    ]
)


@given(text=st.lists(PIECES | st.text(max_size=5), max_size=40).map("".join), kind=st.sampled_from(PeakKind))
def test_any_text_gives_peaks_or_one_message(text, kind):
    with suppress(InputError):
        peaks = parse_rank_lines(text.split("\n"), ranks_per_stage=1, place="fuzz", kind=kind)
        assert min(peaks) > 0
