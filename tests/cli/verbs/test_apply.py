"""``evenflow apply``: the user's own file with a plan, beside it or in place."""

import json

import pytest

from evenflow.cli.shared.files.written_mark import marked
from tests.cli.conftest import files_in

pytestmark = pytest.mark.usefixtures("targets")
OWN = "# example\nstages = 1   \nlayers = 4\nfull = 4\nmicrobatches = 1\nlearning = fast"
PLANNED = "# example\nstages = 2\nlayers = 3,1\nfull = 1\nmicrobatches = 2\nlearning = fast"
CHANGES = """\
--- run.conf
+++ run.planned.conf
@@ -2,4 +2,4 @@
-stages = 1   
-layers = 4
-full = 4
-microbatches = 1
+stages = 2
+layers = 3,1
+full = 1
+microbatches = 2
"""  # noqa: W291


@pytest.fixture(autouse=True)
def files(folder, evenflow):
    made = evenflow(
        "simulate", "tiny.json", "--microbatches", 2, "--layers", "3,1", "--recompute", "full=1,1", "--memory", "400MB",
        "--json", "plan.json",
    )  # fmt: skip
    assert made.exit_code == 0, made.stderr
    (folder / "run.conf").write_text(OWN)


@pytest.mark.parametrize("form", ["unix", "windows", "bom"])
def test_the_planned_file_stands_beside_the_given_one(folder, evenflow, form):
    def in_form(text: str) -> bytes:
        return {"unix": text, "windows": text.replace("\n", "\r\n"), "bom": "\ufeff" + text}[form].encode()

    (folder / "run.conf").write_bytes(in_form(OWN))
    result = evenflow("apply", "plan.json", "run.conf", "--to", "example", "--json", "out.json")
    assert (result.exit_code, result.stderr) == (0, "")
    assert (folder / "run.conf").read_bytes() == in_form(OWN)
    assert (folder / "run.planned.conf").read_bytes() == marked(in_form(PLANNED), first_line=True)
    assert "exact: Example runs the plan as it is" in result.stdout
    assert f"{CHANGES}\norder.csv, its order:\n0F0,0B0\n\nenvironment variables:\nFAST=1\n" in result.stdout
    assert "wrote run.planned.conf, out.json" in result.stdout
    assert json.loads((folder / "out.json").read_text())["file"] == "run.planned.conf"


def test_the_framework_is_recognised_and_the_file_edited_in_place(folder, evenflow):
    before = files_in(folder)
    result = evenflow("apply", "plan.json", "run.conf", "--in-place")
    assert result.exit_code == 0
    assert (folder / "run.conf").read_text() == PLANNED
    assert files_in(folder) == before
    again = evenflow("apply", "plan.json", "run.conf", "--in-place")
    assert "no line changes: the plan is there already" in again.stdout
    assert (folder / "run.conf").read_text() == PLANNED


def test_a_planned_file_that_was_changed_stays(folder, evenflow):
    assert evenflow("apply", "plan.json", "run.conf").exit_code == 0
    assert evenflow("apply", "plan.json", "run.conf").exit_code == 0
    with (folder / "run.planned.conf").open("a") as file:
        file.write("mine")
    refused = evenflow("apply", "plan.json", "run.conf")
    assert refused.exit_code == 2
    assert "was changed after evenflow wrote it" in refused.stderr
    assert evenflow("apply", "plan.json", "run.conf", "--overwrite").exit_code == 0


def test_json_has_no_comment(folder, evenflow):
    (folder / "run.json").write_text(OWN)
    assert evenflow("apply", "plan.json", "run.json", "--to", "example").exit_code == 0
    assert (folder / "run.planned.json").read_text() == PLANNED


def test_over_the_limit_the_file_stays(folder, evenflow):
    result = evenflow("apply", "plan.json", "run.conf", "--in-place", "--memory", "100MB")
    assert (result.exit_code, result.stdout) == (3, "")
    assert (folder / "run.conf").read_text() == OWN
    assert evenflow("apply", "plan.json", "run.conf", "--in-place", "--memory", "100MB", "--over-limit").exit_code == 0


@pytest.mark.parametrize(
    ("content", "arguments", "says"),
    [
        (
            "some text",
            (),
            "run.conf must be a configuration of a framework that is known; name the framework with --to",
        ),
        (OWN, ("--to", "unchecked"), "--to must be one of example, mindformers, whose files can be edited"),
        ("# example\n", (), "run.conf must have the key stages"),
        (b"\xff\xfe", (), "not UTF-8"),
        (OWN, ("--json", "run.conf"), "must not be the same file"),
    ],
)
def test_bad_input_is_one_message_and_nothing_is_written(folder, evenflow, content, arguments, says):
    (folder / "run.conf").write_bytes(content if isinstance(content, bytes) else content.encode())
    before = files_in(folder)
    result = evenflow("apply", "plan.json", "run.conf", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr
    assert files_in(folder) == before


def test_a_folder_is_no_file(folder, evenflow):
    result = evenflow("apply", "plan.json", ".")
    assert result.exit_code == 2
    assert "it is a folder" in result.stderr
