import json

import pytest

from tests.report.decoder import read_page

SIZES = ("--ranks", 2, "--microbatches", 2)
MANUAL = """\
mine:
  offset: [[1, -1]]
  recompute: [[3, 0]]
  interleave_num: 1
  show: false
  file_name: "mine.svg"
two chunks:
  offset: 0
  interleave_num: 2
"""

pytestmark = pytest.mark.usefixtures("fake_solver")


def table(text: str) -> dict[str, list[str]]:
    """The cells of each row by the name of its plan."""
    rows = [line.split("  ") for line in text.splitlines()]
    return {row[0]: [cell.strip() for cell in row[1:] if cell.strip()] for row in rows if len(row) > 3}


def test_every_strategy_in_one_table_and_a_picture_of_each(folder, evenflow):
    (folder / "mine.yaml").write_text(MANUAL)
    result = evenflow(
        "compare", "tiny.json", *SIZES, "--memory", "230MB", "--manual", "mine.yaml", "--output-folder", "pictures",
        "--json", "all.json",
    )  # fmt: skip
    assert result.exit_code == 0
    rows = table(result.stdout)
    assert list(rows) == ["plan", "recommended", "naive_all_recomp", "naive_no_recomp", "mine", "two chunks"]
    # As in test_plan.py: 24 ms with everything recomputed, 18 without, which does not fit on rank 0.
    assert rows["recommended"][:2] == ["24.000", "+0.00 %"]
    assert rows["naive_all_recomp"][:2] == ["24.000", "+0.00 %"]
    assert rows["naive_all_recomp"][-2:] == ["204.0", "fits"]
    assert rows["naive_no_recomp"][:2] == ["18.000", "-25.00 %"]
    assert rows["naive_no_recomp"][-2:] == ["240.0", "OVER on 1 of 2 ranks"]
    # Three recomputed layers on rank 0 take 3 and 9 ms, the plain one on rank 1 1 and 2 ms: B0 on rank 0 at 6..15, B1
    # at 15..24.
    assert rows["mine"][0] == "24.000"
    assert rows["mine"][-2:] == ["306.0", "OVER on 1 of 2 ranks"]
    assert "\nrecommended:\nTo put in yaml configuration:\n" in result.stdout
    assert result.stdout.count("To put") == 1  # the manual file has plans in MindFormers' words
    plain = evenflow("compare", "tiny.json", *SIZES, "--memory", "230MB", "--output-folder", "others")
    assert "\nrecommended: next: evenflow plan with the same options and --target NAME" in plain.stdout
    assert "To put" not in plain.stdout
    pictures = {path.name for path in (folder / "pictures").iterdir()}
    assert pictures == {
        "result.svg", "result_naive_all_recomp.svg", "result_naive_no_recomp.svg", "mine.svg", "two chunks.svg",
        "comparison.svg",
    }  # fmt: skip
    written = json.loads((folder / "all.json").read_text())
    assert list(written) == ["recommended", "naive_all_recomp", "naive_no_recomp", "mine", "two chunks"]
    assert written["mine"]["layers"] == [[3, 1]]
    assert written["recommended"]["status"] == "feasible"


def test_naive_strategies_that_cannot_be_made_are_skipped_with_a_reason(folder, evenflow):
    text = (folder / "tiny.json").read_text().replace(', "memory_recompute": 1', "")
    (folder / "plain.json").write_text(text)
    result = evenflow("compare", "plain.json", "--ranks", 2, "--microbatches", 2, "--memory", "1GB", "--json", "c.json")
    assert result.exit_code == 0
    assert "naive_all_recomp is skipped: " in result.stdout
    assert "no recompute kind" in result.stdout
    assert "naive_all_recomp" not in table(result.stdout)
    assert json.loads((folder / "c.json").read_text())["naive_all_recomp"]["status"] == "skipped"
    assert not (folder / "output" / "result_naive_all_recomp.svg").exists()


def test_no_naive(folder, evenflow):
    result = evenflow("compare", "tiny.json", *SIZES, "--no-naive")
    assert result.exit_code == 0
    assert list(table(result.stdout)) == ["plan", "recommended"]


