"""Capture: what the joint graph says of a module, and equal layers traced once."""

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from evenflow.errors import InputError  # noqa: E402
from evenflow_torch.models.trace.capture import capture  # noqa: E402
from evenflow_torch.models.trace.equal_layers import EqualLayers, find_equal_layers  # noqa: E402
from evenflow_torch.models.trace.operator_graph import OperatorGraph, Role  # noqa: E402


def layer(width: int = 8) -> object:
    return nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))


def stacked(count: int) -> object:
    """Two plain layers around `count` equal ones."""
    return nn.Sequential(nn.Linear(4, 8), nn.Sequential(*(layer() for _ in range(count))), nn.Linear(8, 2))


def parameters(graph: OperatorGraph) -> dict[str, int]:
    return {one.name: one.times for one in graph.operators if one.role is Role.PARAMETER}


EXAMPLE = torch.empty(16, 4)


def test_equal_layers_are_traced_once() -> None:
    few, many = (capture(stacked(count), EXAMPLE) for count in (3, 40))
    assert len(few.operators) == len(many.operators)
    assert parameters(many) == {
        "0.weight": 1,
        "0.bias": 1,
        "1.0-39.0.weight": 40,
        "1.0-39.0.bias": 40,
        "1.0-39.2.weight": 40,
        "1.0-39.2.bias": 40,
        "2.weight": 1,
        "2.bias": 1,
    }


def test_arithmetic_is_that_of_the_untied_graph() -> None:
    tied = capture(stacked(5), EXAMPLE)
    module = stacked(5)
    for position, one in enumerate(module[1]):
        one.own_name = f"layer {position}"  # now no two layers are equal
    untied = capture(module, EXAMPLE)
    assert len(untied.operators) > 2 * len(tied.operators)
    for backward in (False, True):
        assert sum(one.cost.flops * one.times for one in tied.operators if one.backward == backward) == sum(
            one.cost.flops for one in untied.operators if one.backward == backward
        )
    # rows x inputs x outputs, twice for multiply and add; per layer two products of 8 x 16
    assert sum(one.cost.flops * one.times for one in tied.operators if not one.backward) == 2 * 16 * (
        4 * 8 + 5 * 2 * 8 * 16 + 8 * 2
    )


def test_what_a_layer_reads_comes_from_the_layer_before() -> None:
    graph = capture(stacked(5), EXAMPLE)
    first = next(i for i, one in enumerate(graph.operators) if one.times == 5 and one.role is Role.COMPUTE)
    routes = [route for value in graph.operators[first].inputs for route in graph.routes(value, 5)]
    from_parameters = [one for one in routes if graph.operators[one.source.operator].role is Role.PARAMETER]
    handed_on = [one for one in routes if one not in from_parameters]
    assert [one.times for one in from_parameters] == [5, 5]
    assert [one.times for one in handed_on] == [1, 4]
    assert graph.operators[handed_on[0].source.operator].times == 1  # the plain layer before
    assert graph.operators[handed_on[1].source.operator].times == 5  # the equal layer before


def test_kept_for_the_backward() -> None:
    graph = capture(stacked(5), EXAMPLE)
    kept = {}
    for one in graph.operators:
        for output in one.saved:
            kept[one.outputs[output].shape, one.times] = kept.get((one.outputs[output].shape, one.times), 0) + 1
    # The input; each layer's input (the first from outside, the others from the layer before), and its wide tensor
    # before and after the activation function. The last layer's result is kept for the layer behind, too.
    assert kept == {((16, 4), 1): 1, ((16, 8), 1): 1, ((16, 8), 5): 1, ((16, 16), 5): 2}


