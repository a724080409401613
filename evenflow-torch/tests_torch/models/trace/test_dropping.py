"""What recomputing modules drop, against layers that really run under a checkpoint."""

from collections import Counter

import pytest

torch = pytest.importorskip("torch")

from evenflow.cluster import Dtype, WholeTensor  # noqa: E402
from evenflow.fields import as_fields  # noqa: E402
from evenflow_torch.models.equal_parts import kinds_of  # noqa: E402
from evenflow_torch.models.part_trace import trace  # noqa: E402
from evenflow_torch.models.parts import Part  # noqa: E402
from evenflow_torch.models.trace.captured_layers import CapturedLayers, capture_layers  # noqa: E402
from evenflow_torch.models.trace.dropping import dropping  # noqa: E402
from evenflow_torch.models.trace.operator_graph import Operator, OperatorGraph, Role, Value  # noqa: E402
from evenflow_torch.models.training_row import read_decoder  # noqa: E402
from tests_torch.models.layers import llama_config  # noqa: E402

KINDS = ("comm", "select", "both")


@pytest.fixture(scope="module")
def llama() -> tuple[Part, CapturedLayers]:
    config = as_fields(llama_config(), file="config.json")
    row = read_decoder(config, sequence=32, microbatch=2, dtype=Dtype.BFLOAT16, name="small")
    kinds, order = kinds_of(row.parts)
    return kinds[1], capture_layers(kinds, order)


@pytest.mark.parametrize("kind", KINDS)
def test_the_operators_that_run_again_are_those_of_a_checkpoint(llama: tuple[Part, CapturedLayers], kind: str) -> None:
    layer, captured = llama
    graph, drops = captured.graphs[1], captured.dropping[1][kind]
    more = Counter(one.name for one in trace(layer, kind).backward)
    more.subtract(one.name for one in trace(layer, "none").backward)
    assert Counter(graph.operators[index].target for index in drops.again) == +more


@pytest.mark.parametrize("kind", KINDS)
def test_as_much_is_kept_as_under_a_checkpoint(llama: tuple[Part, CapturedLayers], kind: str) -> None:
    layer, captured = llama
    graph, drops = captured.graphs[1], captured.dropping[1][kind]
    given = sum(operator.outputs[0].size_bytes for operator in graph.operators if operator.role is Role.INPUT)
    kept = sum(graph.operators[value.operator].outputs[value.output].size_bytes for value in drops.kept)
    assert abs(kept - trace(layer, kind).activation_bytes) <= given, "what comes from outside may be counted or not"


def chain(*modules: str) -> OperatorGraph:
    """An input, a forward operator in each of the modules, each reading the last; then their backwards, which read
    what the forward read.
    """
    tensor = WholeTensor(shape=(4,), item_bytes=1)
    operators = [Operator(name="x", role=Role.INPUT, outputs=(tensor,))]
    for place, module in enumerate(modules):
        operators.append(
            Operator(name=module, role=Role.COMPUTE, inputs=(Value(operator=place),), outputs=(tensor,), module=module)
        )
    for place, module in reversed(list(enumerate(modules))):
        read = Value(operator=place)
        operators.append(
            Operator(name=module, role=Role.COMPUTE, inputs=(read,), outputs=(tensor,), module=module, backward=True)
        )
    return OperatorGraph(operators=tuple(operators), outputs=(), gradients=(), from_layer_before={})


def test_a_module_keeps_what_comes_in_and_what_others_read() -> None:
    graph = chain("norm", "attention.query", "attention.out", "mlp")
    drops = dropping(graph, ["attention"])
    assert drops.kept == {Value(operator=0), Value(operator=1), Value(operator=3)}, "all but the query's result"
    assert drops.again == {2}, "the last operator runs again for nobody"


def test_neighbours_that_recompute_keep_what_goes_between_them() -> None:
    graph = chain("attention", "mlp.up", "mlp.down", "out")
    drops = dropping(graph, ["attention", "mlp"])
    assert drops.kept == {Value(operator=0), Value(operator=1), Value(operator=3)}
    assert drops.again == {2}


def test_a_name_is_not_the_beginning_of_another() -> None:
    assert not dropping(chain("attention2", "attention2.out"), ["attention"]).again


def test_an_operator_alone_in_its_module_does_not_run_again() -> None:
    assert not dropping(chain("a", "b", "c"), ["a", "b", "c"]).again, "each keeps what it reads"
