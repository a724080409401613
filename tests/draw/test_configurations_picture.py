"""The picture of all configurations: where every dot is, the bound and the marks."""

import re
import xml.etree.ElementTree as ElementTree

import pytest

from evenflow.draw.configurations_picture import ConfigurationDot, Configurations, configurations_svg
from evenflow.draw.parts.ladder import factor_ticks
from evenflow.units import GIGABYTE
from tests.networks import MILLISECOND

SVG = "{http://www.w3.org/2000/svg}"


def dot(step_ms: int, gigabytes: int, degree: int) -> ConfigurationDot:
    return ConfigurationDot(
        step_ns=step_ms * MILLISECOND, memory_bytes=gigabytes * GIGABYTE, degree=degree, words=f"way <{step_ms}>"
    )


def drawn(**more: object) -> ElementTree.Element:
    dots = (dot(400, 60, 1), dot(500, 40, 2), dot(900, 20, 8), dot(500, 40, 2))
    shown = Configurations(dots=dots, degree_name="TP", chosen=dots[0], **more)  # type: ignore[arg-type]
    text = configurations_svg(shown)
    assert not re.search(r"\bstyle=", text)  # the page's policy would drop it
    return ElementTree.fromstring(text.replace("<svg ", '<svg xmlns="http://www.w3.org/2000/svg" ', 1))


def circles(root: ElementTree.Element) -> list[tuple[float, float, str | None, str]]:
    found = []
    for each in root.iter(f"{SVG}circle"):
        title = each.find(f"{SVG}title")
        if title is not None:
            found.append((float(each.get("cx", "0")), float(each.get("cy", "0")), each.get("class"), title.text or ""))
    return found


def test_shorter_steps_are_lower_and_more_memory_is_right():
    root = drawn(bound_ns=390 * MILLISECOND, limit_bytes=64 * GIGABYTE)
    dots = [(x, y, words) for x, y, kind, words in circles(root) if kind is None]
    assert [words for _x, _y, words in dots] == [  # equal ones are drawn once
        "way <400>: 400 ms, 60 GB",
        "way <500>: 500 ms, 40 GB",
        "way <900>: 900 ms, 20 GB",
    ]
    assert dots[0][0] > dots[1][0] > dots[2][0]
    assert dots[0][1] > dots[1][1] > dots[2][1]
    bound = next(each for each in root.iter(f"{SVG}path") if each.get("class") == "bound")
    y = float(re.match(r"M\d+ ([\d.]+)H", bound.get("d", ""))[1])  # type: ignore[index]
    assert y > dots[0][1]
    assert "no step is shorter (proven): 390 ms" in "".join(root.itertext())


def test_the_chosen_one_and_the_recipe_are_marked():
    root = drawn(recipe=dot(700, 50, 4))
    marks = {kind: words for _x, _y, kind, words in circles(root) if kind}
    assert marks == {"chosen": "chosen: way <400>: 400 ms, 60 GB", "recipe": "yours: way <700>: 700 ms, 50 GB"}
    legend = [each.text for each in root.iter(f"{SVG}text")]
    assert legend[:5] == ["TP", "1", "2", "4", "8"]
    assert not any(each.get("class") == "bound" for each in root.iter(f"{SVG}path"))


def test_one_configuration_alone_can_be_drawn():
    only = dot(3, 1, 1)
    text = configurations_svg(Configurations(dots=(only,), degree_name="PP", chosen=only))
    assert "nan" not in text
    assert text.count("<circle") == 3  # its dot, its mark, the legend


@pytest.mark.parametrize("span", [(3.0, 900.0), (400.0, 420.0), (0.001, 5.0)])
def test_ticks_of_factors_are_inside_and_differ(span: tuple[float, float]):
    places = factor_ticks(span, 1)
    assert len(places) >= 2
    assert all(span[0] <= place <= span[1] for place, _label in places)
    assert len({label for _place, label in places}) == len(places)
