"""Frames a second of the report page while the pointer moves over a step of 262,144 actions, in Chromium."""

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.table import aligned
from evenflow.model import Communication, EndBlock, Layer, LayerRun, Mode, Network, Plan
from evenflow.report import report_html, shown_simulation
from evenflow.simulate import simulate
from evenflow.units import GIGABYTE

RANKS, CHUNKS, MICROBATCHES = 64, 4, 512
FRAMES = 240
VIEWS = {"whole step": 1, "a tenth": 10, "a hundredth": 100}
"""Into how many parts the step is divided of which one is seen."""
_HOVERING = """async ([frames, moves]) => {
    const canvas = document.querySelector('.viewer canvas');
    const box = canvas.getBoundingClientRect();
    const next = () => new Promise(requestAnimationFrame);
    let last = await next();
    const times = [];
    for (let frame = 0; frame < frames; frame++) {
        const clientX = box.left + 100 + (frame * 37) % (box.width - 140);
        const clientY = box.top + 60 + (frame * 11) % 360;
        const place = { clientX, clientY, pointerId: 1, bubbles: true };
        if (moves) canvas.dispatchEvent(new PointerEvent('pointermove', place));
        const now = await next();
        times.push(now - last);
        last = now;
    }
    return times;
}"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Hovering:
    """Frames where a part of the step is seen, and the pointer is elsewhere in each."""

    view: str
    per_second: float
    longest_ms: float
    at_rest_per_second: float
    """The same without a pointer: what the machine can do."""


def measure_all() -> list[Hovering]:
    """Return a row for each view; needs what `make test-page` needs."""
    from playwright.sync_api import sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        path = Path(folder) / "large.html"
        step_ms = _write(path)
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium") or shutil.which("google-chrome"),
            args=["--no-sandbox", "--disable-gpu"],
        )
        rows = []
        for view, parts in VIEWS.items():
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            place = f"#t={step_ms / 2}ms&span={step_ms / parts}ms" if parts > 1 else ""
            page.goto(f"file://{path}{place}")
            page.wait_for_selector(".viewer canvas")
            page.wait_for_timeout(1000)
            moving, resting = (page.evaluate(_HOVERING, [FRAMES, moves]) for moves in (True, False))
            rows.append(
                Hovering(
                    view=view,
                    per_second=1000 * FRAMES / sum(moving),
                    longest_ms=max(moving),
                    at_rest_per_second=1000 * FRAMES / sum(resting),
                )
            )
            page.close()
        browser.close()
    return rows


def _write(path: Path) -> float:
    """Write the page; return its step in ms."""
    mode = Mode(activation_bytes=GIGABYTE // 64, backward_ns=6_000_000)
    layer = Layer(name="decoder", forward_ns=3_000_000, parameter_bytes=GIGABYTE // 4, modes={"none": mode})
    layers = tuple((3, *(2,) * (RANKS - 1)) for _chunk in range(CHUNKS))
    runs = (LayerRun(layer=layer, count=sum(map(sum, layers))),)
    network = Network(name="large", runs=runs, head=EndBlock(), tail=EndBlock())
    plan = Plan(schedule="interleaved", num_microbatches=MICROBATCHES, layers=layers)
    simulation = simulate(network, plan, communication=Communication(latency_ns=1_000_000))
    shown = shown_simulation(simulation, name="large", memory_limit_bytes=80 * GIGABYTE)
    path.write_text(report_html([shown], title="large"), encoding="utf-8")
    return simulation.makespan_ns / 1e6


def table(rows: Sequence[Hovering]) -> str:
    """Return the rows as text."""
    actions = RANKS * CHUNKS * MICROBATCHES * 2
    cells = [
        [row.view, f"{row.per_second:.0f}", f"{row.longest_ms:.0f}", f"{row.at_rest_per_second:.0f}"] for row in rows
    ]
    head = f"{actions:,} actions on {RANKS} ranks; the pointer moves in every frame\n"
    return head + aligned(["seen", "frames/s", "longest ms", "at rest"], cells)
