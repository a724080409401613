"""The pages as a reader meets them: each can be found, and they agree with the code on which verbs exist."""

import re
from pathlib import Path

import click
import pytest

from evenflow.cli.main import VERBS, main
from tests.paths import ROOT

DOCS = ROOT / "docs"
GROUPS = {"api": "api.md", "schedules": "schedules/which.md", "targets": "targets/index.md", "zh": "zh/index.md"}
"""Folders, and the page that leads to all others of the folder."""
PAGES = {page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")}


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def test_every_page_is_in_the_navigation() -> None:
    navigation = re.findall(r"^ +- .+: (\S+\.md)$", text_of("mkdocs.yml"), re.MULTILINE)
    assert sorted(navigation) == sorted(PAGES)


def linked_pages(page: str) -> set[str]:
    """The pages of the documentation that a page links."""
    folder = (DOCS / page).parent
    paths = re.findall(r"\]\(([^)#:]+\.md)[^)]*\)", text_of(f"docs/{page}"))
    return {(folder / path).resolve().relative_to(DOCS).as_posix() for path in paths}


def test_the_first_page_links_every_other_one_or_the_page_that_does() -> None:
    own = {page for page in PAGES if page.partition("/")[0] not in GROUPS}
    assert linked_pages("index.md") == own - {"index.md"} | set(GROUPS.values())


@pytest.mark.parametrize("folder", GROUPS)
def test_the_page_of_a_folder_links_every_other_one(folder: str) -> None:
    pages = {page for page in PAGES if page.startswith(f"{folder}/")} - {GROUPS[folder]}
    assert pages <= linked_pages(GROUPS[folder])


def test_the_navigation_has_four_groups_and_the_chinese_pages() -> None:
    top = re.findall(
        r"^  - (.+?):", text_of("mkdocs.yml").partition("\nnav:\n")[2].partition("\nmarkdown")[0], re.MULTILINE
    )
    assert top == ["Home", "Learn", "Do", "Understand", "Look up", "中文"]


def test_the_command_line_page_has_a_section_for_each_verb() -> None:
    headings = re.findall(r"^## evenflow ([a-z-]+)", text_of("docs/cli.md"), re.MULTILINE)
    assert set(headings) == set(VERBS)


def options_of(command: click.Command) -> set[str]:
    """The option names of a command and of its subcommands, those that all have left out."""
    if isinstance(command, click.Group):
        return set().union(*(options_of(inner) for inner in command.commands.values()))
    options = (param for param in command.params if isinstance(param, click.Option) and not param.hidden)
    return {name for option in options for name in (*option.opts, *option.secondary_opts)} - {"-h", "--help", "--lang"}


def heads_of_items(text: str) -> list[str]:
    """What stands before the colon of every item of a list that explains names in code: flags, files, fields."""
    return re.findall(r"^- ((?:`[^`]+`(?:,\s+|、)?)+)[:：]", text, re.MULTILINE)


@pytest.mark.parametrize("verb", VERBS)
def test_the_command_line_page_names_every_flag_of_a_verb_and_no_other(verb: str) -> None:
    command = main.get_command(click.Context(main), verb)
    assert command is not None
    sections = re.split(r"^## ", text_of("docs/cli.md"), flags=re.MULTILINE)
    section = "".join(part for part in sections if re.match(rf"evenflow {verb}\b(?!-)", part))
    named = set(re.findall(r"(?<![\w-])--?[a-z][\w-]*", " ".join(heads_of_items(section))))
    options = options_of(command)
    assert named <= options, f"flags of docs/cli.md that {verb} does not have"
    assert {name for name in options if name.startswith("--") and name not in section} == set()


@pytest.mark.parametrize("page", ["docs/index.md", "docs/zh/index.md"])
def test_the_table_of_the_first_page_has_each_verb(page: str) -> None:
    rows = re.findall(r"^\|[^|]*`evenflow ([a-z-]+)`[^|]*\|", text_of(page), re.MULTILINE)
    assert sorted(rows) == sorted(VERBS)


def test_the_readme_can_be_read_in_three_minutes() -> None:
    assert len(text_of("README.md").split()) <= 700


def anchors(page: Path) -> set[str]:
    """The anchors that MkDocs and forges give to the headings of a page."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    plain = (re.sub(r"[^\w\s-]", "", re.sub(r"\[(.+?)\]\(.*?\)", r"\1", heading)) for heading in headings)
    return {re.sub(r"[\s-]+", "-", heading.strip().lower()) for heading in plain}


@pytest.mark.parametrize("page", ["README.md", "README.zh-CN.md", "CONTRIBUTING.md", "examples/README.md"])
def test_links_of_pages_outside_the_documentation_lead_somewhere(page: str) -> None:
    folder = (ROOT / page).parent
    for path, anchor in re.findall(r"\]\((?!https://)([^)#]+)#?([^)]*)\)", text_of(page)):
        assert (folder / path).exists(), path
        assert not anchor or anchor in anchors(folder / path), f"{path}#{anchor}"
