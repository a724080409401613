"""Which parts of a model are equal: those that cost the same, whatever their values and their number."""

import functools

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from evenflow_torch.models.equal_parts import are_equal, fingerprint, kinds_of  # noqa: E402
from evenflow_torch.models.parts import Part  # noqa: E402
from tests_torch.models.layers import GptLayer  # noqa: E402

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


class Other(nn.Linear):
    """A layer with any attributes."""

    def __init__(self, **attributes: object) -> None:
        super().__init__(4, 4)
        for name, value in attributes.items():
            setattr(self, name, value)


def order_of(*modules: object) -> tuple[int, ...]:
    return kinds_of([part(module) for module in modules])[1]


@pytest.mark.parametrize("name", ["layer_idx", "layer_index", "layer_id", "layer_number", "index", "block_no"])
@pytest.mark.parametrize("first", [0, 1, 12])
def test_the_number_of_a_layer_counts_from_anywhere(name: str, first: int) -> None:
    assert order_of(*(Other(**{name: first + place}) for place in range(3))) == (0, 0, 0)


@pytest.mark.parametrize("name", ["times", "dilation", "window", "num_layers", "n_layer", "max_position"])
@pytest.mark.parametrize("first", [0, 1])
def test_a_size_that_grows_with_the_place_is_a_difference(name: str, first: int) -> None:
    assert order_of(*(Other(**{name: first + place}) for place in range(3))) == (0, 1, 2)


def test_a_number_that_is_not_the_layers_own_is_a_difference() -> None:
    assert order_of(Other(layer_idx=0), Other(layer_idx=2)) == (0, 1)
    assert order_of(Other(layer_idx=0, block_id=1), Other(layer_idx=1, block_id=2)) == (0, 1), "two numbers"
    first, second = fingerprint(Numbered(0)), fingerprint(Numbered(1))
    assert are_equal(first, second, distance=1)
    assert not are_equal(first, second, distance=2)


@pytest.mark.parametrize(
    ("value", "other"),
    [
        (torch.relu, torch.tanh),
        (nn.functional.relu, nn.functional.gelu),
        (
            functools.partial(nn.functional.gelu, approximate="none"),
            functools.partial(nn.functional.gelu, approximate="tanh"),
        ),
        ((3, 3), (3, 5)),
        ([1, 2], [2, 3]),
        ({"window": 128}, {"window": None}),
        (None, 128),
        (True, False),
        (True, 1),
        (0.1, 0.2),
        (torch.float32, torch.float16),
        (nn.Linear, nn.Bilinear),
    ],
)
def test_what_a_layer_is_set_to_is_a_difference(value: object, other: object) -> None:
    assert order_of(Other(setting=value), Other(setting=other), Other(setting=value)) == (0, 1, 0)


def test_what_only_holds_values_is_no_difference() -> None:
    around: list[object] = []
    around.append(around)
    for values in (
        [torch.zeros(2), torch.ones(2)],
        [[torch.zeros(2)], [torch.ones(2)]],
        [object(), object()],
        [{"of": object()}, {"of": object()}],
        [lambda: 1, lambda: 1],
        [around, around],
    ):
        assert order_of(*(Other(setting=value) for value in values)) == (0, 0)


def test_recurrent_layers_keep_a_list_of_their_parameters() -> None:
    assert order_of(nn.LSTM(4, 4), nn.LSTM(4, 4), nn.LSTM(4, 4, num_layers=2)) == (0, 0, 1)


def test_a_layer_in_evaluation_is_another_kind() -> None:
    assert order_of(Other(), Other().eval()) == (0, 1)


def test_numbers_values_and_devices_are_no_difference() -> None:
    one, two = GptLayer(16, 2), GptLayer(16, 2).to("meta")
    one.layer_idx, two.layer_idx = 0, 1
    first, second = (part(layer, (torch.zeros(1, 4, 16, device=layer.ln_1.weight.device),)) for layer in (one, two))
    assert kinds_of([first, second])[1] == (0, 0)


def test_shapes_types_and_what_is_trained_are_differences() -> None:
    def of(module: nn.Module, *shape: int) -> Part:
        return part(module, (torch.zeros(*shape),))

    parts = [
        of(nn.Linear(4, 4), 2, 4),
        of(nn.Linear(4, 4), 3, 4),
        of(nn.Linear(4, 4).double(), 2, 4),
        of(nn.Linear(4, 4).requires_grad_(False), 2, 4),
        of(nn.Sequential(nn.Linear(4, 4)), 2, 4),
        of(nn.Linear(4, 4, bias=False), 2, 4),
    ]
    assert kinds_of([*parts, of(nn.Linear(4, 4), 2, 4)])[1] == (*range(6), 0)
