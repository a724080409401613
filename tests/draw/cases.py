"""Plans to draw, and how to look into a drawn picture."""

import re
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from typing import NamedTuple

from evenflow.draw.svg_elements import text_width
from evenflow.model import Communication, EndBlock, Layer, LayerRun, Mode, Network, Plan
from evenflow.schedule import Schedule, default_family
from evenflow.simulate import Simulation, simulate

SVG = "{http://www.w3.org/2000/svg}"
MEGABYTE = 2**20


def network(num_layers: int, *, name: str = "example", has_memory: bool = True) -> Network:
    """Layers with round numbers: forward 2 ms, backward 4 ms, with full recompute 6 ms."""
    unit = MEGABYTE if has_memory else 0
    layer = Layer(
        name="decoder",
        forward_ns=2_000_000,
        parameter_bytes=1000 * unit,
        modes={
            "none": Mode(activation_bytes=400 * unit, backward_ns=4_000_000),
            "full": Mode(activation_bytes=20 * unit, backward_ns=6_000_000),
        },
    )
    return Network(
        name=name,
        runs=(LayerRun(layer=layer, count=num_layers),),
        head=EndBlock(name="embedding", forward_ns=500_000, backward_ns=1_000_000, parameter_bytes=500 * unit),
        tail=EndBlock(name="head", forward_ns=800_000, backward_ns=1_600_000, parameter_bytes=700 * unit),
        has_memory=has_memory,
    )


def simulation(
    ranks: int,
    chunks: int,
    microbatches: int,
    *,
    per_cell: int = 2,
    full: int = 1,
    splits: int = 1,
    has_memory: bool = True,
    name: str = "example",
    communication: Communication | None = None,
    schedule: Schedule | None = None,
) -> Simulation:
    """A plan of `per_cell` layers a cell, of which `full` recompute (none where the sequence is split)."""
    full = 0 if splits > 1 or not has_memory else full
    plan = Plan(
        schedule=default_family(num_chunks=chunks),
        num_microbatches=microbatches,
        layers=((per_cell,) * ranks,) * chunks,
        recompute={"full": ((full,) * ranks,) * chunks} if full else {},
        sequence_splits=splits,
    )
    given = network(ranks * chunks * per_cell, has_memory=has_memory, name=name)
    return simulate(given, plan, schedule=schedule, communication=communication)


class Box(NamedTuple):
    """What a text or swatch covers, in pixels."""

    left: float
    top: float
    right: float
    bottom: float
    content: str

    def meets(self, other: "Box") -> bool:
        return (
            self.left < other.right and other.left < self.right and self.top < other.bottom and other.top < self.bottom
        )


def parse(svg: str) -> ET.Element:
    return ET.fromstring(svg)


def by_id(root: ET.Element, name: str) -> ET.Element:
    found = root.find(f".//*[@id='{name}']")
    assert found is not None, name
    return found


def by_class(root: ET.Element, name: str) -> list[ET.Element]:
    return [element for element in root.iter() if element.get("class", "").startswith(name)]


def words(root: ET.Element) -> list[str]:
    """Every line of text, without microbatch numbers."""
    return [box.content for box in text_boxes(root)]


def text_boxes(root: ET.Element) -> list[Box]:
    """Where the lines of text are, without microbatch numbers and lines of several spans."""
    return [text_box(element) for element in root.iter(f"{SVG}text") if element.get("font-size") and not len(element)]


def text_box(element: ET.Element) -> Box:
    size, content = float(element.get("font-size", "0")), element.text or ""
    width = text_width(content, size, bold=element.get("font-weight") == "600")
    anchor = element.get("text-anchor", "start")
    left = float(element.get("x", "0")) - {"start": 0.0, "middle": width / 2, "end": width}[anchor]
    baseline = float(element.get("y", "0"))
    return Box(left, baseline - 0.74 * size, left + width, baseline + 0.2 * size, content)


def rect_box(element: ET.Element) -> Box:
    left, top, width, height = (float(element.get(key, "0")) for key in ("x", "y", "width", "height"))
    return Box(left, top, left + width, top + height, element.get("id", ""))


def bars(element: ET.Element) -> Iterator[tuple[float, float, float]]:
    """Left, right and middle y of every block of a path of horizontal lines."""
    x = y = 0.0
    for command, arguments in re.findall(r"([Mmh])([^Mmh]*)", element.get("d", "")):
        numbers = [float(number) for number in arguments.split()]
        if command == "h":
            yield x, x + numbers[0], y
            x += numbers[0]
        else:
            x, y = (numbers[0], numbers[1]) if command == "M" else (x + numbers[0], y + numbers[1])
