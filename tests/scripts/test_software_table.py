"""The tables of the pages on software are those of the words."""

import pytest

from scripts import make_software_table


@pytest.mark.parametrize("path", make_software_table.PAGES, ids=lambda path: path.parent.name)
def test_the_page_has_the_words(path) -> None:  # type: ignore[no-untyped-def]
    assert make_software_table.page(path) == path.read_text(encoding="utf-8"), "make software-table"
