"""Rules of operators run on numbers: what devices make of their parts, put together, is what one device makes."""

from collections.abc import Callable
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from evenflow.cluster import PARTIAL, REPLICATE  # noqa: E402
from evenflow_torch.auto.sharding.rules.extra_rules import extra_rules  # noqa: E402
from evenflow_torch.models.trace.operator_graph import AxisRule  # noqa: E402
from tests_torch.models.trace.test_dtensor_adapter import PARTS, call, even, part_of, whole  # noqa: E402

aten = torch.ops.aten
BATCH = 0


def image(*shape: int) -> Any:
    return torch.randn(*(shape or (4, 6, 8, 8)), dtype=torch.float64)


def convolution(*, groups: int = 1, bias: bool = True, transposed: bool = False) -> list[Any]:
    filters = image(6, 8 // groups, 3, 3) if transposed else image(8 if groups == 1 else 2 * 6, 6 // groups, 3, 3)
    given = 8 if groups == 1 else 12
    return [image(), filters, image(given) if bias else None, [1, 1], [1, 1], [1, 1], transposed, [0, 0], groups]


def convolution_backward(mask: list[bool], *, groups: int = 1) -> list[Any]:
    taken, filters, bias, *others = convolution(groups=groups)
    given = aten.convolution.default(taken, filters, bias, *others)
    return [torch.randn_like(given), taken, filters, list(bias.shape), *others, mask]


def group_norm_backward() -> list[Any]:
    taken, weight = image(), image(6)
    _, mean, spread = aten.native_group_norm.default(taken, weight, image(6), 4, 6, 64, 3, 1e-5)
    return [torch.randn_like(taken), taken, mean, spread, weight, 4, 6, 64, 3, [True] * 3]


def pool_backward() -> list[Any]:
    given = aten.avg_pool2d.default(image(), [2, 2])
    return [torch.randn_like(given), image(), [2, 2], [2, 2], [0, 0], False, True, None]


CASES: dict[str, tuple[Any, Callable[[], list[Any]], int]] = {
    "convolution": (aten.convolution.default, convolution, 3),
    "convolution without bias": (aten.convolution.default, lambda: convolution(bias=False), 4),
    "depthwise": (aten.convolution.default, lambda: convolution(groups=6), 3),
    "transposed": (aten.convolution.default, lambda: convolution(bias=False, transposed=True), 4),
    "convolution backward": (aten.convolution_backward.default, lambda: convolution_backward([True] * 3), 4),
    "of the first layer": (aten.convolution_backward.default, lambda: convolution_backward([False, True, True]), 4),
    "depthwise backward": (aten.convolution_backward.default, lambda: convolution_backward([True] * 3, groups=6), 3),
    "group norm backward": (aten.native_group_norm_backward.default, group_norm_backward, 2),
    "average pool backward": (aten.avg_pool2d_backward.default, pool_backward, 3),
    "larger": (aten.upsample_nearest2d.default, lambda: [image(), [16, 16]], 3),
    "hard swish": (aten.hardswish.default, lambda: [image()], 5),
    "broadcast": (aten.copy.default, lambda: [image(), image(1, 8, 8)], 5),
    "squares": (aten.mse_loss.default, lambda: [image(4, 6), image(4, 6), 2], 3),
    "each square": (aten.mse_loss.default, lambda: [image(4, 6), image(4, 6), 0], 3),
    "gate": (aten.glu.default, lambda: [image(4, 6, 8), -1], 3),
}


def results(overload: Any, arguments: list[Any]) -> list[Any]:
    made = overload(*arguments)
    return list(made) if isinstance(made, tuple) else [made]


def on_parts(overload: Any, arguments: list[Any], rule: AxisRule) -> list[list[Any]]:
    """The results of every device."""
    made = []
    for rank in range(PARTS):
        placements = iter(rule.inputs)
        local = [part_of(one, next(placements), rank) if isinstance(one, torch.Tensor) else one for one in arguments]
        if overload is aten.native_group_norm_backward.default:
            local[5] = local[0].shape[BATCH]
        if overload is aten.convolution.default and rule.outputs[0] == 1:
            local[-1] = max(1, arguments[-1] * local[0].shape[1] // arguments[0].shape[1])  # groups
        if overload is aten.convolution_backward.default:
            local[3] = [local[0].shape[1]]
            local[-2] = max(1, arguments[-2] * local[1].shape[1] // arguments[1].shape[1])
        made.append(results(overload, local))
    return made


@pytest.mark.parametrize("name", CASES)
def test_rules_hold_on_numbers(name: str) -> None:
    overload, make, least = CASES[name]
    arguments = make()
    rules = extra_rules(call(overload, *arguments))
    assert rules is not None
    plain = [rule for rule in rules if even(arguments, rule)]
    assert len(plain) >= least
    expected = results(overload, arguments)
    for rule in plain:
        parts = on_parts(overload, arguments, rule)
        for i, placement in enumerate(rule.outputs):
            if expected[i] is not None:
                assert torch.allclose(whole([part[i] for part in parts], placement), expected[i]), (rule, i)


@pytest.mark.parametrize("masked", [(4, 6, 8), (4, 6), (4,)])
def test_what_a_mask_writes_is_written_by_every_device_to_its_part(masked: tuple[int, ...]) -> None:
    taken, mask, value = image(4, 6, 8), torch.rand(masked) < 0.5, torch.tensor(7.0).double()
    rules = extra_rules(call(aten.index_put.default, taken, [mask], value))
    assert rules is not None
    splits = {rule.outputs[0] for rule in rules}
    assert splits == {REPLICATE, 0, 1, 2}
    expected = aten.index_put.default(taken, [mask], value)
    for rule in rules:
        parts = []
        for rank in range(PARTS):
            own, where = (part_of(*pair, rank) for pair in zip((taken, mask), rule.inputs, strict=False))
            parts.append(aten.index_put.default(own, [where], value))
        assert torch.equal(whole(parts, rule.outputs[0]), expected)


def test_other_indices_are_left_to_torch() -> None:
    taken, mask = image(4, 6), torch.tensor([True, False, True, False])
    assert extra_rules(call(aten.index_put.default, taken, [torch.tensor([1, 3])], image(2, 6))) is None
    assert extra_rules(call(aten.index_put.default, taken, [mask], image(2, 6))) is None
    assert extra_rules(call(aten.index_put.default, taken, [None, torch.ones(6).bool()], torch.tensor(1.0))) is None


def test_means_of_equal_parts_have_the_mean_of_all_as_theirs() -> None:
    arguments = [image(4, 6), image(4, 6), 1]
    rules = extra_rules(call(aten.mse_loss.default, *arguments))
    assert rules is not None
    split = [rule for rule in rules if rule.outputs == (PARTIAL,)]
    assert len(split) == 2
    for rule in split:
        parts = on_parts(aten.mse_loss.default, arguments, rule)
        assert torch.allclose(sum(part[0] for part in parts) / PARTS, aten.mse_loss.default(*arguments))


def test_batch_norm_with_samples_split_is_that_of_own_samples() -> None:
    """As in data parallelism: the gradient of a sample knows nothing of other devices' samples."""
    arguments = [image(), image(6), image(6), torch.zeros(6).double(), torch.ones(6).double(), True, 0.1, 1e-5]
    forward = extra_rules(call(aten._native_batch_norm_legit_functional.default, *arguments))
    assert forward is not None
    rule = next(one for one in forward if one.inputs[0] == BATCH)
    assert rule.outputs == (BATCH, PARTIAL, PARTIAL, REPLICATE, REPLICATE)
    parts = on_parts(aten._native_batch_norm_legit_functional.default, arguments, rule)
    for part, samples in zip(parts, arguments[0].chunk(PARTS), strict=True):
        alone = torch.nn.functional.batch_norm(samples, None, None, arguments[1], arguments[2], training=True)
        assert torch.allclose(part[0], alone)
    channels = next(one for one in forward if one.inputs[0] == 1)
    expected = results(aten._native_batch_norm_legit_functional.default, arguments)
    parts = on_parts(aten._native_batch_norm_legit_functional.default, arguments, channels)
    for i, placement in enumerate(channels.outputs):
        assert torch.allclose(whole([part[i] for part in parts], placement), expected[i])


def test_batch_norm_backward_fits_its_forward() -> None:
    taken, weight = image(), image(6)
    given, mean, spread = aten.native_batch_norm.default(taken, weight, image(6), None, None, True, 0.1, 1e-5)
    arguments = [torch.randn_like(given), taken, weight, None, None, mean, spread, True, 1e-5, [True] * 3]
    rules = extra_rules(call(aten.native_batch_norm_backward.default, *arguments))
    assert rules is not None
    samples = next(one for one in rules if one.inputs[0] == BATCH)
    assert samples.inputs == (BATCH, BATCH, REPLICATE, PARTIAL, PARTIAL)  # each has the statistics of its own
    assert samples.outputs == (BATCH, PARTIAL, PARTIAL)
    channels = next(one for one in rules if one.inputs[0] == 1)
    parts = on_parts(aten.native_batch_norm_backward.default, arguments, channels)
    expected = results(aten.native_batch_norm_backward.default, arguments)
    for i, placement in enumerate(channels.outputs):
        assert torch.allclose(whole([part[i] for part in parts], placement), expected[i])


def test_statistics_that_are_given_stay_whole() -> None:
    arguments = [image(), image(6), image(6), image(6), image(6).abs(), False, 0.1, 1e-5]
    rules = extra_rules(call(aten._native_batch_norm_legit_functional.default, *arguments))
    assert rules is not None
    assert next(one for one in rules if one.inputs[0] == BATCH).outputs[1:] == (REPLICATE,) * 4


@pytest.mark.parametrize("new", [0, 1, -1])
def test_stacked_tensors(new: int) -> None:
    tensors = [image(4, 6, 8) for _ in range(3)]
    rules = extra_rules(call(aten.stack.default, tensors, new))
    assert rules is not None
    assert len(rules) == 5
    for rule in rules:
        made = [
            torch.stack([part_of(one, where, rank) for one, where in zip(tensors, rule.inputs, strict=True)], new)
            for rank in range(PARTS)
        ]
        assert torch.allclose(whole(made, rule.outputs[0]), torch.stack(tensors, new))


def test_other_operators_are_left_to_torch() -> None:
    assert extra_rules(call(aten.mm.default, image(4, 6), image(6, 8))) is None
