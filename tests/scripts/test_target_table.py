"""The table of frameworks says what their data say."""

import re

from evenflow.joining import Registry
from evenflow.targets.registry import all_targets
from scripts import make_target_table
from tests.paths import ROOT


def test_the_page_has_the_table_of_the_data():
    text = (ROOT / "docs" / "targets" / "index.md").read_text(encoding="utf-8")
    assert text == make_target_table.page(), "make target-table"


def test_every_framework_has_a_row_and_a_page():
    rows = re.findall(r"^\| \[(.+?)\]\((.+?)\) \| `(.+?)` \|", make_target_table.table(), re.MULTILINE)
    assert {name for _, _, name in rows} == set(all_targets().own)
    for title, page, _ in rows:
        assert (ROOT / "docs" / "targets" / page).is_file(), f"{title} has no page docs/targets/{page}"


def test_the_first_page_names_every_framework():
    for page in ("README.md", "README.zh-CN.md"):
        text = (ROOT / page).read_text(encoding="utf-8").lower()
        missing = [target.title for target in all_targets().own.values() if target.title.split()[0].lower() not in text]
        assert missing == [], page


def test_the_page_is_the_same_beside_packages_that_bring_more(monkeypatch):
    monkeypatch.setattr(Registry, "_others", lambda self: {"joined": next(iter(self.own.values()))})
    test_the_page_has_the_table_of_the_data()
