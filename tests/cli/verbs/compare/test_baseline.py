"""``evenflow compare --baseline``: what the user runs today beside the best that the same framework runs."""

import json

import pytest

from tests.cli.conftest import files_in

pytestmark = pytest.mark.usefixtures("targets")
OWN = "# example\nstages = 2\nlayers = 3,1\nfull = 3\nmicrobatches = 4\nlearning = fast\n"
CHANGE = """\
change these 2 lines of run.conf:
--- run.conf
+++ run.planned.conf
@@ -3,2 +3,2 @@
-layers = 3,1
-full = 3
+layers = 2,2
+full = 0
"""


@pytest.fixture
def own(folder):
    def write(text: str = OWN, name: str = "run.conf") -> None:
        (folder / name).write_text(text)

    write()
    return write


def test_yours_beside_the_recommended_plan_and_the_lines_to_change(own, folder, evenflow):
    result = evenflow(
        "compare", "tiny.json", "--baseline", "run.conf", "--memory", "320MB", "--json", "all.json", "--no-naive",
        "--time-limit", 5,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    # Three recomputed layers take 3 and 9 ms on rank 0, four times, and wait 1 ms for rank 1 before the last backward.
    yours, best = "yours 49.0 ms and 306 MB on rank 0, within 320 MB", "recommended 30.0 ms and 240 MB on rank 0"
    assert f"Example: {yours}; {best}, within 320 MB\n\n{CHANGE}" in result.stdout
    assert [line.split()[0] for line in result.stdout.splitlines() if "fits" in line] == ["recommended", "yours"]
    assert "note: run.conf: one chunk is assumed" in result.stderr
    assert "note: run.conf, line 1: learning is not understood and left out" in result.stderr
    written = json.loads((folder / "all.json").read_text())
    assert list(written) == ["recommended", "yours"]
    assert written["yours"]["notes"] == ["one chunk is assumed"]
    assert written["yours"]["not_understood"] == ["run.conf, line 1: learning"]
    assert written["yours"]["layers"] == [[3, 1]]
    assert (written["recommended"]["ranks"], written["recommended"]["microbatches"]) == (2, 4)
    assert {"output/yours.svg", "output/result.svg", "output/comparison.svg"} <= files_in(folder)
    assert (folder / "run.conf").read_text() == OWN


def test_a_plan_that_cannot_be_beaten_stays(own, evenflow):
    own("# example\nlayers = 2,2\nmicrobatches = 4\n")
    result = evenflow("compare", "tiny.json", "--baseline", "run.conf", "--no-naive", "--time-limit", 5)
    assert result.exit_code == 0, result.stderr
    assert "; keep yours" in result.stdout
    assert "change" not in result.stdout


def test_options_win_over_the_file(own, folder, evenflow):
    result = evenflow(
        "compare", "tiny.json", "--baseline", "run.conf", "--ranks", 4, "--microbatches", 8, "--no-naive",
        "--json", "all.json", "--time-limit", 5,
    )  # fmt: skip
    assert result.exit_code == 0, result.stderr
    written = json.loads((folder / "all.json").read_text())
    assert (written["recommended"]["ranks"], written["recommended"]["microbatches"]) == (4, 8)
    assert (written["yours"]["ranks"], written["yours"]["microbatches"]) == (2, 4)
    chunks = evenflow(
        "compare", "tiny.json", "--baseline", "run.conf", "--chunks", 2, "--no-naive", "--json", "all.json"
    )
    assert chunks.exit_code == 0, chunks.stderr
    assert json.loads((folder / "all.json").read_text())["recommended"]["schedule"] == "interleaved"


def test_best_tries_every_schedule_and_number_of_chunks_of_the_framework(own, folder, evenflow):
    result = evenflow(
        "compare", "tiny.json", "--baseline", "run.conf", "--schedule", "best", "--json", "all.json", "--time-limit", 8
    )
    assert result.exit_code == 0, result.stderr
    written = json.loads((folder / "all.json").read_text())
    # Two chunks idle half as long: 4 x 6 ms and one chunk's 3 ms on the other rank.
    assert (written["recommended"]["schedule"], written["recommended"]["makespan_ms"]) == ("interleaved", 27.0)
    assert written["naive_no_recomp"]["schedule"] == written["yours"]["schedule"] == "1f1b"
    without = evenflow("compare", "tiny.json", "--ranks", 2, "--microbatches", 2, "--schedule", "best")
    assert without.exit_code == 2


def test_stages_without_layers_may_stay(own, folder, evenflow):
    own("# example\nstages = 2\nlayers = 4,0\nfull = 0\nmicrobatches = 1\n")
    result = evenflow("compare", "tiny.json", "--baseline", "run.conf", "--json", "all.json", "--time-limit", 5)
    assert result.exit_code == 0, result.stderr
    assert "; keep yours" in result.stdout


def test_what_cannot_be_edited_is_pasted(own, evenflow):
    own("# example\nlayers = 3,1\nfull = 3\nmicrobatches = 4\n")
    result = evenflow("compare", "tiny.json", "--baseline", "run.conf", "--no-naive", "--time-limit", 5)
    assert result.exit_code == 0, result.stderr
    assert "note: the file cannot be edited; run.conf must have the key stages" in result.stderr
    assert "settings:\n# version 2.0\nstages = 2\nlayers = 2,2\n" in result.stdout
    assert "checked with example 2.1" in result.stdout


def test_no_plan_that_fits_leaves_yours(own, evenflow):
    result = evenflow("compare", "tiny.json", "--baseline", "run.conf", "--memory", "100MB", "--time-limit", 5)
    assert result.exit_code == 3
    assert "infeasible" in result.stderr
    assert "\nyours " in result.stdout


@pytest.mark.parametrize(
    ("text", "arguments", "says"),
    [
        (
            OWN.replace("3,1", "3,2"),
            (),
            "run.conf: number of layers must be the 4 body layers of the layer file, got 5",
        ),
        (
            "nothing",
            (),
            "run.conf must be a configuration of a framework that is known; name the framework with --base",
        ),
        ("nothing", ("--baseline-of", "example"), "run.conf must have the key layers"),
        (OWN, ("--baseline-of", "unchecked"), "--baseline-of must be one of example"),
        (OWN, ("--baseline-of", "exampel"), "did you mean example?"),
        (OWN, ("--schedule", "zb-h1"), "schedule must be one of 1f1b, interleaved for Example"),
    ],
)
def test_bad_input_is_one_message(own, folder, evenflow, text, arguments, says):
    own(text)
    result = evenflow("compare", "tiny.json", "--baseline", "run.conf", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr
    assert files_in(folder) == {"tiny.json", "run.conf"}


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ((), "Missing options '--ranks', '--microbatches', or --baseline or a plan file that says them"),
        (("--ranks", 2), "Missing option '--microbatches', or --baseline"),
        (("--ranks", 2, "--microbatches", 2, "--baseline-of", "example"), "--baseline-of must come with --baseline"),
        (("--baseline", "none.sh"), "no such file"),
    ],
)
def test_what_is_missing_is_said(folder, evenflow, arguments, says):
    result = evenflow("compare", "tiny.json", *arguments)
    assert result.exit_code == 2
    assert says in result.stderr
