"""Runs the tests that the changed files can reach; ``make affected``.

Changed is what differs from where the branch left its base, committed or not, and what git does not know yet. Tests are
reached along the imports of `import_graph`. What is not Python is read by files whose strings name it or its folder.
"""

import argparse
import subprocess
import sys
from collections.abc import Mapping, Sequence
from fnmatch import fnmatch
from pathlib import Path, PurePosixPath

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from scripts.import_graph import ImportGraph, Source, is_test  # noqa: E402

PASSED_OVER = ("src", "tests", "docs", "evenflow", "evenflow-torch", "evenflow_torch", "tests_torch")
"""Folders whose name alone says too little about who reads a file in them."""


def git(*arguments: str) -> list[str]:
    """Return the lines that a git command prints."""
    command = ["git", "-c", "core.quotepath=off", *arguments]
    return subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def changed_files(base: str) -> dict[str, str]:
    """Return the paths that differ from where this branch left `base`, each with its text there if it is gone."""
    (start,) = git("merge-base", base, "HEAD")
    paths = {*git("diff", "--name-only", "--no-renames", start), *git("ls-files", "--others", "--exclude-standard")}
    return {path: "" if (ROOT / path).is_file() else "\n".join(git("show", f"{start}:{path}")) for path in paths}


def python_texts() -> dict[str, str]:
    """Return the Python files and every pyproject.toml of the repository."""
    paths = git("ls-files", "--cached", "--others", "--exclude-standard", "*.py", "*pyproject.toml")
    return {path: (ROOT / path).read_text(encoding="utf-8") for path in paths if (ROOT / path).is_file()}


def readers(path: str, sources: Mapping[str, Source]) -> set[str]:
    """Return the files whose strings name a file, or its folder, or a pattern that matches it beside its folder."""
    file = PurePosixPath(path)
    endings = {"/".join(file.parts[start:]) for start in range(len(file.parts))}
    folders = {folder.name for folder in file.parents if folder.name}
    telling = folders - set(PASSED_OVER) if file.suffix != ".py" else set()
    outside = {other: source.strings for other, source in sources.items() if not other.startswith("src/")}
    named = {other for other, source in sources.items() if endings & source.strings}
    named |= {other for other, strings in outside.items() if telling & strings}
    near = {other: strings for other, strings in outside.items() if not folders or folders & strings}
    return named | {
        other for other, strings in near.items() if any("*." in text and fnmatch(file.name, text) for text in strings)
    }


def affected(changed: Sequence[str], texts: Mapping[str, str]) -> tuple[list[str], int]:
    """Return what pytest is to collect for these changed files, and the number of all test files.

    To collect are test files, modules with doctests and pages that changed themselves. A pyproject.toml reaches all.
    """
    graph = ImportGraph(texts)
    tests = {path for path in graph.sources if is_test(path)}
    if any(PurePosixPath(path).name == "pyproject.toml" for path in changed):
        return sorted(tests), len(tests)
    starts = {path for path in changed if path in graph.sources}
    starts |= {reader for path in changed for reader in readers(path, graph.sources)}
    reached = graph.users(starts)
    doctests = {path for path in reached if graph.sources[path].has_doctests and "src" in path.split("/")}
    pages = {path for path in changed if path.endswith(".md") and path.startswith(("README", "docs/"))}
    return sorted((reached & tests) | doctests | pages), len(tests)


def main() -> int:
    """Say how many test files the changed files can reach, and run them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="main", help="the branch or commit to compare with (default: main)")
    parser.add_argument("--list", action="store_true", help="only print what would run")
    parser.add_argument("pytest", nargs="*", metavar="-- OPTIONS", help="options of pytest")
    options = parser.parse_args()
    changed = changed_files(options.base)
    texts = python_texts() | {path: text for path, text in changed.items() if text and path.endswith(".py")}
    paths, num_tests = affected(list(changed), texts)
    paths = [path for path in paths if (ROOT / path).is_file()]
    num_reached = sum(map(is_test, paths))
    share = f"{num_reached} of {num_tests} test files ({num_reached / num_tests:.0%})"
    sys.stdout.write(f"{len(changed)} changed files since {options.base} can reach {share}\n")
    if options.list or not paths:
        sys.stdout.writelines(f"{path}\n" for path in paths)
        return 0
    sys.stdout.flush()
    command = [sys.executable, "-m", "pytest", *options.pytest, *paths]
    status = subprocess.run(command, cwd=ROOT, check=False).returncode
    return 0 if status == 5 else status  # 5: every test of these files is deselected


if __name__ == "__main__":
    sys.exit(main())