def test_runs_of_equal_layers() -> None:
    module = nn.Module()
    module.layers = nn.ModuleList([layer(8), layer(8), layer(4), layer(4), layer(4), layer(8)])
    assert find_equal_layers(module) == (
        EqualLayers(path="layers", first=0, count=2),
        EqualLayers(path="layers", first=2, count=3),
    )
    for position, one in enumerate(module.layers):
        one.layer_index = position
    assert len(find_equal_layers(module)) == 2  # knowing its own place makes no layer another one
    module.layers[1].window = 7
    assert find_equal_layers(module) == (EqualLayers(path="layers", first=2, count=3),)


class TwoRuns(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([*(nn.Linear(8, 8) for _ in range(3)), *(layer() for _ in range(4))])

    def forward(self, hidden: object) -> object:
        for one in self.layers:
            hidden = one(hidden)
        return hidden


def test_two_runs_in_one_list() -> None:
    graph = capture(TwoRuns(), torch.empty(16, 8))
    assert parameters(graph) == {
        "layers.0-2.weight": 3,
        "layers.0-2.bias": 3,
        "layers.3-6.0.weight": 4,
        "layers.3-6.0.bias": 4,
        "layers.3-6.2.weight": 4,
        "layers.3-6.2.bias": 4,
    }
    # Forward and backward, also for the first run, whose first layer alone would need no gradient of its input.
    assert sorted(graph.operators[view].times for view in graph.from_layer_before) == [3, 3, 4, 4]


class Experts(nn.Module):  # type: ignore[misc,name-defined]
    """Equal modules side by side: no layer hands anything to the next."""

    def __init__(self) -> None:
        super().__init__()
        self.experts = nn.ModuleList([nn.Linear(8, 8) for _ in range(3)])

    def forward(self, hidden: object) -> object:
        return sum(one(hidden) for one in self.experts)


def test_modules_side_by_side_are_no_layers_in_a_row() -> None:
    graph = capture(Experts(), torch.empty(16, 8))
    assert set(parameters(graph).values()) == {1}
    assert len(parameters(graph)) == 6


def test_loss_alone_is_trained_on() -> None:
    class Model(nn.Module):  # type: ignore[misc,name-defined]
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 6)

        def forward(self, tokens: object) -> dict[str, object]:
            logits = self.head(tokens)
            return {"loss": logits.sum(), "logits": logits}

    graph = capture(Model(), {"tokens": EXAMPLE})
    assert [graph.operators[value.operator].outputs[value.output].shape for value in graph.outputs] == [()]


def test_the_module_is_left_as_it_was() -> None:
    module = stacked(4)
    before = {name: id(one) for name, one in module.named_parameters()}
    names = [name for name, _ in module.named_modules()]
    capture(module, EXAMPLE)
    assert {name: id(one) for name, one in module.named_parameters()} == before
    assert [name for name, _ in module.named_modules()] == names
    assert all("forward" not in vars(one) for one in module.modules())
    assert module(torch.ones(16, 4)).shape == (16, 2)


def test_meta_tensors_do() -> None:
    with torch.device("meta"):
        module, example = stacked(2), torch.empty(16, 4)
    assert parameters(capture(module, example)) == parameters(capture(stacked(2), EXAMPLE))


def test_tied_parameters_are_one() -> None:
    module = nn.Sequential(nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False), nn.Linear(4, 2))
    module[1].weight = module[0].weight
    graph = capture(module, EXAMPLE)
    assert len(parameters(graph)) == 3
    assert len(graph.gradients) == 3


class LooksAtValues(nn.Module):  # type: ignore[misc,name-defined]
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))

    def forward(self, hidden: object) -> object:
        return hidden * self.weight if hidden.sum() > 0 else hidden  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("module", "example", "words"),
    [
        (LooksAtValues(), EXAMPLE, "let no shape depend on values"),
        (nn.Linear(5, 2), EXAMPLE, "an example input that fits"),
        (nn.GELU(), EXAMPLE, "module must have a parameter that requires a gradient"),
    ],
)
def test_modules_that_cannot_be_traced(module: object, example: object, words: str) -> None:
    with pytest.raises(InputError, match=words):
        capture(module, example)
