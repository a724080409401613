"""What is known of torch's views, against the views themselves."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from evenflow.cluster import code, digits, parse_code, placement_of  # noqa: E402
from evenflow.cluster.splits.split_digits import through_view  # noqa: E402
from evenflow_torch.models.trace.views import dimension_groups  # noqa: E402
from tests.cluster.splits.parts import arange, devices, part  # noqa: E402

aten = torch.ops.aten


@pytest.mark.parametrize(
    ("target", "arguments", "source", "result"),
    [
        (aten.view.default, ([24, 2],), "S(1) S(0)", "SS(0,6) S(0)"),
        (aten.view.default, ([24, 2],), "S(2) R", "S(1) R"),
        (aten._unsafe_view.default, ([3, 2, 8],), "R S(2)", "R SS(2,4)"),
        (aten.view.default, ([3, 2, 8],), "S(0) R", None),  # two devices for the first three of six rows
        (aten.transpose.int, (0, 1), "S(0) R", "S(1) R"),
        (aten.permute.default, ([2, 0, -2],), "S(1) S(2)", "S(2) S(0)"),
        (aten.unsqueeze.default, (1,), "S(1) S(0)", "S(2) S(0)"),
        (aten.slice.Tensor, (1, 0, 2), "S(0) S(2)", "S(0) S(2)"),
        (aten.slice.Tensor, (1, 0, 2), "S(1) R", None),
        (aten.slice.Tensor, (1, 0, 9223372036854775807), "S(1) R", "S(1) R"),
        (aten.select.int, (1, 3), "S(0) S(2)", "S(0) S(1)"),
        (aten.select.int, (-2, 3), "S(1) R", None),
        (aten.expand.default, ([5, -1, 4, 2],), "S(0) S(2)", "S(1) S(3)"),
        (aten.detach.default, (), "S(1) S(1)", "S(1) S(1)"),
    ],
)
def test_parts_of_a_view_are_views_of_parts(target: Any, arguments: Any, source: str, result: str | None) -> None:
    before, mesh = (6, 4, 2), (2, 2)
    seen = target(torch.from_numpy(arange(before)), *arguments)
    view = dimension_groups(target, (None, *arguments), before, tuple(seen.shape))
    assert view is not None
    placement = parse_code(source)
    found = digits(before, placement, mesh)
    assert found is not None
    after = through_view(found, view, tuple(seen.shape))
    if after is None:
        assert result is None
        return
    moved = placement_of(after, placement)
    assert code(moved) == result
    for device in devices(mesh):
        own = set(part(arange(before), placement, mesh, device))
        assert set(part(seen.numpy(), moved, mesh, device)) == own & set(seen.flatten().tolist())


def test_repeated_dimensions_are_new() -> None:
    view = dimension_groups(aten.expand.default, (None, [3, 4]), (1, 4), (3, 4))
    assert view == (((0,), ()), ((), (0,)), ((1,), (1,)))


@pytest.mark.parametrize("target", [aten.as_strided.default, aten.unfold.default, aten.diagonal.default])
def test_other_views_are_left_to_rules(target: Any) -> None:
    assert dimension_groups(target, (None, 0, 1, 1), (6, 4), (6, 4)) is None
