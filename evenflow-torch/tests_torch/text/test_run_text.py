"""How well the times of a prediction are known is said, and where that is not well, it is warned of."""

from typing import Any

import pytest

from evenflow_torch.run.values.run_result import Conditions, worst_conditions
from evenflow_torch.text.run_text import conditions_lines

IDLE = Conditions(runs=7, error=0.011, waiting=0.01, step_waiting=0.02)


def test_an_idle_machine_is_told_in_one_line() -> None:
    (line,) = conditions_lines(IDLE)
    assert line == (
        "stages were measured 7 times, their medians are known to 1.1 %; the rank that waited most waited 1 % of that "
        "time for a processor, and 2 % of the measured steps"
    )


@pytest.mark.parametrize("changed", [{"error": 0.06}, {"waiting": 0.3}, {"step_waiting": 0.2}])
def test_a_busy_machine_is_warned_of(changed: dict[str, Any]) -> None:
    fields = {"runs": 35, "error": 0.01, "waiting": 0.0, "step_waiting": 0.0}
    line, note = conditions_lines(Conditions(**{**fields, **changed}))
    assert line.startswith("stages were measured 35 times")
    assert note.startswith("note: this machine was busy, and a prediction is off by as much as its load changes")


def test_an_unknown_load_is_said() -> None:
    (line,) = conditions_lines(Conditions(runs=7, error=0.01, waiting=None, step_waiting=None))
    assert line.endswith("; the load of this machine is not known")


def test_the_rank_that_waits_most_counts() -> None:
    busy = Conditions(runs=7, error=0.011, waiting=0.4, step_waiting=0.01)
    assert worst_conditions([IDLE, busy]) == Conditions(runs=7, error=0.011, waiting=0.4, step_waiting=0.02)
    unknown = Conditions(runs=7, error=0.02, waiting=None, step_waiting=0.5)
    assert worst_conditions([busy, unknown]) == Conditions(runs=7, error=0.02, waiting=None, step_waiting=0.5)
