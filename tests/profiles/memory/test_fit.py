import itertools
import random
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenflow.profiles.init.init_file import read_init_file
from evenflow.profiles.memory.equations import coefficients
from evenflow.profiles.memory.fit import ROUNDING_BYTES, MemoryFit, fit_memory
from evenflow.profiles.memory.least_squares import not_negative, solve, undetermined
from evenflow.profiles.memory.peaks import DryRuns
from tests.paths import ROOT
from tests.profiles.memory.dry_runs import EIGHT, MB, TRUTH, changed, computed_peak, dry_run, measured


def values(fit: MemoryFit) -> dict[str, int]:
    return {estimate.name: estimate.value_bytes for estimate in fit.estimates}


@st.composite
def cases(draw: st.DrawFn, *, noise: bool = False) -> tuple[DryRuns, dict[str, int]]:
    """Dry runs that determine everything, and the truth behind them; with noise, up to a megabyte on each peak."""
    stages, num_rounds = draw(st.integers(4, 9)), draw(st.integers(1, 3))
    kinds = draw(st.lists(st.sampled_from(["full", "both", "select", "comm"]), unique=True))
    random_numbers = random.Random(draw(st.integers(0, 10**6)))
    rounds = []
    for _ in range(num_rounds):
        layers = [random_numbers.randint(1, 9) for _ in range(stages)]
        tables: dict[str, list[int]] = {kind: [0] * stages for kind in kinds}
        for rank, count in enumerate(layers):
            for kind in kinds:
                left = count - sum(row[rank] for row in tables.values())
                tables[kind][rank] = random_numbers.randint(0, left)
        rounds.append(dry_run(layers, **tables))
    used = [kind for kind in kinds if any(any(plan.recompute[kind][0]) for plan in rounds)]
    least = 10**9 if noise else 0
    small, large = st.integers(least, 2 * 10**9), st.integers(max(least, 1), 5 * 10**9)
    truth = {"constant": draw(small), "parameter": draw(small), "head": draw(small), "tail": draw(small)}
    truth |= {kind: draw(large) for kind in (*used, "none")}
    runs = measured(rounds, truth)
    if noise:
        peaks = [replace(peak, peak_bytes=peak.peak_bytes + random_numbers.randint(-MB, MB)) for peak in runs.peaks]
        runs = replace(runs, peaks=tuple(peaks))
    assume(runs.num_middle >= len(used) + 4)
    assume(not undetermined(runs.matrix(list(truth))))
    return runs, truth


@given(cases())
def test_exact_peaks_give_back_the_truth(case):
    runs, truth = case
    fit = fit_memory(runs)
    # Rounding to 52 bits grows with the condition of the equations.
    slack = 1 + fit.condition_number**2 * max(peak.peak_bytes for peak in runs.peaks) * 1e-15
    assert set(values(fit)) == set(truth)
    for name, value in values(fit).items():
        assert abs(value - truth[name]) <= slack
    assert max(map(abs, fit.residuals_bytes)) <= slack
    assert fit.peak_error_bytes == round(ROUNDING_BYTES)


@given(cases(noise=True))
def test_errors_of_the_peaks_move_no_value_further_than_its_weights_say(case):
    runs, truth = case
    fit = fit_memory(runs)
    assert fit.notes == ()  # a megabyte is rounding, and no peak out of line
    for estimate in fit.estimates:
        bound = sum(map(abs, estimate.weights)) * MB + 100
        assert abs(estimate.value_bytes - truth[estimate.name]) <= bound


@given(cases(noise=True))
def test_head_and_tail_are_what_the_ends_have_beyond_the_middle(case):
    runs, _ = case
    fit = fit_memory(runs)
    found = {**values(fit), "head": 0, "tail": 0}
    first, last = runs.peaks[0], runs.peaks[runs.num_ranks - 1]
    for peak, name in ((first, "head"), (last, "tail")):
        rest = peak.peak_bytes - computed_peak(runs.rounds[0], peak.rank, found)
        assert abs(rest - fit.value_bytes(name)) <= 1000  # roundings of whole bytes, times layers and microbatches
    ends = [runs.peaks.index(first), runs.peaks.index(last)]
    for estimate in fit.estimates:
        if estimate.name not in ("head", "tail"):
            assert [abs(estimate.weights[row]) for row in ends] == pytest.approx([0, 0], abs=1e-9)


@given(cases(), st.integers(0, 10**6))
def test_a_further_peak_never_makes_a_value_less_certain(case, seed):
    runs, truth = case
    row = random.Random(seed).randrange(len(runs.peaks))
    fewer = replace(runs, peaks=runs.peaks[:row] + runs.peaks[row + 1 :])
    unknowns = list(truth)
    assume(not undetermined(fewer.matrix(unknowns)))

    def errors(given_runs: DryRuns) -> np.ndarray:
        matrix = given_runs.matrix(unknowns)
        return np.linalg.norm(solve(matrix, np.zeros(len(matrix))).weights, axis=1)

    assert (errors(runs) <= errors(fewer) * (1 + 1e-9)).all()


@given(cases(noise=True), st.integers(2, 50), st.randoms())
def test_scale_and_order_of_the_peaks_do_not_matter(case, factor, order):
    runs, _ = case
    fit = fit_memory(runs)
    peaks = [replace(peak, peak_bytes=factor * peak.peak_bytes) for peak in runs.peaks]
    order.shuffle(peaks)
    scaled = fit_memory(replace(runs, peaks=tuple(peaks)))
    for estimate in scaled.estimates:
        assert abs(estimate.value_bytes - factor * fit.value_bytes(estimate.name)) <= factor + 100


