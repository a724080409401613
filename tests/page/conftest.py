"""A browser without a network, and reports for it to show."""

import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from evenflow.baselines.even_plan import even_plan
from evenflow.draw.configurations_picture import ConfigurationDot, Configurations
from evenflow.draw.memory_curve_picture import CurvePoint
from evenflow.export.results.json_text import format_object
from evenflow.model import (
    Communication,
    EncoderWork,
    EndBlock,
    Halves,
    HostLink,
    Layer,
    LayerRun,
    Mode,
    Network,
    PassHalves,
    Plan,
    Sizes,
    with_offload,
)
from evenflow.profiles.plan_fields import network_fields, simulation_fields
from evenflow.report import Advice, ReportTable, RunBlock, report_html, shown_simulation
from evenflow.simulate import Simulation, simulate
from evenflow.units import GIGABYTE
from tests.networks import MILLISECOND

ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"]
LIMIT = 9 * GIGABYTE
DOTS = tuple(
    ConfigurationDot(
        step_ns=(300 + 37 * number) * MILLISECOND,
        memory_bytes=(9 - number % 5) * GIGABYTE,
        degree=2 ** (number % 4),
        words=f"way {number}",
    )
    for number in range(24)
)
CONFIGURATIONS = Configurations(
    dots=DOTS,
    degree_name="TP",
    chosen=DOTS[0],
    recipe=DOTS[7],
    bound_ns=290 * MILLISECOND,
    limit_bytes=LIMIT,
    note="24 of 24",
)
RANKING = ReportTable(
    title="Ranking", columns=("#", "TP", "step ms"), rows=(("1", "1", "300.0"), ("2", "2", "337.0")), notes=("a note",)
)


