"""The docked panel of the report page, and how rows are arranged: what is told is what the simulator says."""

from typing import Any

import numpy as np
import pytest

from evenflow.simulate import Simulation, memory_curve, path_shares
from evenflow.units import GIGABYTE
from tests.page.conftest import LIMIT, Opened, Reports, Simulations, drawn, offloaded
from tests.page.test_report_page import LEFT, PITCH, ROW, click, hover, place, search

pytestmark = pytest.mark.page

UNITS = {"ns": 1e-6, "µs": 1e-3, "ms": 1.0, "s": 1e3}


def milliseconds(text: str) -> float:
    value, unit = text.split()
    return float(value.replace(",", "").replace("−", "-")) * UNITS[unit]


def facts(page: Any) -> dict[str, str]:
    names, values = (page.locator(f".facts {tag}").all_inner_texts() for tag in ("dt", "dd"))
    return dict(zip(names, values, strict=True))


def across(page: Any, time_ns: float, simulation: Simulation) -> float:
    """Where a time is on the canvas."""
    width = page.locator(".viewer canvas:not(.above)").bounding_box()["width"]
    return float(LEFT + time_ns / simulation.makespan_ns * (width - LEFT - 16))


def first_gap(simulation: Simulation, rank: int) -> tuple[int, float]:
    """The longest gap before an action of a rank, as the action, and the middle of the gap."""
    starts = simulation.timeline.schedule.rank_starts
    own = slice(starts[rank] + 1, starts[rank + 1])
    action = starts[rank] + 1 + int(np.argmax(simulation.idle_gaps.total_ns[own]))
    return action, float(simulation.timeline.start_ns[action] - simulation.idle_gaps.total_ns[action] / 2)


def test_a_gap_is_told_with_its_causes(opened: Opened, reports: Reports, simulations: Simulations):
    page = opened(reports["one"])
    good = simulations["good"]
    action, middle = first_gap(good, 3)
    click(page, across(page, middle, good), ROW + 3 * PITCH + 10)
    assert page.locator(".dock h3").inner_text() == "idle on rank 3"
    told = facts(page)
    gaps = good.idle_gaps
    assert milliseconds(told["takes"]) == pytest.approx(gaps.total_ns[action] / 1e6, rel=1e-3)
    parts = {
        "– fill and drain": gaps.fill_drain_ns,
        "– imbalance": gaps.imbalance_ns,
        "– recompute": gaps.recompute_ns,
        "– communication": gaps.communication_ns,
    }
    for name, values in parts.items():
        assert milliseconds(told.get(name, "0 ns")) == pytest.approx(values[action] / 1e6, rel=1e-3, abs=1e-9)
    kept = place(page)
    assert kept["rank"] == "3"
    again = opened(reports["one"], place=f"#rank=3&at={kept['at']}")
    assert facts(again) == told
    again.get_by_role("button", name="to what is behind it").click()
    assert facts(again)["idle before it"] == told["takes"]
    again.get_by_role("button", name="Choose nothing").click()
    assert not again.locator(".dock").is_visible()
    assert "rank" not in place(again)


@pytest.mark.parametrize("name", ["one", "moved"])
def test_memory_is_that_of_the_simulator_at_any_time(
    opened: Opened, reports: Reports, simulations: Simulations, name: str
):
    simulation = simulations["good"] if name == "one" else offloaded()
    for rank, share in ((0, 0.02), (2, 0.4), (3, 0.9)):
        time = round(share * simulation.makespan_ns)
        times, held = memory_curve(simulation.timeline, simulation.costs, rank)
        expected = int(held[np.searchsorted(times, time, side="right") - 1]) / GIGABYTE
        page = opened(reports[name], place=f"#rank={rank}&at={time}ns")
        whole = next(value for key, value in facts(page).items() if key.startswith("holds at"))
        assert float(whole.split()[0]) == pytest.approx(expected, abs=0.006)
        free = LIMIT / GIGABYTE - expected
        assert float(whole.split(", ")[1].split()[0]) == pytest.approx(abs(free), abs=0.006)
        assert ("free" in whole) == (free >= 0)