def test_standard_errors_are_those_of_the_normal_equations():
    unknowns = ["constant", "parameter", "full", "none", "head", "tail"]
    runs = measured([EIGHT], {**TRUTH, "tail": 800 * MB})
    noise = [0, 30, -20, 10, -40, 25, 5, 0]
    peaks = [replace(p, peak_bytes=p.peak_bytes + n * MB) for p, n in zip(runs.peaks, noise, strict=True)]
    fit = fit_memory(replace(runs, peaks=tuple(peaks)))
    matrix = np.array([coefficients(EIGHT, rank, unknowns) for rank in range(8)], dtype=float)
    residuals = np.array(fit.residuals_bytes, dtype=float)
    covariance = residuals @ residuals / (8 - 6) * np.linalg.inv(matrix.T @ matrix)
    found = {estimate.name: estimate.standard_error_bytes for estimate in fit.estimates}
    assert [found[name] for name in unknowns] == pytest.approx(np.sqrt(np.diag(covariance)), rel=1e-6)
    assert fit.degrees_of_freedom == 2
    assert fit.constant_fitted


def test_with_as_few_middle_stages_as_there_are_parameters_and_activations_there_is_no_constant():
    runs = measured([EIGHT], {**TRUTH, "constant": 0})
    fit = fit_memory(replace(runs, peaks=tuple(peak for peak in runs.peaks if peak.rank in (0, 2, 4, 5, 7))))
    assert not fit.constant_fitted
    assert values(fit) == {**TRUTH, "constant": 0}
    assert fit.estimates[0].standard_error_bytes is None
    assert fit.notes == ("3 middle stages do not determine the constant, which is taken as 0; 4 would",)


class TestNotes:
    def test_a_constant_that_is_negative_within_its_error_is_zero_and_the_rest_fitted_without(self):
        exact = measured([EIGHT], {**TRUTH, "constant": 0, "tail": 900 * MB})
        noise = [0, -200, 100, -150, 180, -120, -60, 0]
        peaks = [replace(p, peak_bytes=p.peak_bytes + n * MB) for p, n in zip(exact.peaks, noise, strict=True)]
        fit = fit_memory(replace(exact, peaks=tuple(peaks)))
        unknowns = ["parameter", "full", "none", "head", "tail"]
        best = np.linalg.lstsq(exact.matrix(unknowns), np.array([peak.peak_bytes for peak in peaks]), rcond=None)[0]
        assert [fit.value_bytes(name) for name in unknowns] == pytest.approx(best, rel=1e-6)
        assert (fit.value_bytes("constant"), fit.constant_fitted) == (0, False)
        assert fit.refusal is None
        held, original, closest = fit.notes
        assert held.startswith("constant would be -")
        assert held.endswith(" MB without a bound, and is held at 0")
        assert "the SAPP balancer takes the values without a bound" in original
        assert "the closest are up to " in closest

    def test_a_peak_out_of_line_is_noted_where_nothing_is_negative(self):
        fit = fit_memory(changed(measured([EIGHT], {**TRUTH, "tail": 9000 * MB}), 4, 150 * MB))
        assert fit.notes == (
            "stage 4 (+150 MB) is far from what the others say: check that peak, its offset and its recompute counts",
        )

    def test_peaks_that_agree_have_no_note(self):
        assert fit_memory(measured([EIGHT], TRUTH)).notes == ()


class TestGolden:
    """The peaks of the SAPP balancer's own test, with what it expects of them."""

    FIT = fit_memory(read_init_file(ROOT / "cfgs" / "init_eight_peaks.yaml").dry_runs)

    def test_the_free_fit_is_that_of_the_original(self):
        free = {estimate.name: estimate.free_bytes / MB for estimate in self.FIT.estimates}
        with_constant = {name: free[name] + free["constant"] for name in ("head", "tail")}
        assert {name: int(value) for name, value in {**free, **with_constant}.items()} == {
            "constant": -1896, "parameter": 2141, "both": 511, "select": 767, "comm": 535, "none": 852,
            "head": 4245, "tail": 1203,
        }  # fmt: skip

    def test_the_fit_has_no_negative_value(self):
        assert [round(estimate.value_bytes / MB) for estimate in self.FIT.estimates] == [
            0, 1861, 436, 732, 522, 860, 6382, 3201
        ]  # fmt: skip
        assert max(map(abs, self.FIT.residuals_bytes)) / MB == pytest.approx(224.8, abs=0.1)
        assert self.FIT.refusal is None
        assert (self.FIT.constant_fitted, self.FIT.degrees_of_freedom) == (False, 1)

    def test_errors_are_not_known_at_a_bound(self):
        assert {estimate.standard_error_bytes for estimate in self.FIT.estimates} == {None}


@given(st.integers(1, 6), st.integers(0, 6), st.integers(0, 10**6))
def test_the_bounded_fit_is_the_closest_of_all_that_are_not_negative(unknowns, more, seed):
    """Against every choice of unknowns that are held at zero."""
    draw = np.random.default_rng(seed)
    matrix = draw.integers(0, 9, size=(unknowns + more, unknowns)).astype(float)
    assume(np.linalg.matrix_rank(matrix) == unknowns)
    measured_values = draw.normal(size=unknowns + more) * 10
    best = np.inf
    for chosen in itertools.product([False, True], repeat=unknowns):
        columns = np.flatnonzero(chosen)
        found = np.linalg.lstsq(matrix[:, columns], measured_values, rcond=None)[0]
        if (found >= -1e-9).all():
            best = min(best, float(np.linalg.norm(measured_values - matrix[:, columns] @ found)))
    kept = not_negative(matrix, measured_values)
    found = np.linalg.lstsq(matrix[:, kept], measured_values, rcond=None)[0]
    assert (found > -1e-9).all()
    assert np.linalg.norm(measured_values - matrix[:, kept] @ found) == pytest.approx(best, rel=1e-6, abs=1e-9)
