"""``--json -``: the result on standard output, everything else on standard error."""

import json

import pytest

SIZES = ("--ranks", 2, "--microbatches", 2)


@pytest.mark.parametrize(
    "words",
    [
        ("plan", "tiny.json", *SIZES),
        ("simulate", "tiny.json", *SIZES),
        ("compare", "tiny.json", *SIZES, "--output-folder", "pictures"),
        ("schedules",),
    ],
)
def test_the_result_is_all_of_standard_output(evenflow, folder, words):
    result = evenflow(*words, "--json", "-")
    assert result.exit_code == 0, result.stderr
    filed = evenflow(*words, "--json", "result.json", "--overwrite")
    assert result.stdout == (folder / "result.json").read_text()
    json.loads(result.stdout)
    said = filed.stdout.replace("wrote result.json, ", "wrote ").replace("wrote result.json\n", "").strip()
    assert said.splitlines()[0] in result.stderr
    assert not (folder / "-").exists()
    assert evenflow("schedules").stdout, "standard output is what it was for the next command"


def test_a_result_without_a_plan_goes_there_too(evenflow, folder):
    result = evenflow("plan", "tiny.json", *SIZES, "--memory", "1MB", "--json", "-")
    assert result.exit_code == 3
    assert json.loads(result.stdout)["status"] == "infeasible"
    assert "infeasible" in result.stderr or "no plan" in result.stderr


@pytest.mark.parametrize("option", ["--svg", "--html", "--trace", "--order"])
def test_no_other_file_goes_there(evenflow, folder, option):
    refused = evenflow("plan", "tiny.json", *SIZES, option, "-")
    assert refused.exit_code == 2
    message = f"error: {option} must name a file: only --json may go to standard output, got '-'; give the file a name"
    assert refused.stderr.startswith(message)
    assert not (folder / "-").exists()
