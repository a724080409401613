"""The Chinese pages keep up with the English ones: sections, commands, options, and links that lead somewhere."""

import re
from pathlib import Path

import pytest

from tests.paths import ROOT
from tests.test_documentation import anchors, heads_of_items

DOCS = ROOT / "docs"
OWN = {"glossary.md"}
"""Pages that are written for readers of Chinese and translate none."""
PAGES = sorted(page.relative_to(DOCS / "zh").as_posix() for page in (DOCS / "zh").rglob("*.md"))
SOURCES = {f"docs/zh/{name}": f"docs/{name}" for name in PAGES if name not in OWN}
PAIRS = [*SOURCES.items(), ("README.zh-CN.md", "README.md")]
FENCE = re.compile(r"^( *)```(\w*)\n(.*?)^\1```$", re.MULTILINE | re.DOTALL)
FREE = {"", "text"}
"""Blocks of output, which may be in either language."""


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def levels(text: str) -> list[int]:
    """The level of every heading, in order; a section that only one language needs has an HTML comment behind it."""
    outside = FENCE.sub("", text)
    return [len(marks) for marks in re.findall(r"^(#+) .*[^>\n]$", outside, re.MULTILINE)]


def blocks(text: str) -> list[tuple[str, str]]:
    """Language and content of every block; comments may be in either language, and so may outputs."""
    found = []
    for indent, language, content in FENCE.findall(text):
        lines = (re.sub(r"(^|\s+)#.*", "", line.removeprefix(indent)).rstrip() for line in content.splitlines())
        found.append((language, "" if language in FREE else "\n".join(line for line in lines if line)))
    return found


def names_in_code(text: str) -> list[str]:
    """What the first cell of every row, and the head of every item, says in code: options, fields, commands."""
    outside = FENCE.sub("", text)
    rows = re.findall(r"^\|([^|]*(?:\\\|[^|]*)*)\|", outside, re.MULTILINE)
    return [code for head in (*rows, *heads_of_items(outside)) for code in re.findall(r"`([^`]+)`", head)]


@pytest.mark.parametrize(("page", "source"), PAIRS)
def test_a_page_has_the_sections_of_its_source(page: str, source: str) -> None:
    assert levels(text_of(page)) == levels(text_of(source))


@pytest.mark.parametrize(("page", "source"), PAIRS)
def test_a_page_has_the_commands_and_files_of_its_source(page: str, source: str) -> None:
    assert blocks(text_of(page)) == blocks(text_of(source))


@pytest.mark.parametrize(("page", "source"), PAIRS)
def test_a_page_has_the_options_and_fields_of_its_source(page: str, source: str) -> None:
    assert names_in_code(text_of(page)) == names_in_code(text_of(source))


@pytest.mark.parametrize("page", [*(f"docs/zh/{name}" for name in PAGES), "README.zh-CN.md"])
def test_links_lead_somewhere(page: str) -> None:
    folder = (ROOT / page).parent
    for path, anchor in re.findall(r"\]\((?!https://)([^)#]*)#?([^)]*)\)", text_of(page)):
        target = (folder / path).resolve() if path else ROOT / page
        assert target.exists(), path
        assert not anchor or anchor in anchors(Path(target)), f"{path}#{anchor}"
