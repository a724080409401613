"""Names of parameters in the whole model, and rows that cannot be."""

import pytest
from torch import nn

from evenflow.errors import InputError
from evenflow_torch.models.parts import ModelRow, Part, shared_names


@pytest.mark.parametrize(
    ("where", "parameter", "full"),
    [
        ({}, "weight", "weight"),
        ({"path": "model.layers.3"}, "mlp.weight", "model.layers.3.mlp.weight"),
        ({"paths": {"norm": "model.norm", "head": "lm_head"}}, "norm.weight", "model.norm.weight"),
        ({"paths": {"nor": "model.nor"}, "path": "model"}, "norm.weight", "model.norm.weight"),
        ({"path": "model", "names": {"weight": "tied.weight"}}, "weight", "tied.weight"),
    ],
)
def test_a_parameter_has_the_name_of_where_it_is(where: dict, parameter: str, full: str) -> None:
    assert Part(name="part", module=nn.Identity(), **where).full_name(parameter) == full


def test_parameters_that_are_one_are_found_across_parts_and_inside_them() -> None:
    first, last = nn.Linear(2, 2), nn.Linear(2, 2, bias=False)
    last.weight = first.weight
    inside = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3))
    inside[1].bias = inside[0].bias
    modules = {"first": first, "inside": inside, "last": last}
    parts = tuple(Part(name=path, path=path, module=module) for path, module in modules.items())
    assert shared_names(parts) == (("first.weight", "last.weight"), ("inside.0.bias", "inside.1.bias"))


def test_a_row_counts_the_layers_of_its_body_and_shared_parameters_once() -> None:
    model = nn.Sequential(nn.Embedding(5, 2), nn.Linear(2, 2), nn.Linear(2, 5, bias=False))
    model[2].weight = model[0].weight
    head, layer, tail = (Part(name=str(at), module=module) for at, module in enumerate(model))
    row = ModelRow(head=(head,), body=(layer,), tail=(tail,))
    assert (row.parts, row.num_layers, row.num_parameters) == ((head, layer, tail), 1, 10 + 6)
    with pytest.raises(InputError, match="mine must have at least one layer"):
        ModelRow(name="mine", head=(head,), body=(), tail=(tail,))
