"""A plan is changed on its page, by mouse, keys and touch: what is then seen is what the simulator says of it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from evenflow.cli.main import main
from evenflow.export.results.json_text import format_object
from evenflow.model import Communication, Plan
from evenflow.profiles.plan_fields import plan_file_fields
from evenflow.profiles.plan_file import parse_plan_file
from evenflow.report import report_html, shown_simulation
from evenflow.simulate import Simulation, simulate
from evenflow.units import GIGABYTE
from tests.page.conftest import LIMIT, Opened, Reports, Simulations, drawn, encoding, network, offloaded, paired
from tests.page.test_report_page import SIZES, findings, place
from tests.paths import ROOT

pytestmark = pytest.mark.page

STEP = re.compile(r"The step takes ([\d,.]+) ms")


def changed(good: Simulation, **fields: Any) -> Simulation:
    return simulate(good.network, replace(good.plan, **fields), communication=good.communication)


def says(page: Any, simulation: Simulation) -> None:
    """The verdict has the step of a plan, and the bars the peaks of its ranks."""
    drawn(page)
    found = STEP.search(page.locator(".verdict").inner_text())
    assert found is not None
    assert float(found[1].replace(",", "")) == pytest.approx(simulation.makespan_ns / 1e6, rel=1e-4)
    held = [float(text.split()[0]) for text in page.locator(".rank-memory li > span:last-child").all_inner_texts()]
    assert held == [pytest.approx(peak / GIGABYTE, abs=0.006) for peak in simulation.peak_memory_bytes]


def layers(page: Any) -> list[int]:
    return [int(text) for text in page.locator(".strip .stage b").all_inner_texts()]


def border(page: Any, number: int) -> Any:
    return page.locator(".strip .border").nth(number)


def test_keys_move_a_border(opened: Opened, reports: Reports, simulations: Simulations):
    page = opened(reports["one"])
    page.keyboard.press("i")
    good = simulations["good"]
    says(page, good)
    assert page.locator(".verdict").inner_text().count("as in the plan") == 1
    assert page.evaluate("document.activeElement.getAttribute('role')") == "slider"
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    moved = changed(good, layers=((2, 5, 3, 3), (3, 3, 3, 2)))
    assert layers(page) == [2, 5, 3, 3, 3, 3, 3, 2]
    says(page, moved)
    page.keyboard.press("Control+z")
    says(page, changed(good, layers=((3, 4, 3, 3), (3, 3, 3, 2))))
    page.keyboard.press("Control+Shift+z")
    says(page, moved)
    border(page, 3).press("End")  # all of the first stage of the second chunk go into the last of the first
    says(page, changed(good, layers=((2, 5, 3, 6), (0, 3, 3, 2)), recompute={"full": ((2, 0, 0, 0), (0, 1, 0, 0))}))
    kept = place(page)
    again = opened(reports["one"], place=f"#if={kept['if']}")
    assert again.locator(".verdict").inner_text() == page.locator(".verdict").inner_text()
    page.get_by_role("button", name="Back to the plan").click()
    assert page.locator(".what-if").count() == 0
    assert "if" not in place(page)


def test_a_border_is_dragged(opened: Opened, reports: Reports, simulations: Simulations):
    page = opened(reports["one"])
    page.get_by_role("button", name="What if").click()
    box, row = border(page, 1).bounding_box(), page.locator(".strip-row").first.bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + 1.1 * row["width"] / 13, y, steps=4)
    assert layers(page) == [4, 4, 2, 3, 3, 3, 3, 2]  # it follows the pointer
    page.mouse.move(x - 2.1 * row["width"] / 13, y, steps=4)
    page.mouse.up()
    says(page, changed(simulations["good"], layers=((4, 1, 5, 3), (3, 3, 3, 2))))
    page.get_by_role("button", name="Undo").click()
    says(page, simulations["good"])
    assert page.get_by_role("button", name="Undo").is_disabled()


def test_a_border_is_dragged_by_touch(opened: Opened, reports: Reports, simulations: Simulations):
    page = opened(reports["one"], place="#if=plan", size=(390, 844), has_touch=True)
    border(page, 0).scroll_into_view_if_needed()
    box = border(page, 0).bounding_box()
    width = page.locator(".strip-row").first.evaluate("row => row.clientWidth")
    touch = page.context.new_cdp_session(page)
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    for kind, at in (("touchStart", 0), ("touchMove", 0.5), ("touchMove", 1.05), ("touchEnd", None)):
        points = [] if at is None else [{"x": x + at * width / 13, "y": y}]
        touch.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert layers(page)[:2] == [5, 2]
    says(page, changed(simulations["good"], layers=((5, 2, 3, 3), (3, 3, 3, 2))))


def test_recomputation_microbatches_and_memory(opened: Opened, reports: Reports, simulations: Simulations):
    page = opened(reports["one"], place="#if=plan")
    good = simulations["good"]
    page.locator(".strip .stage").nth(5).click()
    page.get_by_label("recompute full").fill("3")
    page.keyboard.press("Tab")
    recompute = {"full": ((2, 0, 0, 0), (1, 3, 0, 0))}
    says(page, changed(good, recompute=recompute))
    page.get_by_label("microbatches").fill("13")
    page.keyboard.press("Enter")
    more = changed(good, recompute=recompute, num_microbatches=13)
    says(page, more)
    assert "for each of 13 microbatches" in page.locator(".verdict").inner_text()
    least = min(more.peak_memory_bytes) / GIGABYTE
    page.get_by_label("memory limit, GB").fill(f"{least + 0.01:.3f}")
    page.keyboard.press("Enter")
    over = [rank for rank, peak in enumerate(more.peak_memory_bytes) if peak > (least + 0.01) * GIGABYTE]
    assert page.locator(".rank-memory li.over span:first-child").all_inner_texts() == [f"rank {rank}" for rank in over]
    page.get_by_label("microbatches").fill("0")  # no step has none: the number stays as it was
    page.keyboard.press("Enter")
    assert page.get_by_label("microbatches").input_value() == "13"
    says(page, more)


def test_what_is_saved_is_simulated_alike(opened: Opened, reports: Reports, tmp_path: Path):
    page = opened(reports["one"], place="#if=l4.2.4x2.2.3x2.2~m11~g7000000000")
    with page.expect_download() as downloading:
        page.get_by_role("group", name="What if").get_by_role("button", name="Save plan").click()
    path = tmp_path / downloading.value.suggested_filename
    downloading.value.save_as(path)
    assert page.locator(".command code").inner_text() == f"evenflow simulate {path.name}"
    file = parse_plan_file(path.read_text(encoding="utf-8"), place="saved")
    assert file.network is not None
    assert file.memory_limit_bytes == 7000000000
    assert file.plan.layers == ((4, 2, 4, 4), (2, 3, 3, 2))
    assert file.plan.num_microbatches == 11
    says(page, simulate(file.network, file.plan, communication=file.communication))
    result = CliRunner().invoke(main, ["simulate", str(path), "--json", str(tmp_path / "simulated.json")])
    assert result.exit_code == 0, result.output
    simulated = json.loads((tmp_path / "simulated.json").read_text(encoding="utf-8"))
    step = STEP.search(page.locator(".verdict").inner_text())
    assert step is not None
    assert float(step[1].replace(",", "")) == pytest.approx(simulated["makespan_ms"], rel=1e-4)


def test_a_plan_with_an_order_of_its_own_keeps_its_microbatches(opened: Opened, tmp_path: Path):
    order = ("0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1")
    plan = Plan(schedule="own", num_microbatches=2, layers=((6, 6),), order=order)
    own = simulate(network(12), plan, communication=Communication(latency_ns=10**6))
    page = opened(_page(tmp_path, own), place="#if=plan")
    assert page.get_by_label("microbatches").is_disabled()
    assert "order of its own" in page.locator(".what-if .note").first.inner_text()
    border(page, 0).press("ArrowRight")
    says(page, changed(own, layers=((7, 5),)))


@pytest.mark.parametrize(
    ("made", "reason"), [(offloaded, "copies to the host"), (paired, "beside backwards"), (encoding, "encoders")]
)
def test_plans_that_the_page_does_not_simulate_are_not_changed(opened: Opened, tmp_path: Path, made: Any, reason: str):
    page = opened(_page(tmp_path, made()), place="#if=plan")
    assert reason in page.locator(".refused").inner_text()
    assert page.locator(".what-if").count() == 0


def test_times_that_do_not_come_out_are_refused(opened: Opened, tmp_path: Path, simulations: Simulations):
    path = _page(tmp_path, simulations["good"])
    text = path.read_text(encoding="utf-8")
    assert '"forward_ns":[3000000]' in text
    path.write_text(text.replace('"forward_ns":[3000000]', '"forward_ns":[3000001]'), encoding="utf-8")
    page = opened(path, place="#if=plan")
    assert "does not come to its times exactly" in page.locator(".refused").inner_text()


@pytest.mark.parametrize("code", ["l1.2", "l4.3x3.3.3.3.3", "k9.0x8", "m0", "g0", "l4.3x7~k0.9x8", "nothing"])
def test_changes_that_cannot_be_are_ignored(opened: Opened, reports: Reports, simulations: Simulations, code: str):
    page = opened(reports["one"], place=f"#if={code}")
    says(page, simulations["good"])


def test_the_other_timelines_stay_as_they_are(opened: Opened, reports: Reports, simulations: Simulations):
    page = opened(reports["three"], place="#plan=1&if=l6.2.3.2.3x3.2")
    says(page, changed(simulations["worse"], layers=((6, 2, 3, 2), (3, 3, 3, 2))))
    page.keyboard.press("1")
    assert page.locator(".what-if").count() == 0
    page.keyboard.press("[")
    steps = page.locator("table.steps tbody tr td:nth-of-type(1)").all_inner_texts()
    wanted = [simulations[name].makespan_ns / 1e6 for name in ("good", "worse", "zbv")]
    assert [float(text.removesuffix(" ms")) for text in steps] == [pytest.approx(step, rel=1e-4) for step in wanted]
    assert page.get_by_role("button", name="What if").is_disabled()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_mode_is_for_everybody(opened: Opened, reports: Reports, size: tuple[int, int], scheme: str):
    """No finding of any rule of axe, and nothing beyond the width of the screen."""
    page = opened(reports["one"], place="#if=l5.2.3x5.2~g4000000000", size=size, color_scheme=scheme)
    drawn(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    page.evaluate((ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    assert findings(page) == []


def test_paper_has_what_the_step_becomes_and_no_controls(opened: Opened, reports: Reports):
    page = opened(reports["one"], place="#if=l5.2.3x5.2")
    page.emulate_media(media="print")
    assert page.locator(".verdict").is_visible()
    assert page.locator(".strip").is_visible()
    assert not page.get_by_label("microbatches").is_visible()
    assert not page.locator(".command").is_visible()


def _page(folder: Path, simulation: Simulation) -> Path:
    fields = plan_file_fields(simulation, LIMIT)
    shown = shown_simulation(simulation, name="plan", memory_limit_bytes=LIMIT, plan=format_object(fields))
    path = folder / "plan.html"
    path.write_text(report_html([shown], title="plan"), encoding="utf-8")
    return path
