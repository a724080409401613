"""Exact sizes of what cells and ranks hold, against the cost model; what is left out cannot be in a smaller plan."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.solve.memory.smallest_contents import SmallestContents
from tests.solve.cases import cases
from tests.thoroughness import examples


@given(case=cases(memory=2**20 + 7), data=st.data())
@settings(max_examples=examples(60))
def test_peaks_are_those_of_the_cost_model(case, data):
    problem = case.problem()
    contents = SmallestContents(problem)
    bounds = np.array(data.draw(st.sampled_from(case.cuts())))
    counts = contents.counts(bounds)
    assert counts.sum(axis=1).tolist() == np.diff(bounds).tolist()
    peaks = contents.peaks(bounds)
    assert peaks == problem.rank_memory(problem.costs(counts)).tolist()
    if contents.step_bytes:
        assert not ((np.array(peaks) - case.network.constant_bytes) % contents.step_bytes).any()


@given(case=cases(memory=2**20 + 7), data=st.data())
@settings(max_examples=examples(60))
def test_choices_of_smaller_plans_are_kept(case, data):
    """`below` keeps every cell of every plan whose peak is below, and with one chunk only cells that are below."""
    contents = SmallestContents(case.problem())
    peaks = {cut: max(contents.peaks(np.array(cut))) for cut in case.cuts()}
    limit = data.draw(st.sampled_from(sorted(peaks.values())))
    kept = contents.below(contents.all_choices(), limit)
    runs = [set(zip(cell.starts.tolist(), cell.ends.tolist(), strict=True)) for cell in kept]
    for cut, peak in peaks.items():
        if peak < limit:
            for cell, (start, end) in enumerate(pairwise(cut)):
                assert ((0, end - start) if contents.is_uniform else (start, end)) in runs[cell]
