"""The report page in a browser that has no network: what people do on it, and what they then see."""

import json
import re
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import evenflow
from evenflow.baselines.even_plan import even_plan
from evenflow.draw import timeline_svg
from evenflow.draw.memory_curve_picture import CurvePoint
from evenflow.draw.palette import COPIES, ENCODERS, HIDDEN, page_palette
from evenflow.export.chrome_trace import TracedStep, chrome_trace
from evenflow.export.results.json_text import format_object
from evenflow.model import Communication, Plan, Sizes
from evenflow.profiles.layer_file import read_layer_file
from evenflow.profiles.plan_fields import network_fields, simulation_fields
from evenflow.profiles.plan_file import parse_plan
from evenflow.report import Advice, report_html, shown_simulation
from evenflow.report.page_sentences import page_sentences
from evenflow.report.what_if import change_code
from evenflow.schedule import Op
from evenflow.simulate import simulate
from evenflow.units import GIGABYTE
from tests.networks import MILLISECOND
from tests.page.conftest import LIMIT, Opened, Reports, Simulations, drawn, encoding, network, offloaded
from tests.paths import ROOT

pytestmark = pytest.mark.page

ROW = 54
"""Where the first rank's row begins, and each row's height."""
PITCH = 38
LEFT = 76
SIZES = ((1440, 900), (1024, 768), (390, 844))


def spoken(page: Any) -> str:
    return str(page.locator(".viewer .spoken").first.text_content())


def hover(page: Any, x: float, y: float) -> None:
    canvas = page.locator(".viewer canvas:not(.above)").first
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    page.mouse.move(box["x"] + x, box["y"] + y)


def click(page: Any, x: float, y: float) -> None:
    hover(page, x, y)
    page.mouse.down()
    page.mouse.up()


def place(page: Any) -> dict[str, str]:
    """What the address says, once the page's own clock has written it: it waits for less than this one does."""
    page.evaluate("new Promise(done => setTimeout(done, 200))")
    return dict(part.split("=") for part in page.evaluate("location.hash").lstrip("#").split("&") if part)


PIXELS = """at => {
    const canvas = document.querySelector('.viewer canvas');
    const copy = document.createElement('canvas');
    [copy.width, copy.height] = [canvas.width, canvas.height];
    const context = copy.getContext('2d', { willReadFrequently: true });
    context.drawImage(canvas, 0, 0);
    return context.getImageData(...(at ?? [0, 0]), ...(at ? [1, 1] : [copy.width, copy.height])).data;
}"""


def pixel(page: Any, x: float, y: float) -> tuple[int, int, int]:
    red, green, blue, _opacity = page.evaluate(f"at => [...({PIXELS})(at)]", [x, y])
    return red, green, blue


def pixel_count(page: Any, wanted: tuple[int, int, int]) -> int:
    return int(
        page.evaluate(
            f"""([red, green, blue]) => {{
                const data = ({PIXELS})(null);
                let count = 0;
                for (let at = 0; at < data.length; at += 4)
                    if (data[at] === red && data[at + 1] === green && data[at + 2] === blue) count++;
                return count;
            }}""",
            list(wanted),
        )
    )


