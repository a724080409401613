"""Rules from torch: that its private names are there, and that running on parts gives the parts of the result."""

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from evenflow.cluster.mesh_plan import RowExchange  # noqa: E402
from evenflow.cluster.placement import PARTIAL, REPLICATE, WholeTensor  # noqa: E402
from evenflow_torch.auto.sharding.operator_strategies import StrategyTable, torch_rules  # noqa: E402
from evenflow_torch.models.trace import dtensor_adapter  # noqa: E402
from evenflow_torch.models.trace.dtensor_adapter import Call, NoRuleError, TensorArgument, registered_rules  # noqa: E402
from evenflow_torch.models.trace.equal_layers import marker  # noqa: E402
from evenflow_torch.models.trace.operator_graph import AxisRule, Operator, Role  # noqa: E402

aten = torch.ops.aten
PARTS = 2


def call(overload: Any, *arguments: Any) -> Call:
    def describe(one: Any) -> Any:
        if isinstance(one, torch.Tensor):
            return TensorArgument(shape=tuple(one.shape), dtype=one.dtype)
        return tuple(describe(each) for each in one) if isinstance(one, list) else one

    return Call(overload=overload, arguments=tuple(describe(one) for one in arguments), keywords=())


def test_private_names_of_torch_are_there() -> None:
    for name in dtensor_adapter.__all__:
        assert getattr(dtensor_adapter, name) is not None
    propagator = dtensor_adapter.DTensor._op_dispatcher.sharding_propagator
    assert len(propagator.op_strategy_funcs) > 100
    assert len(propagator.op_single_dim_strategy_funcs) > 100


def part_of(tensor: Any, placement: int, rank: int) -> Any:
    if placement == PARTIAL:
        return tensor * (0.25 if rank == 0 else 0.75)
    return tensor if placement == REPLICATE else tensor.chunk(PARTS, dim=placement)[rank]


def whole(parts: list[Any], placement: int) -> Any:
    if placement == PARTIAL:
        return sum(parts)
    if placement == REPLICATE:
        assert all(torch.allclose(part, parts[0]) for part in parts)
        return parts[0]
    return torch.cat(parts, dim=placement)


def check_rule(overload: Any, arguments: list[Any], rule: AxisRule) -> None:
    """Two devices run the operator on their parts; put together, the results are those of one device."""
    expected = overload(*arguments)
    expected = expected if isinstance(expected, tuple | list) else (expected,)
    results = []
    for rank in range(PARTS):
        placements = iter(rule.inputs)
        local = [part_of(one, next(placements), rank) if isinstance(one, torch.Tensor) else one for one in arguments]
        if overload is aten.expand.default:  # as DTensor does, it is told the local shape
            where = rule.outputs[0]
            local[1] = [size // PARTS if i == where else size for i, size in enumerate(local[1])]
        result = overload(*local)
        results.append(result if isinstance(result, tuple | list) else (result,))
    for i, placement in enumerate(rule.outputs):
        together = whole([result[i] for result in results], placement)
        assert torch.allclose(together, expected[i], atol=1e-5), (rule, i)


def even(arguments: list[Any], rule: AxisRule) -> bool:
    tensors = [one for one in arguments if isinstance(one, torch.Tensor)]
    return all(where < 0 or one.shape[where] % PARTS == 0 for one, where in zip(tensors, rule.inputs, strict=True))


def attention() -> list[Any]:
    torch.manual_seed(0)
    return [torch.randn(2, 4, 6, 8) for _ in range(3)]


def attention_backward() -> list[Any]:
    query, key, value = attention()
    output, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu.default(query, key, value)
    return [torch.randn(2, 4, 6, 8), query, key, value, output, logsumexp, 0.0, False]


CASES = {
    "attention": (aten._scaled_dot_product_flash_attention_for_cpu.default, lambda: [*attention(), 0.0, False], 4),
    "attention backward": (aten._scaled_dot_product_flash_attention_for_cpu_backward.default, attention_backward, 4),
    "unbind": (aten.unbind.int, lambda: [torch.randn(4, 3, 2), 1], 4),
    "expand": (aten.expand.default, lambda: [torch.randn(4, 1, 2), [6, 4, 8, 2]], 6),
    "mm": (aten.mm.default, lambda: [torch.randn(4, 6), torch.randn(6, 8)], 4),
    "add": (aten.add.Tensor, lambda: [torch.randn(4, 6), torch.randn(4, 6)], 3),
    "layer norm": (
        aten.native_layer_norm.default,
        lambda: [torch.randn(4, 6, 8), [8], torch.randn(8), torch.randn(8), 1e-5],
        2,
    ),
    "embedding": (aten.embedding.default, lambda: [torch.randn(10, 6), torch.randint(10, (4, 8))], 4),
}


@pytest.mark.parametrize("name", CASES)
def test_rules_hold_on_numbers(name: str) -> None:
    overload, make, least = CASES[name]
    arguments = make()
    rules = torch_rules(call(overload, *arguments), PARTS)
    assert rules is not None
    # The rows of an embedding need the masks that DTensor adds, keys that move the messages of the runtime (which has
    # tests of its own); all others run as they are.
    masked = {rule for rule in rules if name == "embedding" and rule.outputs == (PARTIAL,)}
    moved = {rule for rule in rules if rule.rows in (RowExchange.BALANCED, RowExchange.RING)}
    plain = [rule for rule in rules - masked - moved if even(arguments, rule)]
    assert len(plain) + len(masked) >= least
    for rule in plain:
        check_rule(overload, arguments, rule)


def test_unknown_operators_run_replicated_and_are_named() -> None:
    tensor = torch.randn(4, 4)
    unknown = call(marker(), tensor, "0 1 0 0")
    with pytest.raises(NoRuleError):
        registered_rules(unknown, PARTS)
    table = StrategyTable(rules=torch_rules)
    given = WholeTensor(shape=(4, 4), item_bytes=4)
    operator = Operator(name="mark_1", role=Role.COMPUTE, outputs=(given,), call=unknown, target="mark")
    strategies = table.strategies(operator, (given,), (2, 2))
    assert [one.outputs for one in strategies] == [((REPLICATE, REPLICATE),)]
    assert table.unknown == {"mark"}


def test_two_axes_are_products_of_even_splits() -> None:
    table = StrategyTable(rules=torch_rules)
    left, right, result = (WholeTensor(shape=shape, item_bytes=4) for shape in ((4, 8), (8, 6), (4, 6)))
    product = call(aten.mm.default, torch.randn(4, 8), torch.randn(8, 6))
    operator = Operator(name="mm", role=Role.COMPUTE, outputs=(result,), call=product)
    found = {(one.inputs, one.outputs) for one in table.strategies(operator, (left, right), (2, 2))}
    assert len(found) == 35  # 6 rules an axis; 6 columns do not split by both axes
    # Megatron's row split on one axis, data parallelism on the other.
    assert (((0, 1), (REPLICATE, 0)), ((0, PARTIAL),)) in found
    assert (((0, 0), (REPLICATE, REPLICATE)), ((0, 0),)) in found
