"""Rules of experts: computed part by part, each as one device has it, and put together."""

import pytest

torch = pytest.importorskip("torch")

from evenflow.cluster.placement import PARTIAL, REPLICATE  # noqa: E402
from evenflow.predict.layer_tensors import FULLEST  # noqa: E402
from evenflow_torch.auto.sharding.rules.extra_rules import extra_rules  # noqa: E402
from evenflow_torch.models.experts.gates import _GATES  # noqa: E402
from evenflow_torch.models.experts.operator import experts  # noqa: E402
from evenflow_torch.models.trace.dtensor_adapter import Call, TensorArgument  # noqa: E402
from evenflow_torch.models.trace.operator_graph import AxisRule  # noqa: E402

TOKENS, HIDDEN, WIDTH, EXPERTS, CHOSEN, DEVICES = 12, 6, 10, 4, 2, 2


def _gate(both: "torch.Tensor") -> "torch.Tensor":
    left, right = both.chunk(2, -1)
    return torch.tanh(left) * right


@pytest.fixture(autouse=True)
def gate(monkeypatch: pytest.MonkeyPatch) -> None:
    """A gate named ``test``."""
    monkeypatch.setitem(_GATES, "test", _gate)


def arguments(*, transposed: bool, biased: bool) -> list[object]:
    torch.manual_seed(0)
    up, down = (EXPERTS, 2, WIDTH, HIDDEN), (EXPERTS, HIDDEN, WIDTH)
    if transposed:
        up, down = (EXPERTS, HIDDEN, 2, WIDTH), (EXPERTS, WIDTH, HIDDEN)
    index = torch.stack([torch.randperm(EXPERTS)[:CHOSEN] for _ in range(TOKENS)])
    made = [torch.randn(*shape, dtype=torch.float64) for shape in ((TOKENS, HIDDEN), (TOKENS, CHOSEN), up, down)]
    biases = [torch.randn(*shape, dtype=torch.float64) for shape in ((EXPERTS, 2, WIDTH), (EXPERTS, HIDDEN))]
    up_bias, down_bias = biases if biased else (None, None)
    return [made[0], index, made[1], made[2], up_bias, made[3], down_bias, "test", transposed]


def rules_of(given: list[object], *, capacity: float | None = None) -> set[AxisRule]:
    described = tuple(
        TensorArgument(shape=tuple(one.shape), dtype=one.dtype) if isinstance(one, torch.Tensor) else one
        for one in given
    )
    call = Call(overload=torch.ops.evenflow.experts.default, arguments=described, keywords=())
    found = extra_rules(call, expert_capacity=capacity)
    assert found is not None
    return found


def part_of(tensor: "torch.Tensor", placement: int, device: int) -> "torch.Tensor":
    if placement == PARTIAL:
        return tensor if device == 0 else torch.zeros_like(tensor)
    return tensor if placement == REPLICATE else tensor.chunk(DEVICES, placement)[device].contiguous()


def put_together(parts: list["torch.Tensor"], placement: int) -> "torch.Tensor":
    if placement == PARTIAL:
        return torch.stack(parts).sum(0)
    if placement == REPLICATE:
        torch.testing.assert_close(parts[0], parts[1], rtol=0, atol=1e-12)
        return parts[0]
    return torch.cat(parts, placement)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("biased", [False, True])
def test_parts_of_devices_make_the_whole(transposed: bool, biased: bool) -> None:
    given = arguments(transposed=transposed, biased=biased)
    whole, gradients = _run(given)
    rules = rules_of(given)
    assert len(rules) == 5
    tensors = [at for at, one in enumerate(given) if isinstance(one, torch.Tensor)]
    for rule in rules:
        placed = dict(zip(tensors, rule.inputs, strict=True))
        if rule.exchanges:
            continue  # only together; tests of the runtime run this
        results, found = [], []
        for device in range(DEVICES):
            own = [part_of(one, placed[at], device) if at in placed else one for at, one in enumerate(given)]
            if placed[3] == 0:  # other devices' experts are none of its own
                own[1] = (given[1] - device * EXPERTS // DEVICES) % (2 * EXPERTS)
            result, of_own = _run(own)
            results.append(result)
            found.append(of_own)
        torch.testing.assert_close(put_together(results, rule.outputs[0]), whole, rtol=0, atol=1e-12)
        # A gradient of what devices have whole adds up where they had different tokens or parts; else it is as split.
        for at, gradient in gradients.items():
            where = placed[at]
            parts = [one[at] for one in found]
            is_whole = rule.outputs[0] == REPLICATE or (where == PARTIAL and at == 6)
            there = REPLICATE if is_whole else PARTIAL if where in (REPLICATE, PARTIAL) else where
            torch.testing.assert_close(put_together(parts, there), gradient, rtol=0, atol=1e-12)


def _run(given: list[object]) -> tuple["torch.Tensor", dict[int, "torch.Tensor"]]:
    own = [
        one.clone().requires_grad_() if isinstance(one, torch.Tensor) and one.is_floating_point() else one
        for one in given
    ]
    result = experts(*own)[0]
    torch.autograd.backward(result, torch.ones_like(result))
    return result.detach(), {at: one.grad for at, one in enumerate(own) if getattr(one, "grad", None) is not None}


def test_expert_parallel_sends_rows_there_and_back() -> None:
    given = arguments(transposed=False, biased=False)
    (rule,) = (one for one in rules_of(given) if one.exchanges)
    assert set(rule.inputs) == {0}
    assert len(rule.exchanges) == 2
    num_inputs = len(rule.inputs)
    assert {one.tensor for one in rule.exchanges} == {num_inputs + 1}, (
        "the rows, as many as tokens times experts of each"
    )
    assert rule.load == FULLEST > 1


@pytest.mark.parametrize(("capacity", "fullest"), [(1.0, 1.0), (1.125, 1.125), (1.75, 1.75), (8.0, EXPERTS / CHOSEN)])
def test_a_capacity_bounds_all_that_the_fullest_device_does(capacity: float, fullest: float) -> None:
    rules = rules_of(arguments(transposed=False, biased=False), capacity=capacity)
    assert len(rules) == 5
    split = [rule for rule in rules if rule.inputs[3] == rule.inputs[4] == 0]
    assert len(split) == 2
    for rule in rules:
        wanted = fullest if rule in split else 1.0
        assert (rule.load, rule.work) == (wanted, wanted)
        assert {one.share for one in rule.exchanges} <= {fullest}


def test_halves_of_equal_width_are_not_split() -> None:
    given = arguments(transposed=False, biased=False)
    given[3], given[5] = torch.zeros(EXPERTS, 2, 2, HIDDEN), torch.zeros(EXPERTS, HIDDEN, 2)
    assert len(rules_of(given)) == 4