def test_an_infeasible_recommendation_leaves_the_others(folder, evenflow):
    result = evenflow("compare", "tiny.json", *SIZES, "--memory", "100MB")
    assert result.exit_code == 3
    assert "infeasible" in result.stderr
    assert list(table(result.stdout)) == ["plan", "naive_all_recomp", "naive_no_recomp"]
    assert not (folder / "output" / "result.svg").exists()


@pytest.mark.parametrize(
    ("manual", "parts"),
    [
        ("a: {offset: [[1, 1]], interleave_num: 1}", ("a.offset", "0")),
        ("a: {offset: 0, file_name: ../a.svg}", ("a.file_name", "../a.svg")),
        ("a: {offset: 0, file_name: result.svg}", ("a.file_name", "result.svg")),
        ("a: {offset: 0, file_name: x.svg}\nb: {offset: 0, file_name: x.svg}", ("b.file_name", "x.svg")),
        ("a: {offset: 0, select_recompute: true}", ("select_recompute", "select")),
        ("a: [", ("not YAML",)),
    ],
)
def test_bad_manual_files_are_one_message_before_the_solve(folder, evenflow, manual, parts):
    (folder / "mine.yaml").write_text(manual)
    result = evenflow("compare", "tiny.json", *SIZES, "--manual", "mine.yaml")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr.startswith(("error: mine.yaml", "error: cannot read mine.yaml"))
    for part in parts:
        assert part in result.stderr
    assert {path.name for path in folder.iterdir()} == {"tiny.json", "mine.yaml"}


@pytest.mark.parametrize("file", ["plan.json", "plan.html"])
def test_a_plan_file_or_a_report_is_compared_with_what_is_recommended(folder, evenflow, file):
    made = evenflow(
        *(
            "simulate",
            "tiny.json",
            "--microbatches",
            3,
            "--layers",
            "3,1",
            "--memory",
            "450MB",
            "--p2p-latency",
            "500us",
        ),
        *("--json", "plan.json", "--html", "plan.html"),
    )
    assert made.exit_code == 0, made.stderr
    result = evenflow("compare", file, "--json", "all.json", "--html", "all.html")
    assert result.exit_code == 0, result.stderr
    written = json.loads((folder / "all.json").read_text())
    assert list(written) == ["recommended", "given", "naive_all_recomp", "naive_no_recomp"]
    plan = json.loads((folder / "plan.json").read_text())
    assert written["given"]["makespan_ms"] == plan["makespan_ms"], "with the messages of the file"
    assert {each["memory_limit_mb"] for each in written.values()} == {450.0}
    assert (folder / "output" / "given.svg").exists()
    page = read_page((folder / "all.html").read_text())
    assert [each["name"] for each in page.head["timelines"]] == list(written)
    assert [carried["makespan_ms"] for carried in page.plans] == [each["makespan_ms"] for each in written.values()]
    assert page.plans[0]["status"] == "feasible", "the recommended plan with its proof"
    other = evenflow("compare", file, "--microbatches", 2, "--memory", "1GB", "--json", "other.json")
    assert other.exit_code == 0, other.stderr
    written = json.loads((folder / "other.json").read_text())
    assert (written["recommended"]["microbatches"], written["given"]["microbatches"]) == (2, 3)
    assert written["given"]["memory_limit_mb"] == 1024.0


def test_what_is_recommended_leaves_the_error_of_fitted_memory_free(folder, evenflow):
    fields = json.loads((folder / "tiny.json").read_text())
    error = {"standard_error_mb": 5, "degrees_of_freedom": 8, "terms": ["constant"], "covariance": [[0.2]]}
    (folder / "fitted.json").write_text(json.dumps({**fields, "peak_error": error}))
    result = evenflow("compare", "fitted.json", *SIZES, "--memory", "10GB", "--json", "c.json")
    assert result.exit_code == 0
    assert "fits in 10,240 MB with probability > 0.99: fitted peaks are 5 MB off" in result.stdout
    written = json.loads((folder / "c.json").read_text())
    assert written["recommended"]["memory_limit_mb"] == 10235
    assert written["recommended"]["fits"]["limit_mb"] == 10240
