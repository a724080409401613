"""The pages of targets."""

from evenflow.targets.target import Target
from tests.paths import ROOT


def page_of(target: Target) -> str:
    """Return the text of the page of a target."""
    return (ROOT / "docs" / "targets" / f"{target.page}.md").read_text(encoding="utf-8")
