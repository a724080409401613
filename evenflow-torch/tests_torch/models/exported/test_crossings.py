"""Where one tensor crosses, seen in small forwards."""

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from evenflow_torch.models.exported.crossings import DataFlow, data_flow, find_cuts  # noqa: E402
from evenflow_torch.models.exported.exported import export_forward  # noqa: E402


class Forward(nn.Module):
    """Three linear layers in a forward of one's own."""

    def __init__(self, run: object) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Linear(4, 4) for _ in "abc")
        self.run = run

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.run(self, x)


def flow_of(run: object) -> DataFlow:
    return data_flow(export_forward(Forward(run), torch.randn(2, 4)))


def crossing(run: object) -> list[str]:
    return [cut.crossing[0].name for cut in find_cuts(flow_of(run))]


def test_a_chain_is_cut_between_its_operators() -> None:
    assert crossing(lambda m, x: m.c(m.b(m.a(x)))) == ["linear", "linear_1"]


def test_nothing_is_cut_beside_a_skip_connection() -> None:
    assert crossing(lambda m, x: m.c(m.a(x) + m.b(m.a(x)))) == ["add"]


def test_masks_of_constants_do_not_count() -> None:
    def masked(m: Forward, x: torch.Tensor) -> torch.Tensor:
        mask = torch.ones(4).cumsum(0)
        return m.b(m.a(x) * mask) * mask

    flow = flow_of(masked)
    assert "linear" in [cut.crossing[0].name for cut in find_cuts(flow)]
    assert not any("cumsum" in node.name for node in flow.counted)


def test_writes_in_place_stay_together() -> None:
    def written(m: Forward, x: torch.Tensor) -> torch.Tensor:
        y = m.a(x)
        z = m.b(y)
        y.add_(1)
        return z + y

    flow = flow_of(written)
    (memory,) = flow.written
    assert [node.name for node in memory.writers] == ["add_"]
    assert find_cuts(flow) == ()


def test_calls_that_a_cut_interrupts_are_counted() -> None:
    (cut, *_) = find_cuts(flow_of(lambda m, x: m.b(m.a(x))))
    assert cut.depth == 1  # the model's own
    assert cut.size_bytes == 2 * 4 * 4
