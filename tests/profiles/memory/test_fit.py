import random
from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.profiles.memory.equations import coefficients
from evenflow.profiles.memory.fit import ROUNDING_BYTES, MemoryFit, fit_memory
from evenflow.profiles.memory.least_squares import outliers, solve, undetermined
from evenflow.profiles.memory.peaks import DryRuns, Peak

MB = 2**20
ENDS = ("constant", "parameter", "head", "tail")


def dry_run(layers: list[int], **recompute: list[int]) -> Plan:
    tables = {kind: (tuple(row),) for kind, row in recompute.items()}
    return Plan(schedule="1f1b", num_microbatches=len(layers), layers=(tuple(layers),), recompute=tables)


def computed_peak(plan: Plan, rank: int, truth: Mapping[str, int]) -> int:
    """The equation of the [SAPP guide, 内存分解原理], written out."""
    stages, layers = plan.num_ranks, plan.layers[0][rank]
    live = sum(plan.count(kind, 0, rank) * size for kind, size in truth.items() if kind not in ENDS)
    peak = layers * truth["parameter"] + (stages - rank) * live + truth["constant"]
    return peak + (truth["head"] if rank == 0 else 0) + (truth["tail"] if rank == stages - 1 else 0)


def measured(rounds: list[Plan], truth: Mapping[str, int]) -> DryRuns:
    """All stages of the first round, the middle ones of the others."""
    peaks = [
        Peak(round_index=index, rank=rank, peak_bytes=computed_peak(plan, rank, truth))
        for index, plan in enumerate(rounds)
        for rank in range(plan.num_ranks)
        if index == 0 or 0 < rank < plan.num_ranks - 1
    ]
    return DryRuns(rounds=tuple(rounds), peaks=tuple(peaks), place="init.yaml: memory_usage")


def changed(runs: DryRuns, rank: int, by_bytes: int) -> DryRuns:
    peaks = [replace(peak, peak_bytes=peak.peak_bytes + by_bytes * (peak.rank == rank)) for peak in runs.peaks]
    return replace(runs, peaks=tuple(peaks))


def values(fit: MemoryFit) -> dict[str, int]:
    return {estimate.name: estimate.value_bytes for estimate in fit.estimates}


TRUTH = {"constant": 900 * MB, "parameter": 400 * MB, "full": 30 * MB, "none": 700 * MB, "head": 500 * MB, "tail": 0}
EIGHT = dry_run([6, 5, 7, 4, 6, 8, 5, 7], full=[2, 0, 3, 1, 4, 2, 0, 3])


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
    assert fit.notes == ("3 middle stages leave out the constant, which is taken as 0; with 4 it is fitted too",)


def refusal(runs: DryRuns) -> str:
    with pytest.raises(InputError) as error:
        fit_memory(runs)
    return str(error.value)


def without(runs: DryRuns, *ranks: int) -> DryRuns:
    return replace(runs, peaks=tuple(peak for peak in runs.peaks if peak.rank not in ranks))


class TestRefusals:
    def test_too_few_middle_stages_names_those_to_add(self):
        message = refusal(without(measured([EIGHT], TRUTH), 1, 3, 5, 6))
        assert message == (
            "init.yaml: memory_usage must have peaks of 3 middle stages for parameter and activations (full, none), "
            "and of 4 for a constant too, got 2; add the peaks of stage 1, stage 3"
        )

    def test_equal_layers_hide_the_constant(self):
        runs = measured([dry_run([5] * 8, full=[2, 0, 3, 1, 4, 2, 0, 3])], TRUTH)
        message = refusal(runs)
        assert "all of them have 5 layers, which hides the constant in the parameters" in message
        assert "must determine constant, parameter, but" in message
        assert "evenflow guide --ranks 8 --layers 40 --recompute full" in message

    def test_a_kind_of_one_end_alone_cannot_be_told_from_it(self):
        runs = measured([dry_run([6, 5, 7, 4, 6, 8, 5, 7], full=[2, 0, 0, 0, 0, 0, 0, 0])], TRUTH)
        message = refusal(runs)
        assert "activation (full) occurs on stage 0 alone" in message
        assert "must determine activation (full), head, but" in message

    def test_stages_without_a_layer_that_keeps_everything(self):
        layers = [6, 5, 7, 4, 6, 8, 5, 7]
        message = refusal(measured([dry_run(layers, full=layers)], TRUTH))
        assert "no measured stage has layers of activation (none)" in message

    @pytest.mark.parametrize(("rank", "end"), [(0, "first"), (7, "last")])
    def test_an_end_without_a_peak(self, rank, end):
        assert f"there is no peak of the {end} stage" in refusal(without(measured([EIGHT], TRUTH), rank))

    def test_unmeasured_stages_that_would_do_are_named(self):
        # Stages 1 to 4 are alike but for their microbatches in flight, so 5 and 6 are needed.
        runs = measured([dry_run([5, 4, 4, 4, 4, 6, 3, 5], full=[1, 0, 0, 2, 2, 1, 1, 1])], TRUTH)
        message = refusal(without(runs, 5, 6))
        assert message.endswith("; add the peaks of stage 5")

    def test_a_wrong_peak_is_named(self):
        message = refusal(changed(measured([EIGHT], {**TRUTH, "tail": MB}), 2, -20_000 * MB))
        assert "stage 2 (-20,000 MB) is far from what the others say" in message

    def test_a_wrong_end_is_named_by_its_weight(self):
        message = refusal(changed(measured([EIGHT], TRUTH), 0, -2000 * MB))
        assert "must give head a memory that is not negative, got '-1,500.0" in message
        assert "it rests most on stage 0 (+1.00)" in message

    def test_an_activation_of_nothing_is_no_activation(self):
        message = refusal(measured([EIGHT], {**TRUTH, "full": -1}))
        assert "must give activation (full) a memory above zero" in message

    def test_rounds_are_named(self):
        rounds = [dry_run([3, 4, 5, 4], full=[1, 2, 0, 1]), dry_run([4, 3, 5, 4], full=[1, 0, 3, 1])]
        message = refusal(changed(measured(rounds, TRUTH), 2, -30_000 * MB))
        assert "stage 2 of round 1" in message


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
        (note,) = fit.notes
        assert note.startswith("constant comes out at -")
        assert note.endswith(" MB, so it is taken as 0")

    def test_a_peak_out_of_line_is_noted_where_nothing_is_negative(self):
        fit = fit_memory(changed(measured([EIGHT], {**TRUTH, "tail": 9000 * MB}), 4, 150 * MB))
        assert fit.notes == (
            "stage 4 (+150 MB) is far from what the others say: check that peak, its offset and its recompute counts",
        )

    def test_peaks_that_agree_have_no_note(self):
        assert fit_memory(measured([EIGHT], TRUTH)).notes == ()


def test_outliers_need_rows_to_spare():
    matrix = np.array([[1.0, 0], [1, 1], [1, 2], [1, 3], [1, 4]])
    measured_values = np.array([1.0, 3, 5, 70, 9])
    assert outliers(solve(matrix, measured_values)) == [3]
    assert outliers(solve(matrix[:3], np.array([1.0, 30, 5]))) == []


def test_undetermined_columns_are_those_of_null_vectors():
    matrix = np.array([[1.0, 2, 0, 5], [1, 2, 0, 1], [1, 2, 0, 7]])
    assert undetermined(matrix) == [0, 1, 2]
