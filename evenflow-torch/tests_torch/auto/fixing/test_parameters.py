"""Parameters whose split a user decides, in a real model: what is kept so, and which names are refused."""

import pytest

torch = pytest.importorskip("torch")

from evenflow.cluster.placement import REPLICATE  # noqa: E402
from evenflow.errors import InputError  # noqa: E402
from evenflow_torch.auto import Mesh, MeshAxis, Training  # noqa: E402
from evenflow_torch.auto.deadline import Deadline  # noqa: E402
from evenflow_torch.auto.fixing.parameters import has_placements, with_placements  # noqa: E402
from evenflow_torch.auto.sharding.layer_costs import costs_on  # noqa: E402
from evenflow_torch.models.equal_parts import kinds_of  # noqa: E402
from evenflow_torch.models.rows import row_with_inputs  # noqa: E402
from evenflow_torch.models.trace.captured_layers import capture_layers  # noqa: E402


class Mlp(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = torch.nn.Linear(8, 24, bias=False), torch.nn.Linear(24, 8, bias=False)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(x)))


@pytest.fixture(scope="module")
def layers():
    row = row_with_inputs(torch.nn.ModuleList([Mlp(), Mlp(), Mlp()]), torch.zeros(4, 8))
    kinds, order = kinds_of(row.parts)
    return capture_layers(kinds, order), row.parts


def mesh_of(*sizes):
    return Mesh(axes=tuple(MeshAxis(size=size, bandwidth_bytes_per_s=10**9) for size in sizes))


@pytest.mark.parametrize(("word", "split"), [("column", 0), ("row", 1), ("1", 1), ("replicated", REPLICATE)])
def test_every_sharding_keeps_to_it(layers, word, split):
    captured, parts = layers
    decided = with_placements(captured, parts, [("*.up.weight", word)])
    (costs,) = costs_on(decided, [(mesh_of(2), Training())], deadline=Deadline.after(60))
    kept = {one.name: one.kept for ways in costs.layers for cost in ways.values() for one in cost.plan.parameters}
    assert {placement for name, placement in kept.items() if "up" in name} == {(split,)}


@pytest.mark.parametrize(
    ("name", "word", "message"),
    [
        ("*.left.weight", "row", "--fix must be the name of a parameter of the model"),
        ("1.up.weight", "row", "must mean all 3 equal layers"),
        ("*.up.weight", "diagonal", "--fix: *.up.weight must be one of replicated, column, row, 0, 1, got 'diagonal'"),
        ("*.up.weight", "2", "must be one of replicated, column, row, 0, 1"),
    ],
)
def test_names_and_splits_that_the_model_does_not_have(layers, name, word, message):
    with pytest.raises(InputError) as caught:
        with_placements(*layers, [(name, word)])
    assert message in str(caught.value)


def test_a_mesh_that_does_not_divide_the_dimension(layers):
    decided = with_placements(*layers, [("*.up.weight", "row")])  # of 8
    assert [has_placements(decided, mesh_of(size)) for size in (1, 3, 4)] == [True, False, True]
    assert has_placements(layers[0], mesh_of(3))
