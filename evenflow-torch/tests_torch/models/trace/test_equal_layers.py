import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from evenflow_torch.models.trace.equal_layers import Mark, clone_module, find_equal_layers  # noqa: E402


class Numbered(nn.Module):
    def __init__(self, index: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.index, self.dropout = index, dropout


@pytest.mark.parametrize("backward", [False, True])
def test_marks_read_back(backward: bool) -> None:
    mark = Mark(run=3, entering=True, position=12, backward=backward)
    assert Mark.parse(mark.text()) == mark


def test_a_frozen_layer_is_another_kind() -> None:
    layers = nn.ModuleList(Numbered(index) for index in range(4))
    layers[3].requires_grad_(False)
    assert [(run.first, run.count) for run in find_equal_layers(layers)] == [(0, 3)]


def test_a_clone_keeps_ties_and_drops_the_rest_of_a_run() -> None:
    model = nn.ModuleDict({"layers": nn.ModuleList(Numbered(index) for index in range(4)), "end": nn.Linear(4, 4)})
    model["end"].weight = model["layers"][0].linear.weight
    clone = clone_module(model, find_equal_layers(model), {0: 2}, lambda tensor: tensor)
    assert [name for name, _ in clone.named_children()] == ["layers", "end"]
    assert len(clone["layers"]) == 2
    assert len(model["layers"]) == 4
    assert clone["end"].weight is model["layers"][0].linear.weight
