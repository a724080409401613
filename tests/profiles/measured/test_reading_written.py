"""CSV files of measured runs, written and read back."""

import csv
from dataclasses import fields
from io import StringIO
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from evenflow.profiles.measured.logs.log_file import LogFile, parse_log
from evenflow.profiles.measured.logs.logged_run import measured_run
from evenflow.profiles.measured.reading import COLUMNS, LEAST_REAL, MOST_REAL, format_runs, parse_runs
from evenflow.profiles.measured.run import NEEDED, MeasuredRun
from evenflow.targets.registry import log_formats
from tests.profiles.measured.logs.written import titan_step

PLAIN = st.text(st.characters(exclude_categories=["C"]), min_size=1, max_size=12)
TEXT = (
    (PLAIN | st.builds(str.__add__, st.sampled_from(["=", "'=", "''-", "@", "+", "'"]), PLAIN))
    .map(str.strip)
    .filter(bool)
)
OF_TYPE = {
    str: TEXT,
    str | None: st.none() | TEXT,
    bool | None: st.none() | st.booleans(),
    int | None: st.none() | st.integers(1, 10**15),
    float | None: st.none() | st.floats(min_value=LEAST_REAL, max_value=MOST_REAL),
}
RUNS = st.fixed_dictionaries(
    {field.name: OF_TYPE[field.type] for field in fields(MeasuredRun) if field.name in COLUMNS}  # type: ignore[index]
).map(lambda values: MeasuredRun(**values))  # type: ignore[arg-type]


@given(st.lists(RUNS, min_size=1, max_size=4, unique_by=lambda run: run.id))
def test_what_is_written_reads_back(runs: list[MeasuredRun]) -> None:
    assert parse_runs(format_runs(runs), file="runs.csv") == tuple(runs)


@given(st.lists(RUNS, min_size=1, max_size=4, unique_by=lambda run: run.id))
def test_no_cell_is_a_formula(runs: list[MeasuredRun]) -> None:
    for row in csv.reader(StringIO(format_runs(runs), newline="")):
        assert not any(cell.startswith(("=", "+", "-", "@", "\t", "\r")) for cell in row)


def test_columns_to_be_filled_in_are_there() -> None:
    log = parse_log(
        [titan_step(number, 8192).replace("\x1b", "") for number in range(9)], place="a.log", formats=log_formats()
    )
    run = measured_run([LogFile(path=Path("a.log"), run=log)], place=Path("a.log"))
    columns = format_runs([run]).splitlines()[0].split(",")
    assert set(NEEDED) <= set(columns)
    assert "expert_ffn" not in columns
    (read,) = parse_runs(format_runs([run]), file="runs.csv")
    assert (read, read.lacks) == (run, NEEDED)
