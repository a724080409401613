import io
from functools import partial

import pytest
from rich.console import Console

from evenflow.cli.shared.progress import _Lines, progress_text, shown_progress, tuning_text
from evenflow.solve import Progress
from evenflow.tune.search import TuningProgress


def progress(seconds: float, best_ms: float | None, bound_ms: float) -> Progress:
    best = None if best_ms is None else round(best_ms * 1e6)
    return Progress(seconds=seconds, phase="searching", makespan_ns=best, lower_bound_ns=round(bound_ms * 1e6))


def test_one_line_says_best_bound_and_gap():
    text = progress_text(progress(2.0, 1000.0, 990.0), time_limit_s=8)
    assert text.split("  ")[-4:] == ["searching", "best 1,000.000 ms", "bound 990.000 ms", "gap 1.00 %"]
    assert "best" not in progress_text(progress(2.0, None, 990.0), time_limit_s=8)
    assert "gap" not in progress_text(progress(2.0, 1000.0, 0), time_limit_s=8)


@pytest.mark.parametrize(("seconds", "share"), [(0.0, "0"), (2.0, "25"), (8.0, "100"), (9.5, "100")])
def test_the_line_begins_with_the_share_of_the_time(seconds, share):
    text = progress_text(progress(seconds, None, 0), time_limit_s=8)
    assert text.strip().startswith(f"{seconds:.1f} s ({share} %)  searching")


def test_one_line_says_how_many_configurations_are_left():
    report = TuningProgress(
        seconds=2.0, legal=1200, refuted=1100, solved=3, left=97, best_ns=3.5e9, lower_bound_ns=3.4e9
    )
    parts = ["1,100 refuted, 3 solved, 97 left", "best 3,500.000 ms", "bound 3,400.000 ms"]
    assert tuning_text(report, time_limit_s=8).split("  ")[-3:] == parts
    nothing = TuningProgress(
        seconds=0.1, legal=9, refuted=0, solved=0, left=9, best_ns=float("inf"), lower_bound_ns=0.0
    )
    assert tuning_text(nothing, time_limit_s=8).split("  ")[-1] == "0 refuted, 0 solved, 9 left"


def test_quiet_shows_nothing():
    with shown_progress(time_limit_s=8, quiet=True) as callback:
        assert callback is None


def test_without_a_terminal_only_improvements_and_not_too_often():
    out = io.StringIO()
    lines = _Lines(
        Console(file=out), partial(progress_text, time_limit_s=8), lambda one: (one.makespan_ns, one.lower_bound_ns)
    )
    for seconds, best in ((0.1, 100), (0.5, 99), (2.2, 98), (2.3, 97), (9.0, 97), (12.0, 97)):
        lines(progress(seconds, best, 50))
    assert [line.split()[0] for line in out.getvalue().splitlines()] == ["0.1", "2.2", "9.0"]
