"""``evenflow export``: what is printed and written for a framework, and what is refused."""

import json
from dataclasses import replace

import pytest
from click.shell_completion import ShellComplete

from evenflow.cli.main import main
from evenflow.model import Recomputation, Scope
from evenflow.profiles.plan_file import parse_plan_file
from evenflow.targets import registry
from tests.cli.conftest import files_in
from tests.cli.verbs.targets import EXAMPLE

pytestmark = pytest.mark.usefixtures("targets")
PRINTED = """\
tiny: 4 layers on 2 ranks x 1 chunk, 2 microbatches, 1f1b

exact: Example runs the plan as it is, 19.000 ms a step of the pipeline
fits: peak 322.0 MB on rank 0, 78.0 MB within the limit of 400.0 MB
Example 2.0: checked with example 2.1

settings:
# version 2.0
stages = 2
layers = 3,1
full = 1
microbatches = 2

its order:
0F0,0B0

a script:
#!/bin/sh
stages = 2
layers = 3,1
full = 1
microbatches = 2

environment variables:
FAST=1

note: start it anew
"""
LOST = """\
tiny: 4 layers on 2 ranks x 1 chunk, 2 microbatches, 1f1b

Example cannot run the plan as it is:
  recompute is one number on Example: 5.0 % slower, same peak
what it runs takes 21.000 ms a step, +5.0 %
the shortest plan that it can run: evenflow plan … --target example
fits: peak 342.0 MB on rank 0, 3.0 MB within the limit of 345.0 MB
Example 2.0: checked with example 2.1
"""


@pytest.fixture
def made(folder, evenflow):
    """Writes plan.json: layers 3 and 1 of two ranks, of which so many recompute in full."""

    def make(full: str = "1,1", memory: str = "400MB") -> None:
        made = evenflow(
            "simulate", "tiny.json", "--microbatches", 2, "--layers", "3,1", "--recompute", f"full={full}",
            "--memory", memory, "--json", "plan.json", "--overwrite",
        )  # fmt: skip
        assert made.exit_code == 0, made.stderr

    make()
    return make


def test_an_exact_plan_with_all_its_pieces(made, evenflow):
    result = evenflow("export", "plan.json", "--to", "example")
    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout == PRINTED.replace("19.000", "21.000").replace("322.0", "342.0").replace("78.0", "58.0")


def test_a_loss_has_a_price(made, folder, evenflow):
    made("1,0", "345MB")
    result = evenflow("export", "plan.json", "--to", "example", "--json", "out.json")
    assert result.exit_code == 0
    assert result.stdout.startswith(LOST)
    written = json.loads((folder / "out.json").read_text())
    assert (written["target"], written["target_version"], written["exact"]) == ("example", "2.0", False)
    (loss,) = written["losses"]
    assert (loss["longer_ms"], loss["more_mb"], loss["rank"]) == (1.0, 0.0, 0)
    assert written["pieces"][1] == {
        "title": "its order",
        "syntax": "csv",
        "file_name": "order.csv",
        "text": "0F0,0B0\n",
    }
    assert (written["environment"], written["notes"]) == ({"FAST": "1"}, ["start it anew"])
    again = parse_plan_file((folder / "out.json").read_text(), place="out.json")
    assert again.plan.recompute == {"full": ((1, 1),)}
    assert evenflow("export", "out.json", "--to", "example").stdout.count("exact: ") == 1


def test_another_target_of_the_same_framework_may_run_it_all(made, evenflow, monkeypatch):
    free = replace(EXAMPLE.abilities("2.0"), recomputation=(Recomputation(scope=Scope.LAYERS),))
    adapted = replace(EXAMPLE, name="adapted", abilities=lambda version: free)
    monkeypatch.setattr(registry, "all_targets", lambda: {"example": EXAMPLE, "adapted": adapted})
    made("1,0", "345MB")
    assert "\n--to adapted runs the plan as it is\n" in evenflow("export", "plan.json", "--to", "example").stdout
    made("1,1")
    assert "--to adapted" not in evenflow("export", "plan.json", "--to", "example").stdout


def test_over_the_limit_nothing_is_written_unless_asked_for(made, folder, evenflow):
    made("3,0", "310MB")  # 306 MB, of which an older version knows no recomputation
    before = files_in(folder)
    command = ("export", "plan.json", "--to", "example", "--version-of", "1.5", "-o", "out", "--json", "out.json")
    result = evenflow(*command)
    assert (result.exit_code, result.stdout) == (3, "")
    for part in (
        "Example has no recomputation full: ",
        "MB over the limit of 310.0 MB",
        "--target example --version-of 1.0",
    ):
        assert part in result.stderr
    assert files_in(folder) == before
    result = evenflow(*command, "--over-limit")
    assert result.exit_code == 0
    assert files_in(folder) == before | {"out/order.csv", "out/run.sh", "out.json"}


