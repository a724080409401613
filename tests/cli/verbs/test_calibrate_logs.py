"""Calibration on logs: what was read can be filled in and given back."""

from evenflow.predict.prediction import predict
from evenflow.profiles.measured.as_training import training_of
from evenflow.profiles.measured.assumptions import completed
from evenflow.profiles.measured.sources import read_measured
from evenflow.targets.registry import log_formats
from tests.profiles.measured.logs.written import LLAMA, arguments, steps, titan_step

WIDTHS = (1024, 2048, 4096, 8192)


def write_logs(folder, times_ms):
    """Logs of trainings that differ in width, each of ten steps behind two slow ones."""
    folder.mkdir(exist_ok=True)
    for width in WIDTHS:
        sizes = LLAMA | {"hidden_size": width, "ffn_hidden_size": 4 * width, "kv_channels": width // 32}
        lines = [*arguments(sizes | {"padded_vocab_size": 32000}), *steps([99999, 9999, *[times_ms[width]] * 10])]
        (folder / f"h{width}.log").write_text("\n".join(lines))


def test_logs_of_what_is_predicted_leave_no_error(folder, evenflow):
    write_logs(folder / "logs", dict.fromkeys(WIDTHS, 1000.0))
    runs = read_measured([folder / "logs"], formats=log_formats())
    assert [run.hidden for run in runs] == list(WIDTHS)
    predicted = {run.hidden: predict(*training_of(completed(run))).step_ns / 1e6 for run in runs}
    write_logs(folder / "logs", predicted)
    result = evenflow("calibrate", "logs", "--accelerator", "h100", "--fit", "product_share")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("4 runs on h100\n")
    assert "mean error of steps: 0.0 % before, 0.0 % after" in result.stdout


def test_what_a_log_lacks_is_filled_in(folder, evenflow):
    (folder / "a.log").write_text("\n".join(titan_step(number, 8192) for number in range(1, 12)))
    refused = evenflow("calibrate", "a.log", "--accelerator", "h100", "--runs", "runs.csv")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "it does not state hidden, layers, seq, gbs, mbs, tp, pp" in refused.stderr
    assert "fill it in: --runs FILE" in refused.stderr
    header, row = (folder / "runs.csv").read_text().splitlines()
    cells = dict(zip(header.split(","), row.split(","), strict=False))
    whole = {"hidden": 4096, "layers": 32, "seq": 8192, "gbs": 64, "mbs": 1, "tp": 1, "pp": 1, "dp": 64, "step_s": 1.1}
    filled = ",".join(str(whole.get(name, cells[name])) for name in cells if name != "notes")
    (folder / "filled.csv").write_text(f"{','.join(name for name in cells if name != 'notes')}\n{filled}\n")
    result = evenflow("calibrate", "filled.csv", "--accelerator", "h100", "--fit", "product_share")
    assert result.exit_code == 0, result.stderr
    assert result.stdout.startswith("1 run on h100\n")


def test_a_file_with_runs_that_is_there_is_kept(folder, evenflow):
    write_logs(folder / "logs", dict.fromkeys(WIDTHS, 1000.0))
    (folder / "runs.csv").write_text("mine")
    refused = evenflow("calibrate", "logs", "--accelerator", "h100", "--runs", "runs.csv", "--fit", "step_ns")
    assert (refused.exit_code, (folder / "runs.csv").read_text()) == (2, "mine")
    assert "--overwrite" in refused.stderr
