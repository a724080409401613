"""Words for shardings: the field's own, for one axis and several."""

from dataclasses import replace
from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster import Submesh
from evenflow.predict.training import Sharding
from evenflow_torch.auto.sharding.ways import AxisRole
from evenflow_torch.auto.wording.axis_use import AxisUse
from evenflow_torch.auto.wording.sharding_phrases import axis_places, sharding_words

DATA, TENSOR, SAME = AxisUse(role=AxisRole.DATA), AxisUse(role=AxisRole.TENSOR), AxisUse(role=None)
FSDP, ZERO1 = (AxisUse(role=AxisRole.DATA, sharding=one) for one in (Sharding.PARAMETERS, Sharding.OPTIMIZER))
CONTEXT = AxisUse(role=AxisRole.CONTEXT, sharding=Sharding.PARAMETERS)
EXPERT = AxisUse(role=AxisRole.EXPERT, sharding=Sharding.OPTIMIZER)


@pytest.mark.parametrize(
    ("uses", "mesh", "submesh", "words"),
    [
        ((DATA,), (8,), (1, 8), "data parallel over 8"),
        ((ZERO1,), (8,), (1, 8), "ZeRO-1 over 8"),
        ((DATA, FSDP), (4, 4), (4, 4), "FSDP over 4 in the node, data parallel over 4 nodes"),
        ((ZERO1, TENSOR), (2, 8), (2, 8), "tensor parallel over 8 in the node, ZeRO-1 over 2 nodes"),
        ((FSDP, FSDP), (4, 8), (4, 8), "FSDP over 32"),
        ((DATA, TENSOR), (4, 2), (1, 8), "tensor parallel over 2, data parallel over 4"),
        ((DATA, TENSOR), (8, 2), (4, 4), "tensor parallel over 2 in the node, data parallel over 8 across 4 nodes"),
        (
            (ZERO1, CONTEXT, TENSOR),
            (2, 2, 4),
            (2, 8),
            "tensor parallel over 4 in the node, context parallel over 2 in the node (FSDP), ZeRO-1 over 2 nodes",
        ),
        ((replace(CONTEXT, has_ring=True),), (8,), (1, 8), "context parallel with ring attention over 8 (FSDP)"),
        ((EXPERT,), (8,), (1, 8), "expert parallel over 8 (ZeRO-1)"),
        ((SAME, DATA), (2, 2), (1, 4), "data parallel over 2, the same work over 2"),
        ((DATA, TENSOR), (4, 1), (4, 1), "data parallel over 4 nodes"),
        ((AxisUse(role=AxisRole.DATA, share=0.9),), (8,), (1, 8), "mostly data parallel over 8"),
        ((SAME,), (1,), (1, 1), "one device"),
    ],
)
def test_words(uses, mesh, submesh, words):
    assert sharding_words(uses, mesh, Submesh(*submesh)) == words


@given(st.lists(st.sampled_from([1, 2, 4]), min_size=1, max_size=3), st.integers(0, 6))
def test_places_say_all_devices_of_an_axis(mesh, power):
    """Every axis is said with its size, and with nodes wherever it leaves one."""
    devices = prod(mesh)
    width = min(2**power, devices)
    places = axis_places(mesh, Submesh(devices // width, width))
    for axis, (size, place) in enumerate(zip(mesh, places, strict=True)):
        stride = prod(mesh[axis + 1 :])
        nodes = {index * stride // width for index in range(size)}
        assert place.split()[1] == str(size)
        if devices > width and 1 < size < devices:
            assert ("node" in place, "in the node" in place) == (True, len(nodes) == 1)
