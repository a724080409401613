"""Peaks that do not determine the memory: which unknown, which stage, and what to run."""

from dataclasses import replace

import pytest

from evenflow.errors import InputError
from evenflow.profiles.memory.fit import fit_memory
from evenflow.profiles.memory.peaks import DryRuns
from tests.profiles.memory.dry_runs import EIGHT, MB, TRUTH, changed, dry_run, measured


def refusal(runs: DryRuns) -> str:
    with pytest.raises(InputError) as error:
        fit_memory(runs)
    return str(error.value)


def doubt(runs: DryRuns) -> str:
    """Why no plan should be made of a fit that there is."""
    return str(fit_memory(runs).refusal)


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
        message = doubt(changed(measured([EIGHT], {**TRUTH, "tail": MB}), 2, -20_000 * MB))
        assert "stage 2 (-20,000 MB) is far from what the others say" in message

    def test_a_wrong_end_is_named_by_its_weight(self):
        message = doubt(changed(measured([EIGHT], TRUTH), 0, -6000 * MB))
        assert "must give head a memory that is not negative, got '-5,500.0" in message
        assert "it depends most on stage 0 (+1.00)" in message

    def test_an_activation_of_nothing_is_no_activation(self):
        message = doubt(measured([EIGHT], {**TRUTH, "full": -1}))
        assert "must give activation (full) a memory above zero" in message

    def test_rounds_are_named(self):
        rounds = [dry_run([3, 4, 5, 4], full=[1, 2, 0, 1]), dry_run([4, 3, 5, 4], full=[1, 0, 3, 1])]
        message = doubt(changed(measured(rounds, TRUTH), 2, -30_000 * MB))
        assert "stage 2 of round 1" in message
