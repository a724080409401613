"""The public names: importable, documented, and all that the documentation uses."""

import importlib
import re

import pytest

import evenflow
from tests.paths import ROOT

PAGES = [*ROOT.glob("README*.md"), *(ROOT / "docs").rglob("*.md")]
FACES = ("evenflow", "evenflow.auto", "evenflow.run")
ADAPTERS = {
    f"evenflow.adapters.{path.stem}"
    for path in (ROOT / "src" / "evenflow" / "adapters").glob("*.py")
    if path.stem != "__init__"
}
"""Modules for the training scripts of other frameworks, each a face of its own."""


def python_blocks() -> dict[str, str]:
    """The Python code of every page and example, by file name."""
    fence = re.compile(r"```python\n(.*?)```", re.DOTALL)
    blocks = {page.name: "\n".join(fence.findall(page.read_text(encoding="utf-8"))) for page in PAGES}
    return blocks | {path.name: path.read_text(encoding="utf-8") for path in (ROOT / "examples").glob("*.py")}


@pytest.mark.parametrize("face", FACES)
def test_every_public_name_can_be_imported(face: str) -> None:
    module = importlib.import_module(face)
    assert module.__all__
    for name in module.__all__:
        assert getattr(module, name) is not None


@pytest.mark.parametrize("face", FACES)
def test_the_api_reference_has_every_public_name_and_no_other(face: str) -> None:
    pages = "\n".join(page.read_text(encoding="utf-8") for page in sorted((ROOT / "docs" / "api").glob("*.md")))
    shown = re.findall(rf"^(?::::|      heading:) {re.escape(face)}\.(\w+)$", pages, re.MULTILINE)
    public = set(importlib.import_module(face).__all__)
    assert sorted(shown) == sorted(public - {"auto", "run"} if face == "evenflow" else public)


def test_the_first_page_of_the_api_reference_says_what_stands_on_which_page() -> None:
    folder = ROOT / "docs"
    rows = re.findall(
        r"^\| \[.+\]\((api/\w+\.md)\) \| (.+) \|$", (folder / "api.md").read_text(encoding="utf-8"), re.MULTILINE
    )
    listed = {path: re.findall(r"`(\w+)`", names) for path, names in rows}
    shown = {
        path.relative_to(folder).as_posix(): [
            heading or name
            for name, heading in re.findall(
                r"^::: evenflow(?:\.\w+)*\.(\w+)$(?:\n    options:\n      heading: evenflow\.(\w+))?",
                path.read_text(encoding="utf-8"),
                re.MULTILINE,
            )
        ]
        for path in (folder / "api").glob("*.md")
    }
    assert listed == shown


def test_the_facade_says_where_each_of_its_names_is() -> None:
    assert {*evenflow._HOMES, *evenflow._FACES, *evenflow._WITH_TORCH} == set(evenflow.__all__)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        evenflow.nothing  # noqa: B018


def test_the_documentation_imports_public_modules_alone() -> None:
    for page, code in python_blocks().items():
        imported = re.findall(r"(?:from|import) (evenflow(?:\.\w+)*)(?!\w)", code)
        assert set(imported) <= {*FACES, *ADAPTERS, "evenflow.errors"}, page


def test_the_documentation_uses_public_names_alone() -> None:
    for page, code in python_blocks().items():
        for path in set(re.findall(r"\bevenflow(?:\.\w+)+", code)) - ADAPTERS:
            value: object = evenflow
            for name in path.split(".")[1:]:
                public = getattr(value, "__all__", None)
                assert public is None or name in public, f"{page}: {path}"
                value = getattr(value, name)
