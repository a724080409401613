import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from evenflow.errors import InputError  # noqa: E402
from evenflow_torch.models.parts import Part  # noqa: E402
from evenflow_torch.models.trace.captured_layers import capture_layers  # noqa: E402


def part(name: str, *sizes: int) -> Part:
    return Part(name=name, module=nn.Linear(*sizes), inputs=(torch.empty(2, sizes[0]),))


def test_a_kind_is_traced_as_often_as_it_follows_itself() -> None:
    layers = capture_layers([part("first", 4, 8), part("layer", 8, 8)], [0, 1, 1, 1])
    assert layers.longest == (1, 3)
    assert [tensor.shape for tensor in layers.handed_over] == [(2, 4), (2, 8)]
    assert layers.graphs[0].from_layer_before == {}
    assert layers.graphs[1].from_layer_before
    names = {one.name for one in layers.graphs[1].operators}
    assert {"weight", "bias"} <= names  # as in the layer itself


def test_layers_that_do_not_fit_together() -> None:
    with pytest.raises(InputError, match=r"the result of first must be what narrow takes, .2, 4. of 4 bytes each"):
        capture_layers([part("first", 4, 8), part("narrow", 4, 4)], [0, 1])
    with pytest.raises(InputError, match="order must be kinds of layers, from 0 to 0"):
        capture_layers([part("first", 4, 8)], [0, 1])