def oracle(simulation: Simulation, begin: int, end: int) -> dict[str, list[float]]:
    """Sums of every rank in a range, from the arrays of the simulator."""
    timeline, schedule, gaps = simulation.timeline, simulation.timeline.schedule, simulation.idle_gaps

    def inside(starts: Any, ends: Any) -> Any:
        return np.clip(np.minimum(ends, end) - np.maximum(starts, begin), 0, None)

    names = ("busy", "idle", "fill_drain_ns", "imbalance_ns", "recompute_ns", "communication_ns", "messages")
    sums: dict[str, list[float]] = {name: [] for name in names}
    for rank in range(schedule.num_ranks):
        own = np.arange(schedule.rank_starts[rank], schedule.rank_starts[rank + 1])
        places = np.append(own, schedule.num_actions + rank)
        gap_ends = np.append(timeline.start_ns[own], timeline.makespan_ns)
        total = gaps.total_ns[places]
        share = inside(gap_ends - total, gap_ends) / np.maximum(total, 1)
        sums["busy"].append(float(inside(timeline.start_ns[own], timeline.end_ns[own]).sum()))
        sums["idle"].append(float((share * total).sum()))
        for name in names[2:6]:
            sums[name].append(float((share * getattr(gaps, name)[places]).sum()))
        inputs = timeline.graph.of_actions.inputs[own]
        sent = own[inputs >= 0]
        leaves = timeline.end_ns[inputs[inputs >= 0]]
        assert timeline.message_ns is not None
        sums["messages"].append(float(inside(leaves, leaves + timeline.message_ns[sent]).sum()))
    return sums


@pytest.mark.parametrize("part", [(0.0, 1.0), (0.13, 0.52), (0.8, 0.97)])
def test_sums_of_a_range_are_those_of_the_simulator(
    opened: Opened, reports: Reports, simulations: Simulations, part: tuple[float, float]
):
    good = simulations["good"]
    begin, end = (round(share * good.makespan_ns) for share in part)
    page = opened(reports["one"], place=f"#range={begin}ns..{end}ns")
    heads = page.locator("table.sums thead th").all_inner_texts()
    columns = {
        "busy": "busy",
        "idle": "idle",
        "– fill and drain": "fill_drain_ns",
        "– imbalance": "imbalance_ns",
        "– recompute": "recompute_ns",
        "– communication": "communication_ns",
        "messages to it travel": "messages",
    }
    assert set(heads[1:]) <= set(columns)
    expected = oracle(good, begin, end)
    for number, head in enumerate(heads[1:], start=2):
        shown = page.locator(f"table.sums tbody tr > :nth-child({number})").all_inner_texts()
        values = expected[columns[head]]
        for text, value in zip(shown, [*values, sum(values)], strict=True):
            assert milliseconds(text) == pytest.approx(value / 1e6, rel=2e-4, abs=1e-3), head
    for name in set(columns) - set(heads):
        assert sum(expected[columns[name]]) == 0
    if part == (0.0, 1.0):  # the whole step has the figures of the table of the ranks
        for rank, idle in enumerate(good.idle):
            assert expected["idle"][rank] == pytest.approx(idle.total_ns)


def test_a_range_is_marked_with_the_mouse_and_by_a_button(opened: Opened, reports: Reports, simulations: Simulations):
    page = opened(reports["one"])
    good = simulations["good"]
    page.keyboard.down("Shift")
    hover(page, across(page, 0.25 * good.makespan_ns, good), ROW + 10)
    page.mouse.down()
    box = page.locator(".viewer canvas:not(.above)").bounding_box()
    page.mouse.move(box["x"] + across(page, 0.5 * good.makespan_ns, good), box["y"] + ROW + 90, steps=4)
    page.mouse.up()
    page.keyboard.up("Shift")
    begin, end = (float(text.removesuffix("ms")) for text in place(page)["range"].split(".."))
    assert (begin, end) == pytest.approx((0.25 * good.makespan_ns / 1e6, 0.5 * good.makespan_ns / 1e6), rel=0.01)
    page.get_by_role("button", name="zoom to it").click()
    assert float(place(page)["span"].removesuffix("ms")) == pytest.approx(end - begin, rel=1e-3)
    page.locator(".viewer canvas:not(.above)").focus()
    page.keyboard.press("Escape")
    assert "range" not in place(page)
    page.get_by_role("button", name="sums").click()
    begin_seen, end_seen = (float(text.removesuffix("ms")) for text in place(page)["range"].split(".."))
    assert (begin_seen, end_seen) == pytest.approx((begin, end), abs=0.01)


