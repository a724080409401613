"""Folders of logs: which of them are of one run."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from evenflow.errors import InputError
from evenflow.profiles.measured.logs import log_folder
from evenflow.profiles.measured.logs.log_folder import runs_of_folder
from evenflow.targets.registry import log_formats
from tests.profiles.measured.logs.written import LLAMA, arguments, memory, steps, titan_head, titan_step

FIRST = [*arguments(LLAMA), memory(0, 40960.0, 45000.0)]
LAST = [memory(8, 30720.0, 45000.0), *steps([9000, 3000, 2000, 2000])]
SMALL = [*arguments(LLAMA | {"num_layers": 16}), *steps([9000, 3000, 1000, 1000])]


def written(folder: Path, logs: Mapping[str, list[str]]) -> Path:
    for name, lines in logs.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines), encoding="utf-8")
    return folder


@pytest.mark.parametrize(
    "names",
    [
        ("rank_0.log", "rank_8.log"),
        ("n060.out", "n067.out"),
        ("0/stdout.log", "8/stdout.log"),
        ("attempt_0/0/stdout.log", "attempt_0/8/stdout.log"),
        ("node_0/rank_0/info.log", "node_1/rank_8/info.log"),
        ("stage_0_rank_0/a.log", "stage_1_rank_8/a.log"),
    ],
)
def test_ranks_of_one_run(names: tuple[str, str], tmp_path: Path) -> None:
    (run,) = runs_of_folder(
        written(tmp_path, {names[0]: FIRST, names[1]: LAST, "notes.txt": ["nothing"]}), formats=log_formats()
    )
    assert (run.ref, run.layers, run.step_s, run.mem_gib) == (str(tmp_path), 32, 2.0, 40.0)


def test_complete_logs_are_runs_of_their_own_and_those_of_ranks_are_not(tmp_path: Path) -> None:
    whole = [*FIRST, *LAST]
    runs = runs_of_folder(
        written(tmp_path / "a", {"second.log": whole, "first.log": whole, "tp4.log": SMALL}), formats=log_formats()
    )
    assert [Path(run.ref).name for run in runs] == ["first.log", "second.log", "tp4.log"]
    assert [run.step_s for run in runs] == [2.0, 2.0, 1.0]
    titan = [*titan_head(), *(titan_step(number, 8192) for number in range(1, 9))]
    (run,) = runs_of_folder(written(tmp_path / "b", {"rank0.log": titan, "rank1.log": titan}), formats=log_formats())
    assert run.ref == str(tmp_path / "b")


def test_each_folder_is_a_run(tmp_path: Path) -> None:
    logs = {"small/rank_0.log": SMALL[:-4], "small/rank_9.log": SMALL[-4:], "large/0.log": FIRST, "large/8.log": LAST}
    runs = runs_of_folder(written(tmp_path, logs), formats=log_formats())
    assert [(Path(run.ref).name, run.layers, run.step_s) for run in runs] == [("large", 32, 2.0), ("small", 16, 1.0)]


def test_ranks_are_in_the_order_of_their_numbers(tmp_path: Path) -> None:
    runs = runs_of_folder(
        written(tmp_path, {f"run{number}.log": [*FIRST, *LAST] for number in (10, 9, 1)}), formats=log_formats()
    )
    assert [Path(run.ref).name for run in runs] == ["run1.log", "run9.log", "run10.log"]


def test_a_log_that_could_be_of_several_runs(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="each run in a folder of their own"):
        runs_of_folder(
            written(tmp_path, {"a.log": [*FIRST, *LAST], "b.log": SMALL, "c.log": LAST}), formats=log_formats()
        )


def test_a_folder_without_logs(tmp_path: Path) -> None:
    written(tmp_path, {"a.txt": ["hello"], "b.json": FIRST + LAST, ".hidden.log": FIRST + LAST})
    with pytest.raises(InputError, match=r"must have logs of a training: files that end in \.log"):
        runs_of_folder(tmp_path, formats=log_formats())


def test_a_folder_with_too_many_logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_folder, "MOST_FILES", 2)
    with pytest.raises(InputError, match="must have at most 2 logs"):
        runs_of_folder(written(tmp_path, {f"{number}.log": ["x"] for number in range(3)}), formats=log_formats())
