"""What a choice of degrees takes: its command line and its table."""

from benchmarks.__main__ import benchmarks
from benchmarks.tune_time import CASES, Taken, report, to_json
from click.testing import CliRunner

TAKEN = Taken(
    name="70b-256", legal=5123, refuted=5000, solved=23, rows=61, processor_s=12.34, wall_s=20.0, peak_gib=0.5,
    step_ms=None, gap=0.0123,
)  # fmt: skip


def test_the_table_by_hand() -> None:
    assert report([TAKEN]).splitlines()[1].split() == [
        "70b-256", "5,123", "5,000", "23", "61", "12.3", "20.0", "0.50", "-", "1.23",
    ]  # fmt: skip
    assert "\n" not in to_json(TAKEN)


def test_an_unknown_question_is_refused() -> None:
    result = CliRunner().invoke(benchmarks, ["tune-time", "900b"])
    assert result.exit_code == 2
    assert all(name in result.output for name in CASES)
