"""Segments of a forward, run one after the other."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from evenflow_torch.models.exported.crossings import data_flow, find_cuts  # noqa: E402
from evenflow_torch.models.exported.exported import export_forward  # noqa: E402
from evenflow_torch.models.exported.segments import draft_segment, structure  # noqa: E402


def test_segments_in_order_are_the_model_and_share_its_parameters() -> None:
    model = nn.Sequential(nn.Linear(4, 4), nn.GELU(), nn.Linear(4, 4), nn.GELU())
    flow = data_flow(export_forward(model, torch.randn(2, 4)))
    cuts = find_cuts(flow)
    batch = torch.randn(2, 4)
    value = batch
    segments = []
    for before, after in zip((None, *cuts), (*cuts, None), strict=True):
        draft = draft_segment(flow, before, after)
        segments.append(draft.module(flow, [f"tensor_{index}" for index in range(len(draft.tensors))]))
        value = segments[-1](value)
    assert torch.equal(value, model(batch))
    assert {id(one) for segment in segments for one in segment.parameters()} == {id(one) for one in model.parameters()}


def test_equal_segments_have_equal_keys() -> None:
    model = nn.Sequential(*(nn.Linear(4, 4) for _ in range(3)), nn.Linear(4, 5))
    model[1].requires_grad_(False)
    flow = data_flow(export_forward(model, torch.randn(2, 4)))
    cuts = find_cuts(flow)
    drafts = [draft_segment(flow, *ends) for ends in zip((None, *cuts), (*cuts, None), strict=True)]
    first, frozen, third, wide = (draft.key(flow) for draft in drafts)
    assert first == third
    assert frozen != first  # a gradient less
    assert wide != first
    assert structure(drafts[0].graph) == structure(drafts[1].graph)
