"""Plans beside each other, each with timeline and memory, on the same axes.

title, figures      | title, figures
Timeline            | Timeline
Memory              | Memory
"""

from collections.abc import Sequence

from evenflow.draw.page import MARGIN, WIDTH, page_header
from evenflow.draw.plan_figures import plan_figures
from evenflow.draw.plan_picture import plan_panels
from evenflow.draw.svg_elements import document, renamed
from evenflow.draw.vocabulary import Vocabulary
from evenflow.language import ENGLISH, speaking
from evenflow.simulate import Simulation


@speaking(ENGLISH)
def side_by_side_svg(
    pages: Sequence[tuple[str, Simulation, str]],
    *,
    memory_limit_bytes: int | None,
    vocabulary: Vocabulary = Vocabulary.OURS,
) -> str:
    """Return the picture of plans, each with title and certificate, as the text of an SVG file."""
    simulations = [simulation for _title, simulation, _certificate in pages]
    span_ns = max(simulation.makespan_ns for simulation in simulations)
    known = [peak for simulated in simulations if simulated.network.has_memory for peak in simulated.peak_memory_bytes]
    most_bytes = max(known, default=0)
    headers = [
        page_header(title, certificate, plan_figures(simulation, memory_limit_bytes, vocabulary))
        for title, simulation, certificate in pages
    ]
    baseline = max(bottom for _parts, bottom in headers) + 44
    parts: list[str] = []
    height = 0
    for index, (simulation, (header, _bottom)) in enumerate(zip(simulations, headers, strict=True)):
        panels, bottom = plan_panels(
            simulation, baseline, memory_limit_bytes, vocabulary, span_ns=span_ns, most_bytes=most_bytes
        )
        page = renamed(header + panels, f"page-{index}-")
        parts += [f'<g id="page-{index}" transform="translate({index * WIDTH} 0)">', *page, "</g>"]
        height = max(height, bottom)
    label = " beside ".join(title for title, _simulation, _certificate in pages)
    return document(width=len(pages) * WIDTH, height=height + MARGIN, label=label, parts=parts)
