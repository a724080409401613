"""`python -m benchmarks published`, and what it writes into the documentation."""

import re

from benchmarks.__main__ import benchmarks
from benchmarks.fidelity import TABLES
from benchmarks.published.predictor import Predicted
from click.testing import CliRunner

from benchmarks.published import accuracy
from tests.profiles.measured.rows import csv_text


def written(name: str) -> str:
    return (TABLES / f"{name}.txt").read_text(encoding="utf-8").removesuffix("\n")


def test_the_written_tables_are_those_of_the_data() -> None:
    files, timelines = accuracy.read_all([])
    assert written("contents") == accuracy.contents_table(files)
    for name, text in accuracy.timeline_sections(timelines).items():
        assert written(name) == text


def test_a_file_of_ones_own_is_read(tmp_path) -> None:
    (tmp_path / "mine.csv").write_text(csv_text({}, {"id": "b", "gpus": "", "dp": "", "vocab": ""}), encoding="utf-8")
    result = CliRunner().invoke(benchmarks, ["published", str(tmp_path / "mine.csv")])
    assert result.exit_code == 0
    assert result.output.splitlines()[1].split() == ["mine", "2", "2", "0", "1", "0", "8", "to", "8"]


def test_a_wrong_file_gives_one_line_and_exit_status_2(tmp_path) -> None:
    (tmp_path / "mine.csv").write_text(csv_text({"tp": "two"}), encoding="utf-8")
    result = CliRunner().invoke(benchmarks, ["published", str(tmp_path / "mine.csv")])
    assert result.exit_code == 2
    assert re.fullmatch(
        r"error: .*mine\.csv, line 2: tp must be a whole number of at least 1, got 'two'\n", result.output
    )


def test_all_tables_of_scores_are_made() -> None:
    files, _ = accuracy.read_all([accuracy.DATA / "torchtitan.csv", accuracy.DATA / "bigscience_tr3m.csv"])
    sections, svg = accuracy.score_sections(
        files, lambda run: Predicted(step_s=3.0, memory_gib=20.0), lambda predictor, known: predictor
    )
    assert all(sections.values())
    assert sections["not-predicted"] == "none"
    assert svg.startswith("<svg")
