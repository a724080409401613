"""The documentation as it is built: its search finds what readers look for, and its pages need no other host."""

import json
import re
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.paths import ROOT

pytestmark = pytest.mark.page

ASK = Path(__file__).with_name("search_site.mjs")
LOADED = {"script": "src", "img": "src", "iframe": "src", "source": "src", "link": "href"}
"""Elements that a browser loads, and the attribute with the address."""
CHINESE = ("重计算", "显存", "调度", "流水线负载均衡")
QUERIES = (*CHINESE, "负载均衡", "plan_for_target", "zb-h1", "recomp", "qwertyuiop")
Results = list[dict[str, str]]


@pytest.fixture(scope="module")
def site() -> Path:
    """The documentation as `make docs` builds it, which `make test-page` does first."""
    folder = ROOT / "site"
    assert folder.is_dir(), "make docs builds it"
    return folder


@pytest.fixture(scope="module")
def answers(site: Path) -> dict[str, Results]:
    """What the search of the site answers to every query."""
    answer = subprocess.run(["node", ASK, site, *QUERIES], check=True, capture_output=True, text=True)
    return dict(zip(QUERIES, json.loads(answer.stdout), strict=True))


@pytest.mark.parametrize("word", CHINESE)
def test_the_search_finds_chinese_words(word: str, answers: dict[str, Results]) -> None:
    first = answers[word][0]
    assert word in first["title"] + first["text"]


def test_a_chinese_word_leads_to_all_pages_that_have_it_and_to_no_other(answers: dict[str, Results]) -> None:
    word, folder = "负载均衡", ROOT / "docs" / "zh"
    pages = {f"zh/{page.stem}.html" for page in folder.glob("*.md") if word in page.read_text(encoding="utf-8")}
    results = answers[word]
    assert {page for result in results if (page := result["location"].partition("#")[0]).startswith("zh/")} == pages
    assert all(word in result["title"] + result["text"] for result in results)


def test_the_search_finds_names_hyphens_and_beginnings(answers: dict[str, Results]) -> None:
    assert answers["plan_for_target"][0]["location"] == "api/plan.html#evenflow.plan_for_target"
    assert answers["zb-h1"][0]["location"].startswith("schedules/zb-h1.html")
    assert any("recomp" in result["title"].lower() for result in answers["recomp"])
    assert answers["qwertyuiop"] == []


class Loads(HTMLParser):
    """The addresses that a page loads."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        address = dict(attrs).get(LOADED.get(tag, ""))
        self.addresses += [address] if address else []


def test_pages_load_nothing_from_other_hosts(site: Path) -> None:
    pages, styles = sorted(site.rglob("*.html")), sorted(site.rglob("*.css"))
    loads = Loads()
    for page in pages:
        loads.feed(page.read_text(encoding="utf-8"))
    loads.addresses += [
        address
        for style in styles
        for address in re.findall(r"url\(['\"]?([^)'\"]+)", style.read_text(encoding="utf-8"))
    ]
    assert len(loads.addresses) > 5 * len(pages)
    assert [address for address in loads.addresses if re.match(r"(https?:)?//", address)] == []


def test_code_is_coloured_when_the_site_is_built(site: Path) -> None:
    assert '<span class="k">' in (site / "targets" / "deepspeed.html").read_text(encoding="utf-8")
    style = (site / "css" / "evenflow.css").read_text(encoding="utf-8")
    assert ".codehilite .k" in style
