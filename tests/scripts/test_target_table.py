"""The table of frameworks says what their data say."""

import re

from evenflow.targets.registry import all_targets
from scripts import make_target_table
from tests.paths import ROOT


def test_the_page_has_the_table_of_the_data():
    text = (ROOT / "docs" / "targets" / "index.md").read_text(encoding="utf-8")
    assert text == make_target_table.page(), "make target-table"


def test_every_framework_has_a_row():
    rows = re.findall(r"^\| \[.+?\]\(.+?\) \| `(.+?)` \|", make_target_table.table(), re.MULTILINE)
    assert set(rows) == set(all_targets())