def network(layers: int) -> Network:
    """A network whose layers recompute, with an unequal head and tail."""
    modes = {
        "none": Mode(activation_bytes=GIGABYTE // 8, backward_ns=6 * MILLISECOND),
        "full": Mode(activation_bytes=GIGABYTE // 64, backward_ns=9 * MILLISECOND),
    }
    layer = Layer(name="decoder", forward_ns=3 * MILLISECOND, parameter_bytes=GIGABYTE // 4, modes=modes)
    return Network(
        name="small",
        runs=(LayerRun(layer=layer, count=layers),),
        head=EndBlock(forward_ns=MILLISECOND, backward_ns=2 * MILLISECOND),
        tail=EndBlock(forward_ns=4 * MILLISECOND, backward_ns=8 * MILLISECOND, parameter_bytes=GIGABYTE),
    )


def interleaved(layers: tuple[tuple[int, ...], ...]) -> Simulation:
    """A step of two chunks a rank, some of whose layers recompute."""
    plan = Plan(
        schedule="interleaved", num_microbatches=8, layers=layers, recompute={"full": ((2, 0, 0, 0), (1, 1, 0, 0))}
    )
    return simulate(network(24), plan, communication=Communication(latency_ns=MILLISECOND // 2))


def offloaded() -> Simulation:
    """A step whose layers move what they keep to the host, most of them."""
    link = HostLink(bytes_per_s=20 * GIGABYTE)
    plan = Plan(
        schedule="interleaved",
        num_microbatches=8,
        layers=((3, 3, 3, 3), (3, 3, 3, 3)),
        recompute={"offload": ((3, 3, 1, 0), (2, 3, 0, 0))},
    )
    return simulate(with_offload(network(24), link), plan)


def paired() -> Simulation:
    """A step whose forwards run beside backwards, all of which exchange tokens."""
    parts = PassHalves(dispatch_ns=MILLISECOND, combine_ns=MILLISECOND)
    plain = network(8)
    runs = tuple(
        replace(run, layer=replace(run.layer, halves=Halves(forward=parts, backward=parts))) for run in plain.runs
    )
    plan = Plan(schedule="1f1b-overlap", num_microbatches=8, layers=((2, 2, 2, 2),), recompute={})
    return simulate(replace(plain, runs=runs), plan)


def encoding() -> Simulation:
    """A step whose encoders work in its bubbles, and before and behind it."""
    work = EncoderWork(
        parts=3,
        forward_ns=3 * MILLISECOND,
        backward_ns=5 * MILLISECOND,
        message_ns=MILLISECOND // 4,
        summed_ns=0,
        in_bubbles=True,
    )
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=((5, 1, 1, 1),), recompute={})
    return simulate(replace(network(8), encoder_work=work), plan)


@pytest.fixture(scope="session")
def simulations() -> dict[str, Simulation]:
    """Three plans of one network, by name."""
    sizes = Sizes(num_ranks=4, num_chunks=2, num_microbatches=8)
    even = simulate(network(24), even_plan(network(24), sizes, schedule="zbv"))
    return {
        "good": interleaved(((4, 3, 3, 3), (3, 3, 3, 2))),
        "worse": interleaved(((6, 3, 2, 2), (3, 3, 3, 2))),
        "zbv": even,
    }


@pytest.fixture(scope="session")
def reports(simulations: dict[str, Simulation], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Reports of one plan and of all three."""
    folder = tmp_path_factory.mktemp("reports")
    shown = [
        replace(
            shown_simulation(
                simulation,
                name=name,
                memory_limit_bytes=LIMIT,
                certificate=f"{name}: within 1.00 % of optimal",
                plan=format_object(simulation_fields(simulation, LIMIT) | network_fields(simulation)),
            ),
            decision=(Advice(text="memory binds on rank 0"),),
            curve=(
                CurvePoint(limit_bytes=6 * GIGABYTE, step_ns=400 * MILLISECOND, is_proven=True),
                CurvePoint(limit_bytes=8 * GIGABYTE, step_ns=300 * MILLISECOND, is_proven=False),
            ),
            run=(
                RunBlock(
                    title="Megatron-LM 0.13", what="flags", text="--pipeline-model-parallel-size 4\n", note="exact"
                ),
                RunBlock(
                    title="torchtitan 0.3.0, in its own words for many ranks",
                    what="module <b>",
                    text="a = 1 < 2\n",
                    note="2 % slower",
                ),
            ),
        )
        for name, simulation in simulations.items()
    ]
    moved = shown_simulation(offloaded(), name="moved", memory_limit_bytes=LIMIT)
    files = {
        "one": report_html(shown[:1], title="small, good"),
        "three": report_html(shown, title="small"),
        "ranked": report_html(shown, title="ranked", ranking=RANKING, configurations=CONFIGURATIONS),
        "moved": report_html([moved], title="moved"),
        "encoding": report_html(
            [shown_simulation(encoding(), name="encoding", memory_limit_bytes=LIMIT)], title="encoding"
        ),
        "paired": report_html([shown_simulation(paired(), name="paired", memory_limit_bytes=LIMIT)], title="paired"),
    }
    for name, text in files.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in files}


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """A browser of this machine, or else that of Playwright."""
    from playwright.sync_api import sync_playwright

    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = next(filter(None, map(shutil.which, names)), None)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=ARGUMENTS)
        yield browser
        browser.close()


def drawn(page: Any) -> None:
    """Wait until the page has drawn what it was told, which it does in its next frame, however late that comes."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


Opened = Callable[..., Any]
Reports = dict[str, Path]
Simulations = dict[str, Simulation]


@pytest.fixture
def opened(browser: Any) -> Iterator[Opened]:
    """Open a file, with the network cut off; at the end nothing was asked for and nothing complained of."""
    asked: list[str] = []
    complaints: list[str] = []
    contexts = []

    def open_file(path: Path, *, place: str = "", size: tuple[int, int] = (1440, 900), **options: Any) -> Any:
        context = browser.new_context(
            viewport={"width": size[0], "height": size[1]}, offline=True, accept_downloads=True, **options
        )
        contexts.append(context)
        page = context.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.on("console", lambda message: complaints.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(f"file://{path}{place}")
        page.wait_for_selector(".viewer canvas", timeout=30_000)
        return page

    yield open_file
    for context in contexts:
        context.close()
    assert complaints == []
    assert [url for url in asked if not url.startswith(("file:", "blob:", "data:"))] == []
    assert all(".html" in url for url in asked if url.startswith("file:"))
