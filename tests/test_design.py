"""The maps of both packages: every module is in the list of its folder, and every file named there exists."""

import re
from pathlib import Path

import pytest

from tests.paths import ROOT

PACKAGES = {
    "design.md": ROOT / "src" / "evenflow",
    "design-torch.md": ROOT / "evenflow-torch" / "src" / "evenflow_torch",
}
"""Each package by the page that has its map."""
LIST = re.compile(r"^(?:In|.+, in) `(\S+?)/`:\n\n((?:(?:- |  ).+\n)+)", re.MULTILINE)
FILE = re.compile(r"`((?:\w+/)*\w+\.py)`")


def mapped_files(name: str) -> list[str]:
    """The files that the lists of the map name, by their path in the package."""
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    lists = [(re.sub(r"^src/evenflow(_torch)?", "", folder), items) for folder, items in LIST.findall(page)]
    return [f"{folder}/{name}".lstrip("/") for folder, items in lists for name in FILE.findall(items)]


@pytest.mark.parametrize(("name", "package"), PACKAGES.items())
def test_the_map_names_every_module_once_and_no_other(name: str, package: Path) -> None:
    paths = (path.relative_to(package).as_posix() for path in package.rglob("*.py"))
    modules = {path for path in paths if not path.endswith("/__init__.py")}
    named = mapped_files(name)
    assert sorted(modules - set(named)) == [], f"modules that the map of docs/{name} does not name"
    assert sorted(set(named) - modules) == [], "files that the map names and that are gone"
    assert len(named) == len(set(named))


def test_pages_name_files_that_exist() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        if page.name in PACKAGES:
            continue
        for path in re.findall(r"`((?:\w+/)+\w+\.(?:py|sh))`", page.read_text(encoding="utf-8")):
            places = (ROOT / path, ROOT / "evenflow-torch" / path, *(package / path for package in PACKAGES.values()))
            is_ours = "NAME" not in path and not path.startswith("megatron/")
            assert not is_ours or any(place.is_file() for place in places), f"{page.name}: {path}"
