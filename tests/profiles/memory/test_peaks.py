"""Peaks of dry runs, by name and as equations."""

from tests.profiles.memory.dry_runs import EIGHT, TRUTH, dry_run, measured


def test_peaks_are_named_by_stage_and_round():
    one, two = measured([EIGHT], TRUTH), measured([EIGHT, EIGHT], TRUTH)
    assert one.name(one.peaks[3]) == "stage 3"
    assert two.name(two.peaks[-1]) == "stage 6 of round 2"
    assert (one.num_middle, two.num_middle, two.num_ranks) == (6, 12, 8)


def test_a_row_for_each_peak_and_a_column_for_each_unknown():
    runs = measured([dry_run([2, 3, 4], full=[0, 2, 1])], TRUTH)
    unknowns = ("constant", "parameter", "full", "none", "head", "tail")
    assert runs.matrix(unknowns).tolist() == [[1, 2, 0, 6, 1, 0], [1, 3, 4, 2, 0, 0], [1, 4, 1, 3, 0, 1]]
    assert runs.matrix(unknowns, runs.peaks[:1]).tolist() == [[1, 2, 0, 6, 1, 0]]
