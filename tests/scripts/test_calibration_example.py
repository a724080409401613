"""The example of evenflow calibrate in its page is what the command prints."""

from pathlib import Path

from click.testing import CliRunner

from evenflow.cli.main import main

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_output_of_its_command(tmp_path: Path) -> None:
    runs = ROOT / "benchmarks" / "published" / "data" / "mlperf.csv"
    arguments = ["calibrate", str(runs), "--accelerator", "gb200", "-o", str(tmp_path / "ours.yaml"), "--lang", "en"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    printed = result.stdout[result.stdout.index("7 runs on gb200") :].split("\nnote:")[0].split("\nwrote")[0]
    page = (ROOT / "docs" / "calibrate.md").read_text(encoding="utf-8")
    assert f"```text\n{printed.rstrip()}\n```" in page
