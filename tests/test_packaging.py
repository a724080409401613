"""The package as a user meets it: versions that agree, and a command that answers without loading heavy libraries."""

import ast
import importlib.util
import re
import subprocess
import sys
import tomllib
from types import ModuleType

import pytest

import evenflow
from tests.paths import ROOT

COMPILER_AND_SOLVER = ("numba", "llvmlite", "highspy")
HEAVY = (*COMPILER_AND_SOLVER, "rich", "torch", "transformers")

# Calls the console script's function as the script does, then names the heavy modules that this has loaded.
PROBE = f"""
import sys
from evenflow.cli.main import main
try:
    main()
except SystemExit as end:
    status = end.code
else:
    status = 0
loaded = [name for name in {HEAVY!r} if name in sys.modules]
print("status:", status or 0, "loaded:", loaded)
"""


def project_version() -> str:
    version: str = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["version"]
    return version


def run_cli(*arguments: str) -> str:
    """Standard output of the command in a fresh interpreter, ended by the probe's line."""
    command = [sys.executable, "-c", PROBE, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout


@pytest.mark.processes
@pytest.mark.parametrize("option", ["--help", "--version"])
def test_help_and_version_answer_without_heavy_imports(option: str) -> None:
    answer, probe = run_cli(option).rstrip("\n").rsplit("\n", maxsplit=1)
    assert answer.strip()
    assert probe == "status: 0 loaded: []"


@pytest.mark.processes
@pytest.mark.parametrize(("verb", "option"), [("plan", "--ranks"), ("run", "--model"), ("predict", "--gpus")])
def test_help_of_a_verb_loads_neither_compiler_nor_solver_nor_torch(verb: str, option: str) -> None:
    answer, probe = run_cli(verb, "--help").rstrip("\n").rsplit("\n", maxsplit=1)
    assert option in answer
    assert probe.startswith("status: 0 ")
    assert not any(name in probe for name in (*COMPILER_AND_SOLVER, "torch"))


@pytest.mark.processes
def test_importing_the_library_loads_nothing_heavy() -> None:
    code = f"import evenflow, sys; print([name for name in {HEAVY!r} if name in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert result.stdout.strip() == "[]"


def test_library_knows_the_version_of_the_project() -> None:
    assert evenflow.__version__ == project_version()


@pytest.mark.processes
def test_command_prints_the_version_of_the_project() -> None:
    assert project_version() in re.findall(r"[\w.]+", run_cli("--version"))


def test_changelog_describes_the_version_of_the_project() -> None:
    headings = re.findall(r"^## \[(.+?)\]", (ROOT / "CHANGELOG.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert project_version() in headings


def test_citation_names_the_version_of_the_project() -> None:
    assert f"\nversion: {project_version()}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")


def test_pre_commit_runs_the_checks_of_make_lint() -> None:
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert recipe
    hooks = re.findall(r"entry: (.+?), language", (ROOT / ".pre-commit-config.yaml").read_text(encoding="utf-8"))
    assert hooks == recipe[1].replace("$(BIN)", ".venv/bin").strip("\t\n").split("\n\t")


def test_programs_beside_the_package_import_what_exists() -> None:
    folders = ("benchmarks", "checks", "examples", "scripts")
    for path in (path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("evenflow"):
                module = importlib.import_module(str(node.module))
                missing = [name.name for name in node.names if not _has(module, name.name)]
                assert not missing, f"{path}: {node.module} has no {missing}"


def _has(module: ModuleType, name: str) -> bool:
    return hasattr(module, name) or importlib.util.find_spec(f"{module.__name__}.{name}") is not None
