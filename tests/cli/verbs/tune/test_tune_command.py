"""The command: a ranking, its JSON as a plan file, and what is refused."""

import json
import re

import pytest

from evenflow.cli.text.display_width import display_width
from tests.report.decoder import read_page

MODEL = (
    "--hidden", 1024, "--layers", 8, "--heads", 16, "--kv-heads", 4, "--vocab", 32000, "--gated-mlp",
)  # fmt: skip
ASKED = (
    "tune", *MODEL, "--accelerator", "h100", "--gpus", 8, "--gpus-per-node", 4, "--seq", 2048, "--global-batch", 16,
    "--max-chunks", 2, "--max-microbatch", 2, "--time-limit", 8,
)  # fmt: skip


def table_of(text: str) -> list[str]:
    lines = text.splitlines()
    first = next(number for number, line in enumerate(lines) if line.startswith("#"))
    return lines[first : lines.index("", first)]


@pytest.fixture(scope="module")
def answered(tmp_path_factory):
    """One ranking for all tests that only look at it: its text and its file."""
    from click.testing import CliRunner

    from evenflow.cli.main import main

    path = tmp_path_factory.mktemp("tune") / "tune.json"
    asked = (*ASKED, "--target", "megatron", "--fix", "zero=1", "--json", path, "--html", path.with_suffix(".html"))
    result = CliRunner().invoke(main, [str(word) for word in asked])
    assert result.exit_code == 0, result.output
    return result.stdout, path


def test_the_table_is_ranked_and_fits_in_120_columns(answered):
    text, _path = answered
    table = table_of(text)
    assert max(map(display_width, text.splitlines())) <= 120
    assert [row.split()[0].rstrip("≈") for row in table[1:]] == [str(number) for number in range(1, len(table))]
    place = table[0].index("step ms") + len("step ms")
    steps = [float(row[:place].split()[-1].replace(",", "")) for row in table[1:]]
    assert steps == sorted(steps)
    assert "no configuration of this space" in text
    assert "for Megatron-LM" in text
    assert "decided: zero 1" in text
    assert "assumed: --precision=bf16, --memory=80999MB, " in text


def test_the_file_says_what_the_table_says(answered):
    text, path = answered
    found = json.loads(path.read_text())
    rows = found["ranked"]
    assert {"--precision=bf16", "--memory=80999MB", "--attention=fused"} <= set(found["assumed"])
    assert not any(option.startswith(("--gpus-per-node", "--token-dispatcher")) for option in found["assumed"])
    assert len(rows) == len(table_of(text)) - 1
    assert [row["step_ms"] for row in rows] == sorted(row["step_ms"] for row in rows)
    assert found["step_ms"] == rows[0]["step_ms"] >= found["step_lower_bound_ms"]
    assert found["legal"] == found["refuted"] + found["solved"]
    for row in rows:
        split = row["tensor"] * row["context"] * row["pipeline"] * row["data"]
        assert split == 8
        assert row["zero"] == 1
        assert sum(part["exposed_ms"] for part in row["time"]) == pytest.approx(row["step_ms"])
        assert row["memory"]["total_mb"] == pytest.approx(sum(row["memory"]["parts_mb"].values()))
        assert row["memory"]["total_mb"] + row["free_mb"] == pytest.approx(found["device_memory_mb"])
        assert sum(map(sum, row["layers"])) == 8
        assert row["step_lower_bound_ms"] <= row["step_ms"] * 1.00001


def test_the_first_row_goes_to_the_framework(answered, evenflow):
    _text, path = answered
    first = json.loads(path.read_text())["ranked"][0]
    result = evenflow("export", path, "--to", "megatron")
    assert result.exit_code == 0, result.output
    assert f"--tensor-model-parallel-size {first['tensor']}\n" in result.stdout
    assert f"--micro-batch-size {first['microbatch']}\n" in result.stdout
    assert "--global-batch-size 16\n" in result.stdout
    assert "--seq-length 2048\n" in result.stdout


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (("--fix", "tensr=8"), "--fix must be one of tensor, context, expert"),
        (("--fix", "tensr=8"), "did you mean 'tensor'?"),
        (("--fix", "tensor"), "--fix must be NAME=VALUE, such as tensor=8"),
        (("--fix", "tensor=3"), "--fix: tensor must divide the 8 devices, got 3"),
        (("--fix", "tensor=0"), "--fix: tensor must be an integer from 1"),
        (("--fix", "tensor=2,tensor=4"), "--fix must say tensor once"),
        (("--fix", "tensor=4,data=4"), "--gpus must be a multiple of tensor x data = 16, got 8"),
        (("--fix", "tensor=4", "--max-tensor", 2), "--fix: tensor must be at most the 2 that is asked for, got 4"),
        (("--fix", "zero=4"), "--fix: zero must be one of 0, 1, 2, 3"),
        (("--fix", "expert=2"), "--fix: expert must be 1 for a model without experts, got 2"),
        (("--fix", "pipeline=16"), "--fix: pipeline must divide the 8 devices, got 16"),
        (
            ("--fix", "microbatch=3", "--max-microbatch", 4),
            "--fix: microbatch must divide the 16 sequences of a step, got 3",
        ),
        (("--fix", "schedule=2f2b"), "--fix: schedule must be one of"),
        (("--schedules", "1f1b,none"), "--schedules must be one of"),
        (("--accelerator", "h101"), "--accelerator must be one of"),
        (("--max-tensor", 0), "--max-tensor must be an integer from 1"),
        (("--gpus", 0), "--gpus must be an integer from 1"),
        (("--version-of", "0.13"), "--version-of must come with --target"),
        (("--calibration", "mine.yaml"), "--accelerator must not be given beside --calibration"),
        (("--target", "megatrn"), "did you mean megatron?"),
        (("--model", "config.json"), "--hidden must not be given beside --model"),
        (("--precision", "fp8", "--accelerator", "a100"), "precision"),
        (("--rows", 0), "--rows must be an integer from 1"),
    ],
)
def test_what_cannot_be_is_one_message(evenflow, folder, more, message):
    result = evenflow(*ASKED, *more)
    assert result.exit_code == 2
    assert message in result.stderr
    assert "Traceback" not in result.output
    assert result.stdout == ""


