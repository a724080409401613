"""The runs that are known before others are predicted."""

from benchmarks.published.predictor import calibration_points
from hypothesis import given
from hypothesis import strategies as st

from tests.profiles.measured.rows import make_run

STEPS = [make_run(id=f"step {index}", step_s=str(index + 1)) for index in range(10)]


def names(runs) -> list[str]:
    return [run.id for run in runs]


def test_points_are_spread_evenly_over_the_steps() -> None:
    assert names(calibration_points(STEPS, 1)) == ["step 5"]
    assert names(calibration_points(STEPS[:9], 3)) == ["step 1", "step 4", "step 7"]
    assert calibration_points(STEPS, 0) == ()
    assert calibration_points(STEPS, 10) == ()


def test_runs_with_step_and_memory_are_preferred() -> None:
    both = [make_run(id=f"both {index}", mem_gib="3") for index in range(2)]
    memory = [make_run(id=f"memory {index}", step_s="", mem_gib=str(index + 1)) for index in range(9)]
    assert names(calibration_points([*STEPS, *both, *memory], 1)) == ["both 1"]
    assert names(calibration_points([*STEPS, *memory], 1)) == ["step 5"]
    assert names(calibration_points(memory, 3)) == ["memory 1", "memory 4", "memory 7"]


@given(st.permutations(STEPS), st.integers(1, 9))
def test_points_do_not_depend_on_the_order_of_rows(runs, count) -> None:
    points = calibration_points(runs, count)
    assert len(set(names(points))) == count
    assert points == calibration_points(STEPS, count)
