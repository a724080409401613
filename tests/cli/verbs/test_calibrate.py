"""``evenflow calibrate``: what it prints and writes, and that `predict` takes on what it wrote."""

import json

import pytest

from evenflow.predict.calibration.measurement import Quantity
from evenflow.profiles.accelerator_file import read_accelerator_file
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.to_calibrate import measurement_of
from tests.profiles.measured.logs.written import titan_head, titan_step
from tests.profiles.measured.rows import csv_text, make_run

SHAPES = [
    {"id": f"h{hidden} t{tensor}", "hidden": str(hidden), "ffn": str(4 * hidden), "head_dim": str(hidden // 32),
     "tp": str(tensor), "dp": str(4 // tensor), "gbs": str(32 // tensor)}
    for hidden in (512, 2048, 8192) for tensor in (1, 2, 4)
]  # fmt: skip
TRUTH = {"product_share": 0.45, "operator_ns": 60_000.0}


def measured(**cells: str) -> dict[str, str]:
    """A row whose step is what an H100 would take that reaches `TRUTH`."""
    one = measurement_of(completed(make_run(**cells)))
    return {**cells, "step_s": str(one.predicted(Quantity.TIME, one.reached.changed(TRUTH)) / 1e9)}


@pytest.fixture(scope="module")
def rows() -> list[dict[str, str]]:
    return [measured(**shape) for shape in SHAPES]


@pytest.fixture
def runs(folder, rows):
    """The CSV file of nine runs."""
    (folder / "measured.csv").write_text(csv_text(*rows))
    return "measured.csv"


def test_an_accelerator_file_is_written_that_a_prediction_takes(evenflow, folder, runs) -> None:
    result = evenflow("calibrate", runs, "-o", "ours.yaml", "--fit", "product_share,operator_ns")
    assert (result.exit_code, result.stderr) == (0, "wrote ours.yaml\n")
    written = read_accelerator_file(folder / "ours.yaml")
    assert written.name == "ours"
    for name, value in TRUTH.items():
        assert getattr(written.reached, name) == pytest.approx(value, rel=0.02)
        assert written.reached.standard_errors[name] > 0
    assert written.calibration is not None
    assert (written.calibration.runs, written.calibration.files) == (9, ("measured.csv",))
    asked = ("predict", "--hidden", 4096, "--layers", 32, "--heads", 32, "--vocab", 50257, "--seq", 2048)
    sizes = (*asked, "--gpus", 8, "--tensor", 4, "--global-batch", 16)
    steps = []
    for name in ("ours.yaml", "h100"):
        assert evenflow(*sizes, "--accelerator", name, "--json", f"{name}.json").exit_code == 0
        steps.append(json.loads((folder / f"{name}.json").read_text())["step_ms"])
    assert steps[0] > 1.05 * steps[1]


def test_it_prints_parameters_reasons_errors_and_runs(evenflow, runs) -> None:
    lines = evenflow("calibrate", runs, "--fit", "operator_ns,product_share,network_share").stdout.splitlines()
    assert lines[0] == "9 runs on h100"
    assert [line.split()[0] for line in lines[2:5]] == ["fitted", "product_share", "operator_ns"]
    assert lines[6].split() == ["not", "fitted", "value", "why"]
    assert lines[7].startswith("network_share")
    assert lines[7].endswith("no run waits for transfers between nodes")
    assert lines[9].startswith("mean error of steps: ")
    assert lines[10].startswith("expected of other runs like these: ")
    assert {line.split()[0] for line in lines[13:]} == {"h512", "h2048", "h8192"}
    assert len(lines) == 13 + len(SHAPES)


def test_json_has_all_runs_and_the_same_parameters(evenflow, folder, runs) -> None:
    evenflow("calibrate", runs, "--json", "fit.json", "--fit", "product_share,operator_ns")
    result = json.loads((folder / "fit.json").read_text())
    assert result["calibrated_from"] == "h100"
    assert [one["name"] for one in result["fitted"]] == ["product_share", "operator_ns"]
    assert [one["name"] for one in result["time"]["runs"]] == [shape["id"] for shape in SHAPES]
    assert result["time"]["error_after"] < 0.01 < result["time"]["error_before"]
    assert result["memory"] == {"error_before": None, "error_after": None, "error_expected": None, "runs": []}


def test_what_is_assumed_and_left_out_is_noted(evenflow, folder, rows) -> None:
    text = csv_text(*({**row, "vocab": ""} for row in rows), {"id": "older", "hardware": "a100"})
    (folder / "measured.csv").write_text(text)
    result = evenflow("calibrate", "measured.csv", "--accelerator", "h100", "--fit", "product_share")
    assert result.stderr.splitlines() == [
        "note: 9 runs do not state vocab: 50257 is taken (the vocabulary of GPT-2)",
        "note: older is left out: it ran on a100",
    ]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--fit", "product"), "error: --fit must be one of "),
        (("--fit", "link_share,link_share"), "error: --fit is given twice, got 'link_share'"),
        (("-o", "ours.txt"), "error: --output must end in .yaml, .yml or .json, got 'ours.txt'"),
        (("-o", "measured.csv"), "error: --output must not be the same file as the input measured.csv"),
        (("--accelerator", "abacus"), "error: --accelerator must be one of "),
        (("--accelerator", "mi300x"), "error: the run h512 t1 must be one that can be predicted: it ran on h100"),
    ],
)  # fmt: skip
def test_bad_input_is_one_message(evenflow, runs, arguments, message) -> None:
    result = evenflow("calibrate", runs, *arguments)
    assert result.exit_code == 2
    assert result.stderr.startswith(message)
    assert result.stderr.count("\n") == 1


def test_a_file_that_is_there_is_kept(evenflow, folder, runs) -> None:
    (folder / "ours.yaml").write_text("mine: 1\n")
    result = evenflow("calibrate", runs, "-o", "ours.yaml")
    assert result.exit_code == 2
    assert (folder / "ours.yaml").read_text() == "mine: 1\n"


def test_more_runs_than_a_table_has_are_counted(evenflow, folder, rows) -> None:
    many = [{**row, "id": f"{row['id']} {copy}"} for row in rows for copy in range(2)]
    (folder / "measured.csv").write_text(csv_text(*many))
    result = evenflow("calibrate", "measured.csv", "--fit", "product_share")
    assert result.stdout.splitlines()[-1] == "and 6 more"


def test_a_folder_of_logs_is_taken(evenflow, folder) -> None:
    (folder / "logs").mkdir()
    for number, tps in enumerate((5000, 6000)):
        lines = [*titan_head(), *(titan_step(step, tps, memory_gib=50 + number) for step in range(1, 31))]
        (folder / "logs" / f"run{number}").mkdir()
        (folder / "logs" / f"run{number}" / "rank0.log").write_text("\n".join(lines))
    result = evenflow("calibrate", "logs", "--accelerator", "h100", "--json", "fit.json")
    assert result.exit_code == 0, result.stderr
    fitted = json.loads((folder / "fit.json").read_text())
    assert fitted["runs"] == 2
    assert [one["measured_ms"] for one in fitted["time"]["runs"]] == [
        pytest.approx(8192 / tps * 1000, rel=1e-3) for tps in (5000, 6000)
    ]
    assert [one["measured_mb"] for one in fitted["memory"]["runs"]] == [50 * 1024, 51 * 1024]
