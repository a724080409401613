"""Whether errors grow with devices: a slope within models, which the size of a model does not tell."""

import pytest
from benchmarks.published.guesses import Guess
from benchmarks.published.predictor import Predicted
from benchmarks.published.scaling import FEWEST, scaling_table, slope

from tests.profiles.measured.rows import make_run


def guesses(model: str, *, by_doubling: float, level: float, source: str = "lab") -> list[Guess]:
    found = []
    for doublings in range(4):
        run = make_run(model=model, gpus=str(8 * 2**doublings), dp=str(2 * 2**doublings), step_s="1.0", source=source)
        predicted = 1.0 / (level * (1 + by_doubling) ** doublings)
        found.append(Guess(file="file.csv", run=run, predicted=Predicted(step_s=predicted, memory_gib=None)))
    return found


def test_a_slope_is_within_models() -> None:
    found = slope(guesses("small", by_doubling=0.02, level=1.5) + guesses("large", by_doubling=0.02, level=0.5))
    assert found is not None
    assert (found.runs, found.devices) == (8, (8, 64))
    assert found.by_doubling == pytest.approx(0.0198, abs=1e-4)
    assert found.standard_error == pytest.approx(0, abs=1e-9)


def test_models_on_one_number_of_devices_say_nothing() -> None:
    alone = [guesses(f"model {number}", by_doubling=0.1, level=1.0)[number % 4] for number in range(2 * FEWEST)]
    assert slope(alone) is None


def test_a_source_with_enough_runs_has_a_row() -> None:
    many = guesses("a", by_doubling=0.0, level=1.0) + guesses("b", by_doubling=0.0, level=2.0)
    few = guesses("a", by_doubling=0.0, level=1.0, source="few")
    assert len(scaling_table({0: many}).splitlines()) == 2
    assert len(scaling_table({0: few}).splitlines()) == 1
