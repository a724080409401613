"""The mesh of a two-level plan: a cell for each device, and words that stay on the page."""

import itertools
from types import SimpleNamespace

import pytest

from evenflow.cluster import Cluster, Link, Submesh
from evenflow.draw.page import WIDTH
from evenflow_torch.pages.two_level_picture import two_level_svg
from tests.draw.cases import by_id, parse, simulation, text_boxes, words

LONG = (
    "mostly tensor parallel over 4 in the node, context parallel over 2 in the node (FSDP), ZeRO-1 over 2 nodes; "
    "embed_tokens: tensor parallel over 16; lm_head: ZeRO-2 over 4 in the node, ZeRO-1 over 4 across 2 nodes"
)


def drawn(nodes: int, width: int, num_stages: int, sayings: list[str]) -> str:
    """A picture of equal stages on whole nodes or parts of one, whose words change in turn."""
    link = Link(bytes_per_s=10**9)
    cluster = Cluster(num_nodes=nodes, devices_per_node=width, memory_bytes=80 * 2**30, intra=link, inter=link)
    size = cluster.num_devices // num_stages
    stages = [
        SimpleNamespace(
            stage=stage,
            rank=stage,
            first=stage,
            end=stage + 1,
            submesh=Submesh(max(1, size // width), min(size, width)),
            devices=range(stage * size, (stage + 1) * size),
            use=SimpleNamespace(words=sayings[stage % len(sayings)]),
            recompute={"full": 1},
        )
        for stage in range(num_stages)
    ]
    return two_level_svg(simulation(num_stages, 1, 8), cluster, stages, title="example")


@pytest.mark.parametrize(("nodes", "width", "stages"), [(1, 8, 1), (4, 8, 2), (16, 8, 8), (64, 8, 32), (3, 12, 3)])
def test_long_words_stay_on_the_page_and_apart(nodes, width, stages):
    root = parse(drawn(nodes, width, stages, [LONG, "FSDP over 4"]))
    mesh = by_id(root, "mesh")
    assert sum(element.get("id", "").startswith("device-") for element in mesh.iter()) == nodes * width
    boxes = text_boxes(mesh)
    assert all(box.right <= WIDTH for box in boxes)
    assert not any(box.meets(other) for box, other in itertools.combinations(boxes, 2))


def test_equal_stages_are_told_of_once():
    root = parse(drawn(4, 8, 4, ["tensor parallel over 8"]))
    said = words(root)
    assert "stages 0-3: layers 0-3, 1 each, on 1x8 devices each" in said
    assert sum("tensor parallel over 8" in line for line in said) == 1
