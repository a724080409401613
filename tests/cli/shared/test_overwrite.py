"""No verb replaces a file that it did not write, and all of them can be told to."""

from collections.abc import Iterator
from importlib.util import find_spec

import click
import pytest

from evenflow.cli.main import WITH_TORCH, main
from evenflow.cli.sapp.flags import parse
from tests.paths import ROOT


def commands(group: click.Group, *path: str) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        if name in WITH_TORCH and not find_spec("evenflow_torch"):
            continue
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name), command


EVERY = dict(commands(main))
RESULT = {"report": "--output"}
"""Option that names the result of a verb, where that is another than ``--json``."""
PAGES = ("--output", "--html")


OWN = {path: command for path, command in EVERY.items() if path != ("demo",)}
"""Verbs with options of their own; those of `demo` are those of `plan`."""


@pytest.mark.parametrize("command", OWN.values(), ids=map(" ".join, OWN))
def test_a_verb_that_writes_files_can_be_told_to_replace_others(command):
    options = {name: parameter for parameter in command.params for name in parameter.opts}
    assert {RESULT.get(command.name, "--json"), "--overwrite"} <= set(options)
    assert options["--overwrite"].is_flag


def test_the_compatible_command_too():
    assert parse([]).overwrite is False
    assert parse(["--overwrite"]).overwrite is True


SIZES = ("--ranks", 2, "--microbatches", 2)
CASES = {
    "predict": (
        *("--hidden", 64, "--layers", 4, "--heads", 4, "--vocab", 320, "--accelerator", "h100"),
        *("--global-batch", 8, "--seq", 64),
    ),
    "calibrate": (ROOT / "benchmarks/published/data/torchtitan.csv", "--accelerator", "h100-96"),
    "tune": (
        *("--hidden", 64, "--layers", 2, "--heads", 4, "--vocab", 320, "--accelerator", "h100"),
        *("--gpus", 2, "--global-batch", 8, "--seq", 64),
    ),
    "plan": ("tiny.json", *SIZES, "--time-limit", 1),
    "demo": ("--time-limit", 1),
    "config": (),
    "simulate": ("tiny.json", "--layers", "2,2", "--microbatches", 2),
    "compare": ("tiny.json", *SIZES),
    "verify": ("certificate.json",),
    "memory-curve": ("plan.json", "--memory", "1GB", "--time-limit", 1),
    "replan": ("plan.json", "--rank-speed", "1:0.5", "--time-limit", 1),
    "schedules": (),
    "schedule show": ("1f1b", *SIZES),
    "schedule check": ("order.csv",),
    "guide": ("--ranks", 4, "--layers", 80, "--recompute", "none"),
    "collect-peaks": ("logs.txt",),
    "fit-memory": ("init.yaml",),
    "read-trace": (".", "--layers", 2, "--microbatches", 2),
    "run": ("plan.json", "--model", "llama-tiny"),
    "auto": ("--model", "config.json", "--mesh", "1x2", "--microbatches", 2),
    "profile": ("--model", "config.json", "--seq", 8),
    "quick-tune": ("tiny.json", *SIZES),
    "report": ("plan.json",),
    "export": ("plan.json", "--to", "megatron"),
    "apply": ("plan.json", "train.yaml"),
}


def test_every_verb_has_a_case():
    assert set(map(" ".join, EVERY)) == set(CASES)


@pytest.mark.usefixtures("fake_solver")
@pytest.mark.parametrize("verb", CASES)
def test_a_file_of_somebody_else_is_refused_before_the_work(folder, evenflow, verb):
    option = RESULT.get(verb, "--json")
    file = folder / ("mine.html" if option in PAGES else "mine.json")
    file.write_text("{}")
    result = evenflow(*verb.split(), *CASES[verb], option, file.name)
    assert (result.exit_code, result.stdout) == (2, "")
    assert file.read_text() == "{}"
    if " must not be a file that evenflow did not write" not in result.stderr:  # what it reads was looked at first
        assert "no such file" in result.stderr or "Missing" in result.stderr
        read_first = (
            "verify",
            "memory-curve",
            "replan",
            "collect-peaks",
            "fit-memory",
            "read-trace",
            "run",
            "auto",
            "profile",
            "schedule check",
        )
        assert verb in (*read_first, "export", "apply")


@pytest.mark.usefixtures("fake_solver")
@pytest.mark.parametrize(
    "verb",
    [
        "predict",
        "tune",
        "calibrate",
        "plan",
        "simulate",
        "compare",
        "schedules",
        "schedule show",
        "guide",
        "quick-tune",
    ],
)
def test_the_same_command_again_replaces_its_own_file(folder, evenflow, verb):
    command = (*verb.split(), *CASES[verb], "--json", "result.json")
    first = evenflow(*command)
    assert first.exit_code == 0, first.stderr
    again = evenflow(*command)
    assert again.exit_code == 0, again.stderr
    (folder / "result.json").write_text("mine")
    assert evenflow(*command).exit_code == 2
    assert evenflow(*command, "--overwrite").exit_code == 0


@pytest.mark.usefixtures("fake_solver")
@pytest.mark.parametrize("verb", ["tune", "plan", "simulate", "compare", "schedule show"])
def test_the_same_command_again_replaces_its_own_page(folder, evenflow, verb):
    command = (*verb.split(), *CASES[verb], "--html", "report.html")
    first = evenflow(*command)
    assert first.exit_code == 0, first.stderr
    again = evenflow(*command)
    assert again.exit_code == 0, again.stderr
    changed = (folder / "report.html").read_text().replace("<h1>", "<h1>mine ")
    (folder / "report.html").write_text(changed)
    refused = evenflow(*command)
    assert refused.exit_code == 2
    assert "--html must not be a file that was changed after evenflow wrote it" in refused.stderr
    assert (folder / "report.html").read_text() == changed
    assert evenflow(*command, "--overwrite").exit_code == 0