def test_the_panel_opens_by_touch(opened: Opened, reports: Reports):
    page = opened(reports["one"], size=(390, 844), has_touch=True, is_mobile=True)
    canvas = page.locator(".viewer canvas:not(.above)").first
    canvas.scroll_into_view_if_needed()
    canvas.tap(position={"x": 50, "y": ROW + 8})
    assert page.locator(".dock h3").inner_text() == "forward of microbatch 0, chunk 0, on rank 0"
    box = page.locator(".dock").bounding_box()
    assert box["height"] <= 0.45 * 844
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_ranks_have_their_share_of_the_critical_path(opened: Opened, reports: Reports, simulations: Simulations):
    page = opened(reports["one"], place="#path=on")
    good = simulations["good"]
    shares = path_shares(good)
    rows = {
        row.locator("th").inner_text(): row.locator("td").all_inner_texts()
        for row in page.locator("table.path tbody tr").all()
    }
    for rank, share in enumerate(shares):
        percent, saves = rows[f"rank {rank}"]
        assert percent == f"{100 * share.path_ns / good.makespan_ns:.1f} %"
        off, saved = saves.split(" saves ")
        assert milliseconds(off) == share.off_ns / 1e6
        assert milliseconds(saved) == pytest.approx(share.saved_ns / 1e6, rel=1e-3, abs=1e-6)
    most = max(range(4), key=lambda rank: shares[rank].path_ns)
    assert page.locator(".path-shares p").inner_text().startswith(f"Rank {most} carries ")


def test_a_search_scrolls_to_the_hit_and_tells_of_it(opened: Opened, reports: Reports):
    page = opened(reports["one"], size=(1024, 500))
    search(page, "r3 mb5 B c0")
    drawn(page)
    box = page.locator(".viewer canvas:not(.above)").bounding_box()
    row = box["y"] + ROW + 3 * PITCH
    assert 0 < row < page.locator(".dock").bounding_box()["y"] - PITCH
    assert page.locator(".dock h3").inner_text() == "backward of microbatch 5, chunk 0, on rank 3"


def test_rows_are_pinned_folded_moved_and_made_higher(opened: Opened, reports: Reports):
    page = opened(reports["one"])
    height = page.locator(".viewer canvas:not(.above)").bounding_box()["height"]
    page.get_by_role("button", name="ranks …").click()
    page.get_by_label("pin: rank 2").click()
    page.get_by_label("fold: rank 0").click()
    page.get_by_label("move up: rank 3").click()
    kept = place(page)
    assert (kept["pin"], kept["fold"], kept["order"]) == ("2", "0", "2,0,3,1")
    assert page.evaluate("document.activeElement.getAttribute('aria-label')") == "move up: rank 3"
    # Rank 2 is on top, and is what the pointer finds there.
    click(page, LEFT + 200, ROW + 10)
    assert "on rank 2" in page.locator(".dock h3").inner_text()
    assert page.locator(".viewer canvas:not(.above)").bounding_box()["height"] < height
    page.get_by_role("button", name="Higher rows").click()
    page.get_by_role("button", name="Higher rows").click()
    assert page.locator(".viewer canvas:not(.above)").bounding_box()["height"] > 1.5 * height
    kept = place(page)
    assert kept["rows"] == "2.25"
    again = opened(reports["one"], place="#" + "&".join(f"{key}={value}" for key, value in kept.items()))
    assert place(again) == kept
    again.get_by_role("button", name="ranks …").click()
    again.get_by_role("button", name="all as they were").click()
    assert not {"pin", "fold", "order"} & set(place(again))


@pytest.mark.parametrize(
    "address", ["#pin=99&fold=x&order=3", "#range=9ms..1ms", "#at=99s&rank=0", "#rows=0.1", "#beside=0,77", "#rows=9e9"]
)
def test_states_that_cannot_be_are_ignored(opened: Opened, reports: Reports, address: str):
    page = opened(reports["three"], place=address)
    assert page.locator(".viewer canvas:not(.above)").count() == 1
    assert not page.locator(".dock").is_visible()
    assert "range" not in place(page)


def test_the_state_of_switches_is_in_the_address(opened: Opened, reports: Reports):
    page = opened(reports["three"], place="#plan=1")
    for name in ("idle by cause", "critical path", "Memory"):
        page.get_by_role("button", name=name, exact=True).click()
    kept = place(page)
    assert (kept["causes"], kept["path"], kept["memory"]) == ("off", "on", "off")
    again = opened(reports["three"], place="#" + "&".join(f"{key}={value}" for key, value in kept.items()))
    pressed = [
        again.get_by_role("button", name=name, exact=True).get_attribute("aria-pressed")
        for name in ("idle by cause", "critical path", "Memory")
    ]
    assert pressed == ["false", "true", "false"]
