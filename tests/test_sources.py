"""What the code cites is on the page of sources."""

import re
from pathlib import Path

import pytest

from tests.paths import ROOT

CITED = re.compile(r"arXiv:(\d{4}\.\d{5})|\[((?:SAPP guide|uneven VPP talk|pipeline study notes))|document (\d{3})")


@pytest.mark.parametrize("folder", ["src", "tests", "docs", "evenflow-torch"])
def test_every_citation_is_explained(folder: str) -> None:
    page = (ROOT / "docs/sources.md").read_text(encoding="utf-8")
    texts = [path for ending in ("py", "md") for path in (ROOT / folder).rglob(f"*.{ending}") if path != Path(__file__)]
    cited = {found for path in texts for groups in CITED.findall(path.read_text(encoding="utf-8")) for found in groups}
    assert cited - {""}
    assert [found for found in cited if found not in page] == []