def colour(text: str) -> tuple[int, int, int]:
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def milliseconds(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-").removesuffix(" ms"))


def search(page: Any, text: str) -> str:
    page.locator("input[type=search]").first.fill(text)
    page.locator("input[type=search]").first.press("Enter")
    return str(page.locator(".panel output").first.text_content())


def open_fold(page: Any, name: str) -> None:
    page.locator(f"details.{name} summary:visible").click()


def test_the_decision_is_short_and_the_timeline_above_the_fold(opened: Opened, reports: Reports):
    page = opened(reports["one"], size=(1280, 800))
    text = page.locator("main").inner_text()
    assert "good: within 1.00 % of optimal" in text
    assert page.locator(".figures:visible").count() == 1
    figures = page.locator(".figures.lead dt").all_inner_texts()
    assert figures == ["Step time", "Peak memory", "Idle, of the step"]
    assert "memory binds on rank 0" not in text  # folded
    box = page.locator(".viewer canvas:not(.above)").bounding_box()
    assert box["y"] + ROW + 4 * PITCH < 800
    open_fold(page, "decided")
    assert page.get_by_text("memory binds on rank 0").is_visible()


def test_sixty_four_ranks_stand_on_one_screen(opened: Opened, tmp_path: Path):
    plan = Plan(schedule="1f1b", num_microbatches=96, layers=((2,) * 64,))
    path = tmp_path / "many.html"
    shown = shown_simulation(simulate(network(128), plan), name="many", memory_limit_bytes=LIMIT)
    path.write_text(report_html([shown], title="many"), encoding="utf-8")
    page = opened(path, size=(1280, 800))
    assert page.locator(".viewer canvas:not(.above)").bounding_box()["y"] + ROW + 64 * 6 < 800


def test_an_action_has_one_colour_in_page_and_pictures(
    opened: Opened, reports: Reports, simulations: Simulations, tmp_path: Path
):
    page = opened(reports["one"])
    timeline = simulations["good"].timeline
    backward = int(np.flatnonzero((timeline.schedule.ops == Op.B) & (timeline.schedule.ranks == 0))[0])
    canvas_width = page.locator(".viewer canvas:not(.above)").bounding_box()["width"]
    middle = (timeline.start_ns[backward] + timeline.end_ns[backward]) / 2 / timeline.makespan_ns
    drawn = pixel(page, LEFT + middle * (canvas_width - LEFT - 16), ROW + 4)
    shade = "#{:02x}{:02x}{:02x}".format(*drawn)
    command = timeline_svg(simulations["good"], memory_limit_bytes=LIMIT, title="good", certificate="")
    assert f'fill="{shade}"' in command
    assert f'fill="{shade}"' in saved(page, "Save SVG", tmp_path).read_text(encoding="utf-8")


def test_all_that_is_known_stands_on_the_page(opened: Opened, reports: Reports):
    page = opened(reports["one"])
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    text = page.locator("main").inner_text()
    for expected in ("small, good", "within 1.00 % of optimal", "memory binds on rank 0", "rank 3", "critical path"):
        assert expected in text
    assert page.locator("table.ranks tbody tr").count() == 4
    # Every key has become a sentence, and no place in one has been left open.
    assert not [key for key in page_sentences() if "_" in key and re.search(rf"\b{key}\b", text)]
    assert not re.findall(r"\{\w+\}", text)


def test_pointing_at_an_action_tells_about_it(opened: Opened, reports: Reports):
    page = opened(reports["one"])
    hover(page, LEFT + 2, ROW + 10)
    card = page.locator(".card").first
    assert card.is_visible()
    text = card.inner_text()
    assert "forward of microbatch 0, chunk 0, on rank 0" in text
    assert "layers 0 to 3: 4 decoder" in text
    hover(page, LEFT + 2, ROW + 3 * PITCH + 10)  # rank 3 is idle there
    assert not card.is_visible()


def test_copies_to_the_host_have_lines_and_are_told_of(opened: Opened, reports: Reports):
    page = opened(reports["moved"])
    legend = page.locator(".legend").first.inner_text()
    assert "copy to the host" in legend
    assert "copy back" in legend
    for _name, shade in COPIES:
        assert pixel_count(page, colour(shade)) > 20
    hover(page, LEFT + 2, ROW + 5)  # the first forward, whose activations leave
    assert "copy to the host" in page.locator(".card").first.inner_text()
    page = opened(reports["one"])
    assert "copy to the host" not in page.locator(".legend").first.inner_text()


def test_what_encoders_do_in_bubbles_is_drawn_and_told_of(opened: Opened, reports: Reports):
    page = opened(reports["encoding"])
    legend = page.locator(".legend").first.inner_text()
    for (name, _shade), shade in zip(ENCODERS, page_palette(1)["safe"]["encoders"], strict=True):
        assert name in legend
        assert pixel_count(page, colour(shade)) > 200
    encoded, timeline = encoding().encoded, encoding().timeline
    assert encoded is not None
    inside = np.flatnonzero(encoded.forwards.start_ns >= 0)
    place = inside[np.argmax(encoded.forwards.ranks[inside])]
    rank, microbatch = encoded.forwards.ranks[place], encoded.forwards.microbatches[place]
    middle = (encoded.forwards.start_ns[place] + encoded.forwards.end_ns[place]) / 2 / timeline.makespan_ns
    box = page.locator("canvas").first.bounding_box()
    assert box is not None
    hover(page, LEFT + middle * (box["width"] - LEFT - 16), ROW + rank * PITCH + 10)
    told = page.locator(".card").first.inner_text()
    assert f"encoders' forward of microbatch {microbatch} on rank {rank}" in told
    assert "3.000 ms" in told
    page = opened(reports["one"])
    assert "encoders" not in page.locator(".legend").first.inner_text()


def test_pairs_have_a_line_and_tell_of_each_other(opened: Opened, reports: Reports):
    page = opened(reports["paired"])
    assert HIDDEN[0] in page.locator(".legend").first.inner_text()
    assert pixel_count(page, colour(HIDDEN[1])) > 20
    for op, other in (("F", "backward of microbatch 0"), ("B", "forward of microbatch 2")):
        page = opened(reports["paired"], place=f"#rank=3&mb=1&op={op}")
        assert "on rank 3" in spoken(page)
        assert f"runs beside {other} on rank 3, which saves 4.000 ms" in spoken(page)
    page = opened(reports["one"])
    assert HIDDEN[0] not in page.locator(".legend").first.inner_text()


def test_waits_for_copies_are_a_cause_of_their_own(opened: Opened, reports: Reports):
    page = opened(reports["moved"])
    open_fold(page, "by-rank")
    assert "host copies" in page.locator(".legend").first.inner_text()
    assert "host copies, ms" in page.locator("table.ranks").first.inner_text()
    idle = offloaded().idle[0]
    assert idle.host_copies_ns > 0
    bar = page.locator("table.ranks tbody tr").first.locator(".cause-copying")
    assert bar.evaluate("part => parseFloat(part.style.width)") > 0
    assert bar.evaluate("part => getComputedStyle(part).backgroundColor") == "rgb{}".format(
        colour(page_palette(2)["safe"]["idle"]["host_copies"])
    )
    page = opened(reports["one"])
    assert "host copies" not in page.locator("main").inner_text()


def test_choosing_shows_what_an_action_waits_for(opened: Opened, reports: Reports, simulations: Simulations):
    page = opened(reports["one"])
    assert search(page, "r1 mb0 F c0") == "1 of 1"
    said = spoken(page)
    assert "forward of microbatch 0, chunk 0, on rank 1" in said
    assert "needs forward of microbatch 0, chunk 0, on rank 0, which travels for 500" in said
    timeline = simulations["good"].timeline
    first = timeline.schedule.rank_starts[1]
    assert f"begins at {timeline.start_ns[first] / 1e6:.3f} ms" in said
    assert place(page)["rank"] == "1"
    page.locator(".viewer canvas:not(.above)").focus()
    page.keyboard.press("Escape")
    assert "rank" not in place(page)


def test_the_critical_path_is_that_of_the_simulator(opened: Opened, reports: Reports, simulations: Simulations):
    page = opened(reports["one"])
    before = pixel_count(page, (194, 24, 91))
    page.get_by_role("button", name="critical path").click()
    drawn(page)
    marked = pixel_count(page, (194, 24, 91))
    timeline = simulations["good"].timeline
    path = timeline.critical_path()
    length = sum(int(timeline.end_ns[action] - timeline.start_ns[action]) for action in path)
    width = (
        1440 - 2 * 1 - 2 * 28.8 - 2 * 22.4
    )  # of the page less its margins; a bar of four pixels goes under each action
    expected = 4 * length / timeline.makespan_ns * (width - LEFT - 16)
    assert before == 0
    assert abs(marked / expected - 1) < 0.1


def test_keys_zoom_move_and_walk(opened: Opened, reports: Reports):
    page = opened(reports["one"])
    page.locator(".viewer canvas:not(.above)").focus()
    assert "span" not in place(page)
    page.keyboard.press("w")
    narrow = place(page)
    page.keyboard.press("d")
    moved = place(page)
    assert float(moved["t"].removesuffix("ms")) > float(narrow["t"].removesuffix("ms"))
    page.keyboard.press("0")
    assert "span" not in place(page)
    search(page, "r0 mb0 F c0")
    page.locator(".viewer canvas:not(.above)").focus()
    page.keyboard.press("ArrowRight")
    assert "microbatch 1, chunk 0, on rank 0" in spoken(page)
    page.keyboard.press("ArrowDown")
    assert "microbatch 1, chunk 0, on rank 1" in spoken(page)
    page.keyboard.press("ArrowUp")
    assert "microbatch 1, chunk 0, on rank 0" in spoken(page)
    page.keyboard.press("?")
    assert page.locator("dialog").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("dialog").is_visible()
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"


def test_the_wheel_zooms_and_dragging_moves(opened: Opened, reports: Reports):
    page = opened(reports["one"])
    hover(page, 600, ROW + 20)
    page.mouse.wheel(0, -400)
    zoomed = place(page)
    page.mouse.down()
    box = page.locator(".viewer canvas:not(.above)").first.bounding_box()
    page.mouse.move(box["x"] + 400, box["y"] + ROW + 20, steps=4)
    page.mouse.up()
    moved = place(page)
    assert moved["span"] == zoomed["span"]
    assert float(moved["t"].removesuffix("ms")) > float(zoomed["t"].removesuffix("ms"))
    assert "rank" not in moved  # dragging chooses nothing


def test_addresses_lead_to_actions(opened: Opened, reports: Reports):
    page = opened(reports["three"], place="#plan=1&rank=3&mb=7&t=120ms")
    assert page.locator("h2:visible").inner_text() == "worse"
    assert "microbatch 7" in spoken(page)
    assert "on rank 3" in spoken(page)
    page.evaluate("location.hash = '#plan=0&rank=2&mb=1&op=B'")
    drawn(page)
    assert page.locator("h2:visible").inner_text() == "good"
    assert "backward of microbatch 1" in spoken(page)
    assert "on rank 2" in spoken(page)


@pytest.mark.parametrize("address", ["#rank=99&mb=1", "#plan=9", "#t=never", "#rank=1e9&mb=-3", "#%E0%A4%A"])
def test_addresses_that_lead_nowhere_are_ignored(opened: Opened, reports: Reports, address: str):
    page = opened(reports["three"], place=address)
    assert page.locator(".viewer canvas:not(.above)").first.is_visible()


def test_searches(opened: Opened, reports: Reports):
    page = opened(reports["one"])
    assert search(page, "mb3 B") == "1 of 8"
    assert search(page, "mb3 B") == "2 of 8"
    assert search(page, "r77") == "nothing found"
    assert search(page, "hello") == page_sentences()["search_unknown"]


def test_timelines_side_by_side(opened: Opened, reports: Reports, simulations: Simulations):
    page = opened(reports["three"])
    page.keyboard.press("2")
    assert page.locator("h2:visible").inner_text() == "worse"
    page.keyboard.press("]")
    assert page.locator("h2:visible").inner_text() == "zbv"
    page.keyboard.press("]")
    assert page.locator(".viewer canvas:not(.above)").count() == 3
    good, worse = (simulations[name] for name in ("good", "worse"))
    rows = page.locator("table.steps tbody tr")
    name, step, longer, per_microbatch, fits, peak = rows.nth(1).locator("th, td").all_inner_texts()
    assert name == "worse"
    assert milliseconds(step) == pytest.approx(worse.makespan_ns / 1e6, abs=0.05)
    change = worse.makespan_ns - good.makespan_ns
    assert f"({100 * change / good.makespan_ns:+.2f} %)" in longer.replace("−", "-")
    assert milliseconds(per_microbatch) == pytest.approx(worse.makespan_ns / 8e6, abs=0.005)
    most = max(worse.peak_memory_bytes)
    assert f"{(LIMIT - most) / GIGABYTE:.2f} GB free" in fits
    assert peak == f"rank {worse.peak_memory_bytes.index(most)}: {most / GIGABYTE:.2f} GB"
    open_fold(page, "by-rank")
    page.locator("table.differences").wait_for()
    cells = page.locator("table.differences tbody tr").first.locator("td").all_inner_texts()
    busy = (int(worse.timeline.busy_ns[0]) - int(good.timeline.busy_ns[0])) / 1e6
    assert float(cells[0].replace(",", "").replace("−", "-")) == pytest.approx(busy, abs=0.051)
    peak_change = (worse.peak_memory_bytes[0] - good.peak_memory_bytes[0]) / GIGABYTE
    assert float(cells[6].replace("−", "-")) == pytest.approx(peak_change, abs=0.006)
    # One time axis: a zoom in one is a zoom in all.
    page.locator(".viewer canvas:not(.above)").nth(1).focus()
    before = [canvas_text(page, index) for index in range(3)]
    page.keyboard.press("w")
    drawn(page)
    assert all(canvas_text(page, index) != before[index] for index in range(3))


def test_what_is_chosen_in_one_timeline_is_marked_in_all(opened: Opened, reports: Reports):
    page = opened(reports["three"], place="#beside=0,1")
    before = [canvas_text(page, index) for index in range(2)]
    assert search(page, "r2 mb3 F c1") == "1 of 1"
    drawn(page)
    assert all(canvas_text(page, index) != before[index] for index in range(2))
    spoken = page.locator(".viewer .spoken").all_text_contents()
    assert all("forward of microbatch 3, chunk 1, on rank 2" in each for each in spoken)
    kept = place(page)
    assert (kept["beside"], kept["plan"], kept["rank"]) == ("0-1", "0", "2")


def test_five_timelines_stand_on_one_screen(opened: Opened, simulations: Simulations, tmp_path: Path):
    shown = [
        shown_simulation(simulations["good"], name=f"plan {number}", memory_limit_bytes=LIMIT) for number in range(6)
    ]
    path = tmp_path / "six.html"
    path.write_text(report_html(shown, title="six"), encoding="utf-8")
    page = opened(path, size=(1280, 800))
    page.keyboard.press("[")
    canvases = page.locator(".viewer canvas:not(.above)")
    assert canvases.count() == 5
    last = canvases.nth(4).bounding_box()
    assert last["y"] + last["height"] <= 800
    assert page.get_by_label("plan 5", exact=True).is_disabled()  # five are the most
    page.get_by_label("plan 1", exact=True).click()
    page.get_by_label("plan 5", exact=True).click()
    assert place(page)["beside"] == "0,2-5"
    assert page.evaluate("document.activeElement.closest('label').textContent") == "plan 5"
    assert page.locator("table.steps tbody th").all_inner_texts() == [f"plan {number}" for number in (0, 2, 3, 4, 5)]


def test_each_timeline_may_have_an_axis_of_its_own(opened: Opened, reports: Reports, simulations: Simulations):
    page = opened(reports["three"], place="#beside=0,1")
    good, worse = (simulations[name].makespan_ns for name in ("good", "worse"))
    assert good < worse

    def last_drawn(index: int) -> float:
        """The right end of the last column of the picture's rows that is not paper, as a share of the axis."""
        return float(
            page.evaluate(
                """index => {
                    const canvas = document.querySelectorAll('.viewer canvas:not(.above)')[index];
                    const height = canvas.height - 30;
                    const data = canvas.getContext('2d').getImageData(0, 26, canvas.width, height).data;
                    let last = 0;
                    for (let at = 0; at < data.length; at += 4)
                        if (Math.abs(data[at] - data[at + 2]) > 30) last = Math.max(last, (at / 4) % canvas.width);
                    return (last + 1 - 76) / (canvas.width - 76 - 16);
                }""",
                index,
            )
        )

    page.get_by_role("button", name="idle by cause").click()
    drawn(page)
    assert last_drawn(0) == pytest.approx(good / worse, abs=0.01)
    assert last_drawn(1) == pytest.approx(1, abs=0.01)
    page.get_by_label("Time axis").select_option("own")
    drawn(page)
    assert last_drawn(0) == pytest.approx(1, abs=0.01)
    assert last_drawn(1) == pytest.approx(1, abs=0.01)
    assert place(page)["axes"] == "on"


def test_steps_of_unequal_work_are_not_compared_as_if_it_were_equal(
    opened: Opened, simulations: Simulations, tmp_path: Path
):
    few = Plan(schedule="interleaved", num_microbatches=4, layers=((3, 3, 3, 3), (3, 3, 3, 3)))
    less = simulate(network(24), few)
    other = simulate(network(12), Plan(schedule="1f1b", num_microbatches=8, layers=((3, 3, 3, 3),)))
    named = {"whole": simulations["good"], "half": less, "other": other}
    shown = [shown_simulation(each, name=name, memory_limit_bytes=LIMIT) for name, each in named.items()]
    path = tmp_path / "unequal.html"
    path.write_text(report_html(shown, title="unequal"), encoding="utf-8")
    page = opened(path, place="#beside=0-2")
    cells = [row.locator("td").nth(1).inner_text() for row in page.locator("table.steps tbody tr").all()]
    change = 2 * less.makespan_ns - simulations["good"].makespan_ns
    assert f"({100 * change / simulations['good'].makespan_ns:+.2f} %)" in cells[1].replace("−", "-")
    assert cells[2] == "–"
    notes = page.locator(".compare .note").all_inner_texts()
    assert "half has 4 microbatches where whole has 8" in notes[0]
    assert "other has other layers" in notes[1]
    assert page.locator("details.by-rank:visible").count() == 0  # there is nothing to compare


def test_differences_by_action_are_those_of_the_simulator(opened: Opened, reports: Reports, simulations: Simulations):
    page = opened(reports["three"], place="#beside=0,1")
    open_fold(page, "by-action")
    page.locator("table.by-action").wait_for()
    one, other = (simulations[name].timeline for name in ("good", "worse"))
    keys = [
        {
            key: action
            for action, key in enumerate(zip(each.schedule.ops, each.schedule.stages, each.schedule.units, strict=True))
        }
        for each in (one, other)
    ]
    takes = [each.end_ns - each.start_ns for each in (one, other)]
    differing = (abs(int(takes[1][keys[1][key]] - takes[0][action])) for key, action in keys[0].items())
    changes = sorted(filter(None, differing), reverse=True)[:50]
    cells = page.locator("table.by-action tbody tr td:first-of-type").all_inner_texts()
    shown = [abs(milliseconds(cell)) for cell in cells]
    assert shown == pytest.approx([change / 1e6 for change in changes], abs=0.01)


def canvas_text(page: Any, index: int) -> str:
    return str(
        page.evaluate("index => document.querySelectorAll('.viewer canvas:not(.above)')[index].toDataURL()", index)
    )


def test_colours_and_themes(opened: Opened, reports: Reports):
    page = opened(reports["one"])
    sets = page_palette(2)
    at = (LEFT + 2, ROW + 3)
    assert page.evaluate("document.documentElement.dataset.theme") == "light"
    assert pixel(page, *at) == colour(sets["safe"]["forward"][0])
    page.get_by_label("Colours").select_option("paper")
    drawn(page)
    assert pixel(page, *at) == colour(sets["paper"]["forward"][0])
    page.get_by_label("Theme").select_option("dark")
    drawn(page)
    assert sum(pixel(page, 2, ROW)) < 150
    dark = opened(reports["one"], color_scheme="dark")
    assert dark.evaluate("document.documentElement.dataset.theme") == "dark"


def test_what_to_copy_is_copied(opened: Opened, reports: Reports):
    page = opened(reports["one"])
    open_fold(page, "running")
    page.locator(".running select").select_option("torchtitan 0.3.0, in its own words for many ranks")
    assert page.locator(".running .note").inner_text() == "2 % slower"
    assert "module <b>" in page.locator(".running h3").inner_text()
    page.evaluate(
        "navigator.clipboard.writeText = undefined; document.addEventListener('copy', () => "
        "{ window.copied = document.activeElement.value; })"
    )
    page.locator(".copy").click()
    drawn(page)
    assert page.locator(".copy").inner_text() == "Copied"
    assert page.evaluate("window.copied") == "a = 1 < 2\n"


def test_the_table_of_actions(opened: Opened, reports: Reports, simulations: Simulations):
    page = opened(reports["one"])
    open_fold(page, "actions")
    rows = page.locator("table.actions tbody tr")
    rows.first.wait_for()  # made when the table is opened
    assert rows.count() == 32  # 8 microbatches in 2 chunks, forward and backward
    page.locator("details.actions select").select_option("2")
    schedule = simulations["good"].timeline.schedule
    first = schedule.rank_starts[2]
    start = simulations["good"].timeline.start_ns[first] / 1e6
    assert f"{start:.3f} ms" in rows.first.inner_text()
    rows.nth(3).locator("button").click()
    assert "on rank 2" in spoken(page)


def saved(page: Any, name: str, folder: Path) -> Path:
    with page.expect_download() as found:
        page.get_by_role("button", name=name).click()
    path = folder / found.value.suggested_filename
    found.value.save_as(path)
    return path


def test_pictures_that_are_saved(opened: Opened, reports: Reports, tmp_path: Path):
    page = opened(reports["one"])
    svg = saved(page, "Save SVG", tmp_path)
    assert svg.suffix == ".svg"
    root = ElementTree.fromstring(svg.read_text(encoding="utf-8"))
    fills = [each.get("fill") for each in root.iter("{http://www.w3.org/2000/svg}rect")]
    forward = page_palette(2)["safe"]["forward"]
    assert fills.count(forward[0]) >= 32  # 4 ranks x 8 microbatches
    texts = [each.text for each in root.iter("{http://www.w3.org/2000/svg}text")]
    assert {"rank 0", "rank 3", "small, good"} <= set(texts)
    # The legend of the page is that of the picture.
    legend = page.locator(".legend li").all_inner_texts()
    assert {"recompute", "imbalance", "fill and drain"} <= set(legend)
    assert set(legend) <= set(texts)
    png = saved(page, "Save PNG", tmp_path)
    assert png.read_bytes().startswith(b"\x89PNG")


def test_the_plan_that_is_saved_is_the_plan(opened: Opened, reports: Reports, simulations: Simulations, tmp_path: Path):
    page = opened(reports["one"])
    text = saved(page, "Save plan", tmp_path).read_text(encoding="utf-8")
    assert parse_plan(text, place="saved") == simulations["good"].plan


@pytest.mark.parametrize("name", ["one", "moved", "encoding"])
def test_the_trace_that_is_saved_is_that_of_the_command(
    opened: Opened, reports: Reports, simulations: Simulations, tmp_path: Path, name: str
):
    page = opened(reports[name])
    own = json.loads(saved(page, "Open in Perfetto", tmp_path).read_text(encoding="utf-8"))["traceEvents"]
    simulation = {"one": simulations["good"], "moved": offloaded(), "encoding": encoding()}[name]
    step = TracedStep.of(simulation, memory_limit_bytes=LIMIT)
    command = json.loads(chrome_trace([step]))["traceEvents"]

    def plain(events: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
        keys = ("ph", "pid", "tid", "ts", "name", "cat", "bind_id", "flow_in", "flow_out")
        return sorted(tuple(str(event.get(key)) for key in keys) for event in events)

    assert plain(own) == plain(command)
    memory = [event["args"]["bytes"] for event in own if event["name" if "name" in event else "ph"] == "memory"]
    expected = [event["args"]["bytes"] for event in command if event.get("name") == "memory"]
    assert memory == expected


VIEWS = {
    "one": "#rank=1&mb=3&op=B&path=on&range=20ms..200ms&rows=1.5&pin=2&fold=0",
    "three": "#beside=0-2&plan=1&rank=2&at=120ms&path=on&memory=on",
    "moved": "#plan=0",
    "encoding": "#rank=0&at=3ms",
    "paired": "#rank=3&mb=1&op=F",
    "ranked": "#plan=2",
}


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", VIEWS)
def test_nothing_stands_in_anybodys_way(opened: Opened, reports: Reports, name: str, scheme: str):
    """Every view, with all that opens open: no finding of any rule of axe."""
    page = opened(reports[name], place=VIEWS[name], color_scheme=scheme)
    page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
    page.get_by_role("button", name="ranks …").click()
    drawn(page)
    page.evaluate((ROOT / "web" / "node_modules" / "axe-core" / "axe.min.js").read_text(encoding="utf-8"))
    assert findings(page) == []
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    assert findings(page) == []


def findings(page: Any) -> list[tuple[str, str, list[str]]]:
    found = page.evaluate("axe.run(document)")["violations"]
    return [(each["id"], each["impact"], [node["html"][:160] for node in each["nodes"][:3]]) for each in found]


def test_one_tab_leads_to_the_timeline(opened: Opened, reports: Reports):
    for name in ("one", "three"):
        page = opened(reports[name])
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.matches('.viewer canvas')")
        page.keyboard.press("Shift+Tab")  # the tools stand before it
        assert page.evaluate("document.activeElement.closest('.tools') !== null")


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_of_every_size_stay_within_their_width(
    opened: Opened, reports: Reports, size: tuple[int, int], scheme: str, tmp_path: Path
):
    for name in ("one", "three", "ranked"):
        page = opened(reports[name], size=size, color_scheme=scheme)
        if name == "three":
            page.keyboard.press("[")
        page.evaluate("document.querySelectorAll('details').forEach(fold => { fold.open = true; })")
        drawn(page)
        assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
        page.screenshot(path=tmp_path / f"{name}_{size[0]}_{scheme}.png", full_page=True)


def test_paper_has_figures_picture_and_tables_alone(opened: Opened, reports: Reports):
    page = opened(reports["one"])
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert not page.get_by_role("button", name="Save SVG").is_visible()
    assert page.locator(".viewer canvas:not(.above)").is_visible()
    assert page.locator("table.ranks").is_visible()
    assert page.locator(".figures").count() == 2
    assert page.get_by_text("memory binds on rank 0").is_visible()
    assert not page.locator("details.running").is_visible()
    assert page.locator(".legend").is_visible()
    swatch = page.locator(".legend .swatch").first
    assert swatch.evaluate("swatch => getComputedStyle(swatch).printColorAdjust") == "exact"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    page.emulate_media(media="screen")
    assert page.locator("details[open]").count() == 0


def test_paper_is_white_whatever_the_screen_is(opened: Opened, reports: Reports):
    page = opened(reports["one"], color_scheme="dark")
    page.evaluate(
        "addEventListener('beforeprint', () => { window.printed = [document.documentElement.dataset.theme,"
        " ...document.querySelector('.viewer canvas').getContext('2d').getImageData(2, 60, 1, 1).data]; })"
    )
    page.pdf()
    assert page.evaluate("window.printed") == ["light", 255, 255, 255, 255]
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"


def test_without_scripts_the_figures_stand_there(browser: Any, reports: Reports):
    context = browser.new_context(java_script_enabled=False, offline=True)
    page = context.new_page()
    page.goto(f"file://{reports['one']}")
    text = page.locator("body").inner_text()
    context.close()
    assert page_sentences()["needs_script"] in text
    assert "memory binds on rank 0" in text
    assert "--pipeline-model-parallel-size 4" in text


def test_the_largest_steps_open_and_move(opened: Opened, tmp_path: Path):
    layers = tuple((3, *(2,) * 63) for _chunk in range(4))
    plan = Plan(schedule="interleaved", num_microbatches=512, layers=layers)
    simulation = simulate(network(516), plan, communication=Communication(latency_ns=MILLISECOND))
    text = report_html([shown_simulation(simulation, name="large", memory_limit_bytes=LIMIT)], title="large")
    assert len(text) < 8_000_000
    path = tmp_path / "large.html"
    path.write_text(text, encoding="utf-8")
    page = opened(path)
    built_ms = page.evaluate("performance.now()")
    assert search(page, "r63 mb511 c3 B") == "1 of 1"
    assert "microbatch 511, chunk 3, on rank 63" in spoken(page)
    page.locator(".viewer canvas:not(.above)").focus()
    page.keyboard.press("0")
    frames_ms = page.evaluate(
        """async () => {
            const canvas = document.querySelector('.viewer canvas');
            const times = [];
            for (let turn = 0; turn < 40; turn++) {
                const began = performance.now();
                canvas.dispatchEvent(new KeyboardEvent('keydown', { key: turn < 8 ? 'w' : 'd', bubbles: true }));
                await new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
                times.push(performance.now() - began);
            }
            return times.sort((one, other) => one - other);
        }"""
    )
    print(  # what they take depends on the machine: told, not judged
        f"64 ranks x 4 chunks x 512 microbatches: {len(text) / 1e6:.2f} MB, built in {built_ms:.0f} ms, "
        f"a frame {frames_ms[20]:.0f} ms, the longest {frames_ms[-1]:.0f} ms"
    )


def test_the_large_example_is_a_small_file(opened: Opened, tmp_path: Path):
    model = read_layer_file(ROOT / "examples" / "llama2_70b.json")
    sizes = Sizes(num_ranks=8, num_chunks=2, num_microbatches=32)
    simulation = simulate(model, even_plan(model, sizes, schedule="interleaved"))
    plan = format_object(simulation_fields(simulation, None) | network_fields(simulation))
    text = report_html([shown_simulation(simulation, name="even", memory_limit_bytes=None, plan=plan)], title="70B")
    assert len(text) < 1_000_000
    path = tmp_path / "70b.html"
    path.write_text(text, encoding="utf-8")
    assert opened(path).locator("table.ranks tbody tr").count() == 8


def test_all_configurations_stand_below_the_timeline(opened: Opened, reports: Reports):
    page = opened(reports["ranked"], size=(1280, 800))
    timeline, chart = (
        page.locator(".viewer canvas").first.bounding_box(),
        page.locator("svg.configurations").bounding_box(),
    )
    assert timeline["y"] < chart["y"]
    words = page.locator("svg.configurations circle title").all_text_contents()
    assert len([each for each in words if each.startswith("way ")]) == 24
    assert any(each.startswith("chosen: way 0: ") for each in words)
    assert any(each.startswith("yours: way 7: ") for each in words)
    assert "no step is shorter (proven): 290 ms" in page.locator("svg.configurations").text_content()
    assert page.locator(".ranking tbody tr").count() == 2
    page.keyboard.press("[")  # side by side, the section stays
    assert page.locator("svg.configurations").is_visible()


def test_notebooks_show_outcomes(browser: Any, tmp_path: Path):
    outcome = evenflow.plan(network(12), num_ranks=2, num_microbatches=4, time_limit_s=20.0)
    notebook = tmp_path / "notebook.html"
    notebook.write_text(f"<!doctype html><title>notebook</title>{outcome._repr_html_()}", encoding="utf-8")
    context = browser.new_context(offline=True)
    page = context.new_page()
    complaints: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(f"file://{notebook}")
    frame = page.frame_locator("iframe")
    frame.locator(".viewer canvas:not(.above)").wait_for(timeout=30_000)
    frame.locator(".viewer canvas:not(.above)").click(position={"x": 80, "y": 60})
    frame.locator(".viewer .spoken", has_text="microbatch 0 on rank 0").wait_for(state="attached", timeout=30_000)
    context.close()
    assert complaints == []


def test_a_dot_of_the_memory_curve_leads_to_its_timeline(opened: Opened, simulations: Simulations, tmp_path: Path):
    points = tuple(
        CurvePoint(limit_bytes=(6 + number) * GIGABYTE, step_ns=(9 - number) * 10**8, is_proven=True, timeline=number)
        for number in range(2)
    )
    shown = [shown_simulation(simulations[name], name=name, memory_limit_bytes=LIMIT) for name in ("good", "worse")]
    decided = replace(shown[0], decision=(Advice(text="memory binds"),), curve=points)
    path = tmp_path / "curve.html"
    path.write_text(report_html([decided, shown[1]], title="curve"), encoding="utf-8")
    page = opened(path, size=(1024, 600))
    open_fold(page, "decided")
    page.locator(".curve a").nth(1).click()
    drawn(page)
    assert page.locator("h2:visible").first.inner_text() == "worse"
    assert 0 <= page.locator(".viewer:visible").bounding_box()["y"] < 300
    assert place(page)["plan"] == "1"
    assert page.evaluate("document.activeElement.matches('.viewer canvas')")


def test_a_dot_without_a_timeline_opens_its_plan_as_a_change(opened: Opened, simulations: Simulations, tmp_path: Path):
    """The page simulates the plan of the dot; its step is the one of the curve."""
    good, worse = (simulations[name] for name in ("good", "worse"))
    plan = format_object(simulation_fields(good, LIMIT) | network_fields(good))
    shown = shown_simulation(good, name="good", memory_limit_bytes=LIMIT, plan=plan)
    code = change_code(worse.plan, shown.what_if, good.timeline.schedule, LIMIT + 1)
    points = tuple(
        CurvePoint(limit_bytes=size * GIGABYTE, step_ns=each.makespan_ns, is_proven=True, change=code)
        for size, each in ((9, worse), (10, good))
    )
    decided = replace(shown, decision=(Advice(text="memory binds"),), curve=points)
    path = tmp_path / "curve.html"
    path.write_text(report_html([decided], title="curve"), encoding="utf-8")
    page = opened(path)
    open_fold(page, "decided")
    page.locator(".curve a").first.click()
    drawn(page)
    assert f"The step takes {worse.makespan_ns / 1e6:,.2f} ms:" in page.locator(".verdict").inner_text()
    page.wait_for_url(re.compile(f"~g{LIMIT + 1}"))


def test_no_change_makes_a_plan_that_the_page_does_not_simulate(simulations: Simulations):
    plan, schedule = simulations["good"].plan, simulations["good"].timeline.schedule
    assert change_code(plan, None, schedule, LIMIT) == ""
    assert change_code(plan, {"why_not": "copies"}, schedule, LIMIT) == ""
