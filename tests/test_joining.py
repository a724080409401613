"""Packages of other people join by entry points: those of `examples/joining` are installed with pip and used."""

import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import click
import pytest

from evenflow import joining
from evenflow.cluster import Accelerator
from evenflow.errors import InputError
from evenflow.joining import Registry
from evenflow.schedule import FAMILIES
from tests.paths import EXAMPLES

pytestmark = pytest.mark.processes
PACKAGES = ("schedule", "target", "accelerator", "verb")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder in which pip has installed the examples."""
    folder = tmp_path_factory.mktemp("joining")
    sources = [folder / "sources" / name for name in PACKAGES]
    for source in sources:
        shutil.copytree(EXAMPLES / "joining" / source.name, source)
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-index"]
    command += ["--no-deps", "--no-build-isolation", "--target", str(folder / "site"), *map(str, sources)]
    subprocess.run(command, check=True, capture_output=True, text=True, timeout=300)
    return folder / "site"


def python(site: Path, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join(filter(None, (str(site), os.environ.get("PYTHONPATH", ""))))
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=300,
    )


def evenflow(site: Path, *arguments: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    return python(site, "-m", "evenflow", *arguments, cwd=cwd)


def test_a_schedule_and_a_target_are_planned_for(site: Path, tmp_path: Path) -> None:
    layers = EXAMPLES / "llama2_70b.json"
    sizes = ("--ranks", 4, "--microbatches", 8, "--time-limit", 10)
    planned = evenflow(site, "plan", layers, *sizes, "--schedule", "paired-1f1b", "--json", "plan.json", cwd=tmp_path)
    assert planned.returncode == 0, planned.stderr
    assert json.loads((tmp_path / "plan.json").read_text())["schedule"] == "paired-1f1b"
    assert "paired-1f1b" in evenflow(site, "schedules", cwd=tmp_path).stdout
    targeted = evenflow(site, "plan", layers, *sizes, "--target", "shortline", "--json", "for.json", cwd=tmp_path)
    assert targeted.returncode == 0, targeted.stderr
    exported = evenflow(site, "export", "for.json", "--to", "shortline", cwd=tmp_path)
    assert "exact: Shortline runs the plan as it is" in exported.stdout


def test_a_verb_and_an_accelerator_are_known(site: Path, tmp_path: Path) -> None:
    shown = evenflow(site, "--help", cwd=tmp_path).stdout
    assert "Layers of every stage of a plan, in the order of the model." in shown
    refused = evenflow(site, "stages", "nothing.json", cwd=tmp_path)
    assert refused.returncode == 2
    assert "cannot read nothing.json" in refused.stderr
    code = "from evenflow.cluster.data_sheets import accelerator_named; print(accelerator_named('lab-9').source)"
    answer = python(site, "-c", code, cwd=tmp_path)
    assert answer.stdout == "an example of evenflow\n", answer.stderr


@pytest.fixture
def points(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[EntryPoint]]:
    """Entry points that are found instead of those of installed packages."""
    points: list[EntryPoint] = []
    monkeypatch.setattr(
        importlib.metadata, "entry_points", lambda group: [point for point in points if point.group == group]
    )
    joining.entry_points_of.cache_clear()
    yield points
    joining.entry_points_of.cache_clear()


def point(name: str, value: str, group: str = joining.ACCELERATORS) -> EntryPoint:
    return EntryPoint(name=name, value=value, group=group)


def registry() -> Registry[Accelerator]:
    own = {"mine": Accelerator(name="mine", flops_per_s=1.0, memory_bytes_per_s=1.0)}
    return Registry(own, joining.ACCELERATORS, Accelerator)


def test_own_values_come_first_and_need_no_other_package(points: list[EntryPoint]) -> None:
    points.append(point("broken", "no_such_module:VALUE"))
    assert registry()["mine"].name == "mine"
    with pytest.raises(InputError, match=r"must be importable: ModuleNotFoundError.*no_such_module"):
        list(registry())


def test_values_of_packages_follow_in_the_order_of_names(points: list[EntryPoint]) -> None:
    points += [point(name, "evenflow.cluster.data_sheets:A100") for name in ("z", "a")]
    assert list(registry()) == ["mine", "a", "z"]
    assert len(registry()) == 3
    assert registry()["z"].name == "a100-80"


@pytest.mark.parametrize(
    ("found", "rule"),
    [
        ([point("a", "evenflow.errors:InputError")], "must be a value of evenflow.cluster.accelerators.Accelerator"),
        ([point("mine", "evenflow.cluster.data_sheets:A100")], "must be a name that evenflow does not have itself"),
        ([point("a", "one:X"), point("a", "two:X")], "must be unique, but a package without a name brings"),
    ],
)
def test_what_cannot_join_is_refused(points: list[EntryPoint], found: list[EntryPoint], rule: str) -> None:
    points += found
    with pytest.raises(InputError, match=rule):
        list(registry())


def test_a_broken_verb_is_named_in_the_help_and_hides_no_other(points: list[EntryPoint]) -> None:
    from evenflow.cli.main import main

    points.append(point("broken", "no_such_module:VALUE", joining.VERBS))
    context = click.Context(main)
    assert "must be importable: ModuleNotFoundError" in main.get_help(context)
    assert "plan" in main.list_commands(context)


def test_families_are_those_of_evenflow_where_nothing_joins(points: list[EntryPoint]) -> None:
    assert list(FAMILIES)[:3] == ["naive", "f-then-b", "1f1b"]
    assert "paired-1f1b" not in FAMILIES