def test_a_limit_of_its_own_holds_for_an_exact_plan_too(made, evenflow):
    result = evenflow("export", "plan.json", "--to", "example", "--memory", "100MB")
    assert result.exit_code == 3
    assert "exact: Example" in result.stderr
    assert "over the limit of 100.0 MB" in result.stderr


def test_pieces_that_are_files_are_written_and_replaced(made, folder, evenflow):
    command = ("export", "plan.json", "--to", "example", "--output-folder", "out")
    first = evenflow(*command)
    assert first.exit_code == 0
    assert "wrote out/order.csv, out/run.sh" in first.stdout
    assert (folder / "out/order.csv").read_text() == "0F0,0B0\n"
    script = (folder / "out/run.sh").read_text().splitlines()
    assert script[0] == "#!/bin/sh"
    assert script[1].startswith("# written by evenflow ")
    assert script[2] == "stages = 2"
    assert evenflow(*command).exit_code == 0
    with (folder / "out/run.sh").open("a") as file:
        file.write("mine\n")
    refused = evenflow(*command)
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "the file run.sh must not be a file that was changed" in refused.stderr
    assert evenflow(*command, "--overwrite").exit_code == 0


def test_all_that_is_pasted_is_said(made, folder, evenflow):
    (folder / "plain.json").write_text(json.dumps({**json.loads((folder / "plan.json").read_text()), "recompute": {}}))
    result = evenflow("export", "plain.json", "--to", "unchecked", "-o", "out")
    assert result.exit_code == 0
    assert "Unchecked 1: written to the documentation, not run" in result.stdout
    assert "no file is written" in result.stderr
    assert not (folder / "out").exists()


def test_a_plan_file_of_an_older_version(made, folder, evenflow):
    old = json.loads((folder / "plan.json").read_text())
    del old["network"], old["communication"]
    (folder / "old.json").write_text(json.dumps(old))
    result = evenflow("export", "old.json", "--to", "example")
    assert result.exit_code == 0
    assert result.stdout.startswith("exact: Example runs the plan as it is; its model is not in the file\nExample 2.0")
    refused = evenflow("export", "old.json", "--to", "unchecked")
    assert refused.exit_code == 2
    assert "name the model with --layers" in refused.stderr
    result = evenflow("export", "old.json", "--to", "unchecked", "--layers", "tiny.json", "--memory", "1GB")
    assert result.exit_code == 0
    assert "Unchecked has no recomputation full: " in result.stdout


@pytest.mark.parametrize(
    ("content", "arguments", "says"),
    [
        (None, (), "no such file"),
        ("{", (), "not JSON"),
        ("[1]", (), "must be an object"),
        ('{"layers": null}', (), "layers"),
        (b"\x00\xff", (), "not UTF-8"),
        ("{}", ("--to", "exampel"), "did you mean example?"),
        ("{}", ("--version-of", "0.1"), "must be a version of Example from 1.0 on"),
        ("{}", ("--version-of", "new"), "must be a version of Example from 1.0 on"),
        ("{}", ("--memory", "much"), "--memory"),
    ],
)
def test_bad_input_is_one_message(folder, evenflow, content, arguments, says):
    if content is not None:
        (folder / "plan.json").write_bytes(content if isinstance(content, bytes) else content.encode())
    result = evenflow("export", "plan.json", "--to", "example", *arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"layers": [[3, 2]]}, "must add up to the 4 layers"),
        ({"network": {"layers_description": 3}}, "plan.json: network.layers_description must be a list"),
        ({"chunks": 2, "layers": [[1, 1], [1, 1]], "recompute": {}, "schedule": "zbv"}, "Unchecked"),
        ({"schedule": "zigzag"}, "zigzag"),
    ],
)
def test_a_plan_that_cannot_be_is_one_message(made, folder, evenflow, change, says):
    (folder / "plan.json").write_text(json.dumps({**json.loads((folder / "plan.json").read_text()), **change}))
    result = evenflow("export", "plan.json", "--to", "unchecked", "--memory", "1GB")
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.count("\n") == 1
    assert says in result.stderr


def test_names_complete_in_the_shell():
    complete = ShellComplete(main, {}, "evenflow", "_EVENFLOW_COMPLETE")
    assert [item.value for item in complete.get_completions(["export", "plan.json", "--to"], "ex")] == ["example"]
    assert {"example", "mindformers"} <= {item.value for item in complete.get_completions(["plan", "--target"], "")}
