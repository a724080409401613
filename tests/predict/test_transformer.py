"""A transformer in plain numbers: which layers have what, and which numbers it refuses."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.predict.parameters import model_parameters
from evenflow.predict.transformer import EVERY_BIAS, Biases, Experts, Norms, Transformer
from tests.predict.trainings import LLAMA

EXPERTS = Experts(count=8, active=2, ffn=512)


def with_experts(**changes: object) -> list[int]:
    model = replace(LLAMA, experts=replace(EXPERTS, **changes))  # type: ignore[arg-type]
    return [layer for layer in range(model.layers) if model.kind(layer).experts]


def test_layers_with_experts() -> None:
    assert with_experts() == list(range(8))
    assert with_experts(dense_layers=3) == [3, 4, 5, 6, 7]
    assert with_experts(every=2) == [1, 3, 5, 7]
    assert with_experts(dense_layers=2, mlp_layers=(4, 7)) == [2, 3, 5, 6]
    assert not LLAMA.kind(0).experts


@given(
    count=st.integers(1, 64),
    active=st.integers(1, 8),
    devices=st.integers(2, 16),
    factors=st.tuples(st.floats(1, 20), st.floats(1, 20)),
)
def test_more_room_bounds_less_and_no_expert_gets_a_token_twice(count, active, devices, factors) -> None:
    active = min(active, count)
    loads = [
        replace(EXPERTS, count=count, active=active, capacity_factor=factor).bounded_load(devices)
        for factor in sorted(factors)
    ]
    assert 1 <= loads[0] <= loads[1] <= count / active
    assert all(load == factor or load == count / active for load, factor in zip(loads, sorted(factors), strict=True))


def test_loads_are_bounded_by_a_capacity_and_where_a_device_has_all_experts() -> None:
    assert EXPERTS.bounded_load(2) is None
    assert EXPERTS.bounded_load(1) == replace(EXPERTS, capacity_factor=2.0).bounded_load(1) == 1


def test_layers_with_a_window() -> None:
    model = replace(LLAMA, window=128, unwindowed_layers=(1, 5))
    assert [layer for layer in range(8) if not model.kind(layer).window] == [1, 5]
    assert not LLAMA.kind(0).window


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"layers": 0}, "small, layers must be at least 1, got 0"),
        ({"kv_heads": 3}, "small, kv_heads must divide the 8 heads of the queries, got 3"),
        ({"experts": replace(EXPERTS, active=9)}, "small, active_experts must be from 1 to the 8 experts, got 9"),
    ],
)
def test_numbers_that_no_transformer_has(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError) as refused:
        replace(LLAMA, **changes)  # type: ignore[arg-type]
    assert str(refused.value) == message


@given(
    hidden=st.integers(1, 50), layers=st.integers(1, 5), heads=st.integers(1, 4), width=st.integers(1, 9),
    ffn=st.integers(1, 40), words=st.integers(1, 300), gated=st.booleans(), tied=st.booleans(),
    positions=st.integers(0, 20),
)  # fmt: skip
def test_parameters_are_the_sum_of_the_shapes_of_all_tensors(
    hidden: int, layers: int, heads: int, width: int, ffn: int, words: int, gated: bool, tied: bool, positions: int
) -> None:
    """Every tensor of a model with all biases and norms, written out."""
    model = Transformer(
        hidden=hidden, layers=layers, heads=heads, kv_heads=1, head_dim=width, ffn=ffn, vocabulary=words, gated=gated,
        tied=tied, positions=positions, biases=replace(EVERY_BIAS, logits=True), sinks=True,
        norms=Norms(of_layer=3, queries=width, keys=width, after_embedding=True),
    )  # fmt: skip
    shapes: list[tuple[int, ...]] = [(words, hidden), (positions, hidden), (hidden,), (hidden,), (words,)]
    shapes += [] if tied else [(words, hidden)]
    for _layer in range(layers):
        shapes += [(hidden,)] * 6 + [(width,), (width,), (heads,)]
        for rows in (heads * width, width, width):
            shapes += [(hidden, rows), (rows,)]
        shapes += [(heads * width, hidden), (hidden,)]
        shapes += [(hidden, ffn), (ffn,)] * (2 if gated else 1) + [(ffn, hidden), (hidden,)]
    shapes += [(hidden,), (hidden,)]
    total = 0
    for shape in shapes:
        count = 1
        for size in shape:
            count *= size
        total += count
    assert model_parameters(model) == total
    bare = replace(model, biases=Biases(), norms=Norms(learned=False), sinks=False, positions=0, tied=True)
    matrices = 2 * hidden * (heads + 1) * width + (3 if gated else 2) * hidden * ffn
    assert model_parameters(bare) == words * hidden + layers * matrices
