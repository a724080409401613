"""The picture of predicted and measured steps."""

import re
from xml.etree import ElementTree

import pytest
from benchmarks.published.guesses import guess_all
from benchmarks.published.picture import scatter_svg
from benchmarks.published.predictor import Predicted

from tests.profiles.measured.rows import make_run


def perfect(run) -> Predicted:
    return Predicted(step_s=run.step_s, memory_gib=None)


def test_perfect_predictions_lie_on_the_diagonal_and_each_source_has_a_colour_and_a_name() -> None:
    runs = [make_run(id=f"{source}{step}", source=source, step_s=str(step))
            for source in ("one lab", "other & co") for step in (0.5, 3, 40)]  # fmt: skip
    svg = scatter_svg(guess_all({"a.csv": runs}, perfect), title="Steps")
    root = ElementTree.fromstring(svg)
    words = [element.text for element in root.findall(".//{*}text")]
    assert {"one lab", "other & co", "0.1 s", "100 s", "measured step", "predicted step"} <= set(words)
    dots = root.find(".//*[@id='runs']")
    assert dots is not None
    assert len({path.get("stroke") for path in dots}) == 2
    points = [
        tuple(map(float, point)) for path in dots for point in re.findall(r"M([\d.]+) ([\d.]+)h0", path.get("d", ""))
    ]
    assert len(points) == 6
    assert all(x + y == pytest.approx(sum(points[0]), abs=0.2) for x, y in points)
