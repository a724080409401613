"""A short run of the fuzzer: a few hundred inputs in this process, and that no reader, verb or status is forgotten."""

import os
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from evenflow.cli.main import VERBS
from evenflow.language import ENGLISH, speaking
from tests.fuzz import judge
from tests.fuzz.cases import (
    MOST_PATIENCE,
    READERS,
    SAPP,
    Command,
    hurried,
    make,
    options_of,
    verbs_tried,
    write_neighbours,
)
from tests.fuzz.judge import acting
from tests.fuzz.mutate import JSON, LINED, TOML, YAML, mutated
from tests.fuzz.processes import Ending, on_a_full_disk, stopped
from tests.fuzz.worker import without_processes

SHORT = 150
"""Inputs of the short run; their seed is not that of the long one."""
QUICK = ("run", "auto", "profile")
"""Verbs that load PyTorch are left to the long run."""


@pytest.fixture
def anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Come back to the folder in which the test began."""
    monkeypatch.chdir(Path.cwd())
    without_processes(monkeypatch.setattr)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("part", range(5))
def test_no_input_ends_in_a_traceback(anywhere: None, tmp_path: Path, part: int) -> None:
    folder = tmp_path / "a" / "b"
    faults = []
    for number in range(part * SHORT // 5, (part + 1) * SHORT // 5):
        command = make(number, 2024, folder)
        if command.arguments[0] in QUICK:
            continue
        with speaking(ENGLISH):
            verdict = judge.run(command, folder)
        if verdict.fault not in ("", "time", "memory"):
            faults.append(f"{verdict.fault}, input {number}: {command.reader} {command.arguments}\n{verdict.detail}")
    assert not faults, "\n\n".join(faults)


def test_the_judge_sees_what_is_wrong(anywhere: None, tmp_path: Path) -> None:
    os.chdir(tmp_path)
    fine = judge.run(Command("none", ("plan", "none.json", "--ranks", "2", "--microbatches", "2")), tmp_path)
    assert (fine.status, fine.fault) == (2, "")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("evenflow.cli.shared.files.input_files.read_plan_text", lambda path: {}[path])
        wrong = judge.run(Command("none", ("simulate", "none.json")), tmp_path)
    assert wrong.fault == "traceback"
    assert "KeyError" in wrong.detail


def test_the_judge_sees_what_acts_on_a_terminal() -> None:
    assert all(map(acting, ("a\x1b[31m", "b\u202e", "so\noptimal: FORGED ms")))
    assert not acting("optimal: 3 ms\n\tx: optimal: FORGED")


@pytest.mark.parametrize(
    ("change", "status", "fault"),
    [
        (lambda place: None, 0, None),
        (lambda place: (place / "in.json").write_text("{}"), 0, "input"),
        (lambda place: (place / "in.json").unlink(), 0, "input"),
        (lambda place: (place / "in.json").chmod(0o600), 0, "input"),
        (lambda place: (place / ".evenflow-1.tmp").write_text(""), 0, "left-over"),
        (lambda place: (place / "out.json").write_text("{}"), 2, "left-over"),
        (lambda place: (place / "out.json").write_text("{}"), 0, None),
        (lambda place: (place / "out.json").write_text("[NaN]"), 0, "output"),
        (lambda place: (place / "out.svg").write_text("<svg>\x07</svg>"), 0, "output"),
        (lambda place: (place / "out.html").write_text("<html>"), 0, "output"),
        (lambda place: (place / "out.toml").write_text("x ="), 0, "output"),
    ],
)
def test_the_judge_sees_what_became_of_files(
    tmp_path: Path, change: Callable[[Path], object], status: int, fault: str | None
) -> None:
    (tmp_path / "in.json").write_text("[1]")
    (tmp_path / "in.json").chmod(0o640)
    files = judge.Files.of(tmp_path)
    change(tmp_path)
    wrong = files.wrong_after(Command("none", ("plan", "in.json")), status)
    assert (wrong[0] if wrong else None) == fault


@pytest.mark.processes
@pytest.mark.parametrize("kind", [stopped, on_a_full_disk])
def test_what_needs_a_process_of_its_own_ends_well(tmp_path: Path, kind: Callable[[Random, Path], Ending]) -> None:
    for number in range(2):
        write_neighbours(tmp_path / "a")
        ending = kind(Random(number), tmp_path / "a")
        assert not ending.fault, ending


def test_every_verb_and_its_options_are_tried() -> None:
    assert verbs_tried() == set(VERBS)
    own = [verb for verb in VERBS if verb not in ("schedule", "demo")]  # those of `demo` are those of `plan`
    for verb in (*own, "schedule show", "schedule check", SAPP):
        assert options_of(verb)


def test_a_search_is_not_given_more_time_than_the_judge_allows() -> None:
    words = ("plan", "--time-limit", "1e6", "--memory", "1e6", "-t", "7", "--time-limit", "nan", "-t", "1e300", "-t")
    assert hurried(words) == [
        "plan", "--time-limit", "1.0", "--memory", "1e6", "-t", "1.0", "--time-limit", "nan", "-t", "1e300", "-t"
    ]  # fmt: skip
    assert MOST_PATIENCE < judge.MOST_SECONDS


def test_every_kind_of_file_is_tried() -> None:
    names = " ".join(reader.name for reader in READERS)
    for kind in (
        "layer",
        "plan",
        "mesh plan",
        "order",
        "init",
        "manual",
        "cluster",
        "TOML",
        "training",
        "logs",
        "Kineto",
        "Ascend",
        "model",
    ):
        assert kind in names


@pytest.mark.parametrize("form", [JSON, YAML, LINED, TOML])
def test_a_seed_makes_the_same_file_again(form: str) -> None:
    seed = "0F0,0B0\n1F0,1B0\n" if form in (LINED, TOML) else {"a": [1, {"b": "c"}], "d": 2.5}
    first = [mutated(seed, form, Random(f"1 {number}")) for number in range(100)]
    assert first == [mutated(seed, form, Random(f"1 {number}")) for number in range(100)]
    assert len(set(first)) > 50


@pytest.mark.parametrize("number", [10**400, -(10**5000), 1.5], ids=["long", "longest", "float"])
def test_numbers_of_any_length_are_changed(number: float) -> None:
    files = {mutated({"a": number}, JSON, Random(f"1 {seed}")) for seed in range(300)}
    assert len(files) > 50
