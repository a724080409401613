"""A two-level plan as a picture: which devices belong to which stage, and under it the pipeline's timeline and memory.

title, certificate, figures
Mesh      node 0  [0][0][1][1]     stages 0-1: layers 0-9, 5 each, on 1x2 devices each
          node 1  [2][2][2][2]     tensor parallel over 2
                                   stage 2: ...
Timeline, Memory                   as in `plan_picture`
"""

from collections.abc import Sequence

from evenflow.cluster import Cluster
from evenflow.draw.page import MARGIN, PLOT_LEFT, WIDTH, page_header
from evenflow.draw.palette import HAIRLINE, INK, MUTED, PAPER, forward_shades
from evenflow.draw.plan_figures import plan_figures
from evenflow.draw.plan_picture import plan_panels
from evenflow.draw.svg_elements import document, fit_text, group, rect, text, text_width
from evenflow.language import ENGLISH, speaking
from evenflow.simulate import Simulation
from evenflow_torch.auto.placed_pipeline import PlacedStage
from evenflow_torch.auto.stage_groups import stage_groups

_MESH_WIDTH = 400
_MESH_HEIGHT = 360
_LINE = 18
_MOST_LINES = 24
_INDENT = 16


@speaking(ENGLISH)
def two_level_svg(
    simulation: Simulation, cluster: Cluster, stages: Sequence[PlacedStage], *, title: str, certificate: str = ""
) -> str:
    """Return the picture as the text of an SVG file; the same plan always gives the same text."""
    limit = cluster.memory_bytes
    parts, bottom = page_header(title, certificate, plan_figures(simulation, limit))
    mesh, bottom = _mesh_panel(cluster, stages, bottom + 44)
    panels, bottom = plan_panels(simulation, bottom + 48, limit)
    return document(width=WIDTH, height=bottom + MARGIN, label=title, parts=parts + mesh + panels)


def _mesh_panel(cluster: Cluster, stages: Sequence[PlacedStage], baseline: int) -> tuple[list[str], int]:
    """Draw a cell for each device, shaded by its rank, and beside them a line for each stage; return their end too."""
    top = baseline + 14
    width = min(50, max(2, _MESH_WIDTH // cluster.devices_per_node))
    height = min(32, max(2, _MESH_HEIGHT // cluster.num_nodes))
    rank_of = {device: stage.rank for stage in stages for device in stage.devices}
    shades = forward_shades(max(rank_of.values()) + 1)
    cells = []
    for device in range(cluster.num_devices):
        node, place = divmod(device, cluster.devices_per_node)
        x, y = PLOT_LEFT + place * width, top + node * height
        rank = rank_of.get(device)
        fill = PAPER if rank is None else shades[rank]
        cells.append(rect(x, y, width - 1, height - 1, fill=fill, stroke=HAIRLINE, name=f"device-{device}"))
        if rank is not None and width >= 16 and height >= 12:
            cells.append(text(x + width / 2, y + height / 2 + 4, str(rank), size=11, anchor="middle"))
    every = max(1, -(-12 // height))
    names = [
        text(PLOT_LEFT - 8, top + node * height + height / 2 + 4, f"node {node}", size=11, anchor="end")
        for node in range(0, cluster.num_nodes, every)
    ]
    left = PLOT_LEFT + width * cluster.devices_per_node + 32
    lines = _stage_lines(stages, WIDTH - MARGIN - left)
    stage_texts = [
        text(left + indent, top + 13 + index * _LINE, line, size=12, fill=MUTED if indent else INK)
        for index, (indent, line) in enumerate(lines)
    ]
    heading = text(MARGIN, baseline, "Mesh", size=14, bold=True)
    note = text(PLOT_LEFT, baseline, "devices, numbered by rank of the pipeline", size=12, fill=MUTED)
    bottom = top + max(height * cluster.num_nodes, _LINE * len(lines))
    return [heading, note, *group("mesh", [*cells, *names, *stage_texts])], bottom


def _stage_lines(stages: Sequence[PlacedStage], width: float) -> list[tuple[int, str]]:
    """Return lines for the stages, each with its indent: where they are, and under that what their devices do."""
    lines: list[tuple[int, str]] = []
    told = 0
    for stages_alike in stage_groups(stages):
        more = [(0, line) for line in _wrapped(stages_alike.extent, width)]
        more += [(_INDENT, line) for line in _wrapped(stages_alike.how, width - _INDENT)]
        if len(lines) + len(more) >= _MOST_LINES:
            return [*lines, (0, f"and {len(stages) - told} more stages")]
        lines += more
        told += len(stages_alike.stages)
    return lines


def _wrapped(content: str, width: float) -> list[str]:
    """Return `content` in lines at most `width` wide, broken between words."""
    lines = [""]
    for word in content.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and text_width(longer, 12) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return [fit_text(line, 12, width) for line in lines]
