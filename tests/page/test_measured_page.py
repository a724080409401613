"""A measured step on the page: where it waits, and the prediction minus it, by stage and by action."""

from pathlib import Path

import pytest

from evenflow.fields import as_fields
from evenflow.profiles.steps import step_of_file
from evenflow.report import report_html, shown_simulation
from evenflow.report.of_measured import shown_measured
from tests.page.conftest import LIMIT, Opened, Simulations, drawn
from tests.page.test_report_page import findings, milliseconds, open_fold
from tests.paths import ROOT
from tests.profiles.steps.builders import step_fields

pytestmark = pytest.mark.page


@pytest.fixture
def beside(simulations: Simulations, tmp_path: Path) -> Path:
    """A plan, and a measured step that went like another one of the same sizes."""
    step = step_of_file(as_fields(step_fields(simulations["worse"].timeline), file="step.json"))
    shown = [
        shown_simulation(simulations["good"], name="plan", memory_limit_bytes=LIMIT),
        shown_measured(step, name="run"),
    ]
    path = tmp_path / "beside.html"
    path.write_text(report_html(shown, title="beside"), encoding="utf-8")
    return path


def test_the_prediction_minus_the_measurement(opened: Opened, beside: Path, simulations: Simulations):
    page = opened(beside, place="#beside=0,1")
    open_fold(page, "by-action")
    assert page.locator("details.by-action .note").first.inner_text() == "plan minus run, measured"
    good, worse = (simulations[name].timeline for name in ("good", "worse"))
    rows = page.locator("table.by-stage tbody tr")
    used = len(good.schedule.used_ops)
    assert rows.count() == good.schedule.num_stages * used
    for row in range(rows.count()):
        stage, op = divmod(row, used)
        cells = rows.nth(row).locator("td").all_inner_texts()
        means = []
        for timeline in (good, worse):
            schedule = timeline.schedule
            own = (schedule.stages == stage) & (schedule.ops == schedule.used_ops[op])
            means.append(float((timeline.end_ns - timeline.start_ns)[own].mean()) / 1e6)
        assert [milliseconds(cell) for cell in cells[:2]] == pytest.approx(means, abs=0.01)
        difference = 0 if cells[2] == "0" else milliseconds(cells[2])
        assert difference == pytest.approx(means[0] - means[1], abs=0.01)


def test_waiting_and_communication_have_names_and_colours(opened: Opened, beside: Path):
    page = opened(beside, place="#beside=0,1")
    legend = page.locator(".legend:visible").first.inner_text()
    assert "waiting" in legend
    open_fold(page, "by-rank")
    heads = page.locator("table.differences thead").inner_text()
    assert "waiting" in heads
    assert "communication" in heads
    assert "imbalance" not in heads, "a cause of predictions alone"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("place", ["#beside=0,1", "#plan=1"])
def test_a_measured_step_stands_in_nobodys_way(opened: Opened, beside: Path, place: str, scheme: str):
    page = opened(beside, place=place, color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    drawn(page)
    page.evaluate((ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    assert findings(page) == []
