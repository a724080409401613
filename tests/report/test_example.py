"""The live report of the documentation is one that evenflow writes now."""

from evenflow.profiles.report_file import carried_plans
from tests.paths import ROOT

EXAMPLE = ROOT / "docs" / "report-example.html"


def test_the_live_report_has_the_present_script_and_style():
    page = EXAMPLE.read_text(encoding="utf-8")
    for name in ("report.js", "report.css"):
        asset = (ROOT / "src" / "evenflow" / "report" / "assets" / name).read_text(encoding="utf-8")
        assert asset in page, "make report-example writes it again"


def test_the_live_report_carries_its_plans():
    plans = list(carried_plans(EXAMPLE.read_text(encoding="utf-8"), place="example"))
    assert plans[0].name == "recommended"
    assert len(plans) == 5
