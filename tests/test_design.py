"""The map of docs/design.md: every module is in the table of its folder, and every file named there exists."""

import re

from tests.paths import ROOT

PACKAGE = ROOT / "src" / "evenflow"
TABLE = re.compile(r"^\| .+ \| in `(\S+?)/` \|\n\|---\|---\|\n((?:\|.+\n)+)", re.MULTILINE)
FILE = re.compile(r"`((?:\w+/)*\w+\.py)`")


def mapped_files() -> list[str]:
    """The files that the tables of the map name, by their path in the package."""
    page = (ROOT / "docs" / "design.md").read_text(encoding="utf-8")
    tables = [(folder.removeprefix("src/evenflow"), rows) for folder, rows in TABLE.findall(page)]
    return [f"{folder}/{name}".lstrip("/") for folder, rows in tables for name in FILE.findall(rows)]


def test_the_map_names_every_module_once_and_no_other() -> None:
    paths = (path.relative_to(PACKAGE).as_posix() for path in PACKAGE.rglob("*.py"))
    modules = {path for path in paths if not path.endswith("/__init__.py")}
    named = mapped_files()
    assert sorted(modules - set(named)) == [], "modules that the map of docs/design.md does not name"
    assert sorted(set(named) - modules) == [], "files that the map names and that are gone"
    assert len(named) == len(set(named))


def test_pages_name_files_that_exist() -> None:
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]:
        if page.name == "design.md":
            continue
        for path in re.findall(r"`((?:\w+/)+\w+\.(?:py|sh))`", page.read_text(encoding="utf-8")):
            places = (ROOT / path, PACKAGE / path)
            is_ours = "NAME" not in path and not path.startswith("megatron/")
            assert not is_ours or any(place.is_file() for place in places), f"{page.name}: {path}"
