"""What `make affected` runs: tests of changed sources, readers of changed data, and all where the tools changed."""

import subprocess
from pathlib import Path

import pytest
from scripts.affected_tests import affected, changed_files, python_texts

from scripts import affected_tests

HOUSE = {
    "pyproject.toml": '[tool.hatch.build.targets.wheel]\npackages = ["src/house"]\n',
    "src/house/cellar.py": '"""\n>>> 1\n1\n"""\n',
    "src/house/door.py": "import house.cellar\n",
    "tests/paths.py": 'GOLDEN = "golden"\n',
    "tests/test_cellar.py": "from house import cellar\n",
    "tests/test_door.py": "from house import door\n",
    "tests/test_page.py": 'PAGE = "docs/page.md"\n',
    "tests/test_pages.py": 'PAGES = ROOT / "docs".glob("*.md")\n',
    "tests/test_picture.py": "from tests.paths import GOLDEN\n",
    "tests/test_house.py": 'FILES = (ROOT / "src").rglob("*.py")\n',
}
NUM_TESTS = 6


@pytest.mark.parametrize(
    ("changed", "paths"),
    [
        ("src/house/door.py", ["tests/test_door.py", "tests/test_house.py"]),
        (
            "src/house/cellar.py",
            ["src/house/cellar.py", "tests/test_cellar.py", "tests/test_door.py", "tests/test_house.py"],
        ),
        ("docs/page.md", ["docs/page.md", "tests/test_page.py", "tests/test_pages.py"]),
        ("docs/other.md", ["docs/other.md", "tests/test_pages.py"]),
        ("tests/golden/timeline.svg", ["tests/test_picture.py"]),
        ("tests/test_door.py", ["tests/test_door.py"]),
        ("LICENSE", []),
        ("pyproject.toml", sorted(path for path in HOUSE if "test_" in path)),
    ],
)
def test_a_changed_file_reaches_these(changed: str, paths: list[str]) -> None:
    assert affected([changed], HOUSE) == (paths, NUM_TESTS)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The house above as a repository with one commit on `main`, and a branch that is checked out."""
    monkeypatch.setattr(affected_tests, "ROOT", tmp_path)
    for path, text in HOUSE.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    git(tmp_path, "init", "--quiet", "--initial-branch", "main")
    commit(tmp_path)
    git(tmp_path, "switch", "--quiet", "--create", "branch")
    return tmp_path


def git(folder: Path, *arguments: str) -> None:
    author = ["-c", "user.name=nobody", "-c", "user.email=nobody@localhost", "-c", "commit.gpgsign=false"]
    subprocess.run(["git", *author, *arguments], cwd=folder, check=True, capture_output=True)


def commit(folder: Path) -> None:
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--message", "a change")


@pytest.mark.processes
def test_committed_changed_new_and_removed_files_count_and_what_the_base_has_since_does_not(repository: Path) -> None:
    assert changed_files("main") == {}
    (repository / "src/house/door.py").write_text("import house.cellar as below\n", encoding="utf-8")
    commit(repository)
    (repository / "tests/paths.py").write_text("", encoding="utf-8")
    (repository / "tests/test_new.py").write_text("", encoding="utf-8")
    (repository / "src/house/cellar.py").unlink()
    changed = changed_files("main")
    assert set(changed) == {"src/house/door.py", "tests/paths.py", "tests/test_new.py", "src/house/cellar.py"}
    assert changed.pop("src/house/cellar.py").splitlines() == HOUSE["src/house/cellar.py"].splitlines()
    assert not any(changed.values())
    assert set(python_texts()) == (set(HOUSE) | {"tests/test_new.py"}) - {"src/house/cellar.py"}
    git(repository, "stash", "--include-untracked")
    git(repository, "switch", "--quiet", "main")
    (repository / "tests/test_later.py").write_text("", encoding="utf-8")
    commit(repository)
    git(repository, "switch", "--quiet", "branch")
    assert set(changed_files("main")) == {"src/house/door.py"}


@pytest.mark.processes
def test_it_says_how_many_tests_a_removed_file_reaches(
    repository: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (repository / "src/house/cellar.py").unlink()
    monkeypatch.setattr("sys.argv", ["affected_tests.py", "--list"])
    assert affected_tests.main() == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "1 changed files since main can reach 3 of 6 test files (50%)"
    assert said[1:] == ["tests/test_cellar.py", "tests/test_door.py", "tests/test_house.py"]