def test_what_fits_nowhere_ends_with_3(evenflow, folder):
    result = evenflow(*ASKED, "--memory", "100MB", "--json", "tune.json")
    assert result.exit_code == 3
    assert "no configuration fits" in result.stderr
    found = json.loads((folder / "tune.json").read_text())
    assert (found["status"], found["ranked"]) == ("infeasible", [])


def test_a_calibration_is_the_accelerator(evenflow, folder):
    (folder / "mine.yaml").write_text("base: h100\nname: my cluster\ncalibration: {runs: 12, step_error: 0.02}\n")
    asked = [word for word in ASKED if word not in ("--accelerator", "h100")]
    result = evenflow(*asked, "--calibration", "mine.yaml", "--fix", "tensor=4,pipeline=2,microbatch=1,zero=1")
    assert result.exit_code == 0, result.output
    assert "8 x my cluster" in result.stdout
    assert re.search(r" 3 +[\d,.]+ +[\d.]+ +[\d.]+ +[\d.]+  ", table_of(result.stdout)[1])


def test_the_page_has_the_ranking_and_the_pipelines_of_its_first_rows(answered):
    _text, path = answered
    html = path.with_suffix(".html").read_text()
    page, found = read_page(html), json.loads(path.read_text())
    shown = len(page.head["timelines"])
    assert shown == min(5, len(found["ranked"])) == len(page.plans)
    assert page.plans[0] == {key: value for key, value in found.items() if key != "written_by"}
    assert page.head["timelines"][0]["certificate"] == found["certificate"]
    for row, plan in zip(found["ranked"], page.plans, strict=False):
        assert plan["degrees"]["tensor"] == row["tensor"]
        assert plan["schedule"] == row["schedule"]
    (table,) = re.findall(r'<section class="ranking">(.*?)</section>', html, re.DOTALL)
    assert table.count("<tr>") == 1 + len(found["ranked"])
    assert f"<td>{found['ranked'][0]['schedule']}</td>" in table


@pytest.mark.parametrize("number", [1, 2])
def test_rows_of_the_page_are_plan_files_with_degrees(answered, evenflow, number):
    _text, path = answered
    done = evenflow("export", f"{path.with_suffix('.html')}#{number}", "--to", "megatron")
    assert done.exit_code == 0, done.stderr
    assert "--tensor-model-parallel-size" in done.stdout


def test_rows_fit_as_surely_as_is_asked_for(evenflow, folder):
    """A lower confidence ranks more, and marks what is less sure than usual."""
    found = {}
    for confidence in (0.5, 0.9, 0.99):
        options = ("--memory", "8GB", "--fix", "zero=1", "--confidence", confidence)
        result = evenflow(*ASKED, *options, "--json", "tune.json", "--overwrite")
        assert result.exit_code == 0, result.stderr
        found[confidence] = json.loads((folder / "tune.json").read_text())
        rows = found[confidence]["ranked"]
        assert min(row["fits_probability"] for row in rows) >= confidence - 1e-6
        marked = [line for line in table_of(result.stdout)[1:] if re.search(r"\d!", line)]
        assert len(marked) == sum(row["fits_probability"] < 0.9 for row in rows)
        assert (f"rows below {100 * confidence:g} %") in " ".join(result.stdout.split())
    steps = [one["step_ms"] for one in found.values()]
    assert steps == sorted(steps)
    assert {one["confidence"] for one in found.values()} == {0.5, 0.9, 0.99}


def test_a_confidence_below_even_odds_is_refused(evenflow):
    result = evenflow(*ASKED, "--confidence", 0.2)
    assert result.exit_code == 2
    assert "--confidence" in result.stderr
