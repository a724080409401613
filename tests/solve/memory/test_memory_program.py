"""The program of floats behind the least memory against every cut."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.solve.memory.memory_program import MemoryProgram, TooLarge
from evenflow.solve.memory.smallest_contents import SmallestContents
from tests.solve.cases import cases
from tests.thoroughness import examples


def peaks_of(case, contents: SmallestContents) -> dict[tuple[int, ...], int]:
    return {cut: max(contents.peaks(np.array(cut))) for cut in case.cuts()}


@given(case=cases(memory=1000))
@settings(max_examples=examples(40))
def test_the_smallest_peak_is_that_of_every_cut(case):
    contents = SmallestContents(case.problem())
    peaks = peaks_of(case, contents)
    unit = max(1, *peaks.values())
    program = MemoryProgram(contents, contents.all_choices(), unit_bytes=unit, too_large=[])
    solution = program.program.solve(time_limit_s=20)
    assert solution.values is not None
    assert solution.objective * unit == pytest.approx(min(peaks.values()), rel=1e-5, abs=1e-5 * unit)
    bounds, amounts = program.chosen(solution.values)
    assert max(contents.peaks(bounds)) <= min(peaks.values()) + 1e-5 * unit
    assert bounds[-1] == case.network.num_layers
    held = [amounts[contents.cells_of(rank)] for rank in range(case.sizes.num_ranks)]
    own = max(contents.peak(rank, each) for rank, each in enumerate(held))
    assert own == pytest.approx(min(peaks.values()), rel=1e-5, abs=1e-5 * unit), "also with the kinds that it chose"


@given(case=cases(memory=1000), data=st.data())
@settings(max_examples=examples(40))
def test_a_limit_is_kept_and_excluded_contents_are_not_chosen(case, data):
    contents = SmallestContents(case.problem())
    peaks = peaks_of(case, contents)
    cut = np.array(data.draw(st.sampled_from(case.cuts())))
    rank = data.draw(st.integers(0, case.sizes.num_ranks - 1))
    cells = contents.cells_of(rank)
    held = contents.amounts(cut)[cells]
    limit = max(peaks.values())
    excluded = TooLarge(rank=rank, amounts=held)
    program = MemoryProgram(
        contents, contents.all_choices(), unit_bytes=max(1, limit), limit_bytes=limit, too_large=[excluded]
    )
    solution = program.program.solve(time_limit_s=20)

    def holds_less(amounts: np.ndarray) -> bool:
        return bool((amounts[cells] < held).any())

    if solution.values is None:
        assert not any(holds_less(contents.amounts(np.array(other))) for other in peaks)
    else:
        assert holds_less(program.chosen(solution.values)[1])
