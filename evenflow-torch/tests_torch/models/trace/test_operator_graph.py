"""Ways of tensors through views and between equal layers, on a graph made by hand."""

from evenflow.cluster.placement import WholeTensor
from evenflow_torch.models.trace.operator_graph import Operator, OperatorGraph, Role, Route, Value

TENSOR = WholeTensor(shape=(4,), item_bytes=2)
INPUT, ENTER, VIEW, LAYER, LEAVE = range(5)


def operator(role: Role, *inputs: int, times: int = 1) -> Operator:
    return Operator(
        name="x", role=role, inputs=tuple(Value(operator=one) for one in inputs), outputs=(TENSOR,), times=times
    )


def looped(times: int) -> OperatorGraph:
    """input -> (enter -> view -> layer -> leave) as often as there are layers."""
    return OperatorGraph(
        operators=(
            operator(Role.INPUT),
            operator(Role.VIEW, INPUT, times=times),
            operator(Role.VIEW, ENTER, times=times),
            operator(Role.COMPUTE, VIEW, times=times),
            operator(Role.VIEW, LAYER, times=times),
        ),
        outputs=(Value(operator=LEAVE),),
        gradients=(),
        from_layer_before={ENTER: Value(operator=LEAVE)},
    )


def test_the_first_layer_reads_the_input_and_the_others_the_layer_before() -> None:
    assert looped(5).routes(Value(operator=VIEW), 5) == (
        Route(source=Value(operator=INPUT), views=(ENTER, VIEW), times=1),
        Route(source=Value(operator=LAYER), views=(LEAVE, ENTER, VIEW), times=4, from_layer_before=True),
    )


def test_a_single_layer_has_one_way_in() -> None:
    assert looped(1).routes(Value(operator=VIEW), 1) == (
        Route(source=Value(operator=INPUT), views=(ENTER, VIEW), times=1),
    )


def test_only_equal_layers_change_in_number() -> None:
    assert [one.times for one in looped(2).with_layers(7).operators] == [1, 7, 7, 7, 7]
    assert looped(1).with_layers(7) == looped(1)
