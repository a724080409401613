"""Which layers of a row are equal."""

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from evenflow.auto.row.layer_kinds import kinds_of  # noqa: E402
from evenflow.torch_model.parts import Part  # noqa: E402

HIDDEN = torch.empty(2, 4, device="meta")


def part(module: object, inputs: tuple[object, ...] = (HIDDEN,), **named: object) -> Part:
    return Part(name="part", module=module, inputs=inputs, named_inputs=named)


class Numbered(nn.Linear):
    """A layer that knows its place among the layers."""

    def __init__(self, layer_index: int) -> None:
        super().__init__(4, 4)
        self.layer_index = layer_index


@pytest.mark.parametrize("head", [[], [nn.Linear(4, 4)]])
def test_values_and_a_layers_own_number_make_no_kind(head: list[object]) -> None:
    layers = [part(module) for module in (*head, *(Numbered(index) for index in range(4)))]
    kinds, order = kinds_of(layers)
    assert order == (*range(len(head)), *[len(head)] * 4)
    assert kinds == tuple(layers[: len(head) + 1])


def test_a_kind_may_come_again() -> None:
    modules = [nn.Linear(4, 4), nn.Linear(4, 4, bias=False)]
    assert kinds_of([part(modules[kind]) for kind in (0, 1, 0, 0, 1)])[1] == (0, 1, 0, 0, 1)


def test_other_inputs_are_another_kind() -> None:
    module = nn.Linear(4, 4)
    mask = torch.empty(2, 2, device="meta")
    layers = [
        part(module),
        part(module, (torch.empty(3, 4, device="meta"),)),
        part(module, (HIDDEN.double(),)),
        part(module, mask=mask),
        part(module, mask=torch.empty_like(mask)),
        part(module, mask=None),
    ]
    assert kinds_of(layers)[1] == (0, 1, 2, 3, 3, 4)
