"""One entry of a layer file: defaults, what is stated, and what is refused."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.fields import Fields
from evenflow.model import BOTH, COMM, FULL, NONE, SELECT
from evenflow.profiles.layer_entry import KIND_KEYS, body_layer, bytes_of, end_block, layer_count, plain_backward_ns
from evenflow.units import MEGABYTE, NANOSECONDS_PER_MILLISECOND

MEMORY = {"memory_parameter": 50, "memory_activation": 100}


def entry(**values: Any) -> Fields:
    return Fields(values={"name": "layer", "nb_layer": 2, "time": 10, **values}, file="model.json", path="entry 1")


@given(forward=st.integers(1, 10**6), coef=st.sampled_from([0, 0.25, 1.5]))
def test_the_backward_is_twice_the_forward_and_its_coefficient_more(forward: int, coef: float):
    layer = body_layer(entry(time=forward, backward_coef=coef), has_memory=False)
    assert layer.forward_ns == forward * NANOSECONDS_PER_MILLISECOND
    assert layer.modes[NONE].backward_ns == (1 + coef) * plain_backward_ns(layer.forward_ns)


def test_own_fields_win_over_the_time_of_both():
    layer = body_layer(entry(forward_time=7, backward_time=9, backward_coef=3), has_memory=False)
    assert (layer.forward_ns, layer.modes[NONE].backward_ns) == (7_000_000, 9_000_000)


def test_a_kind_is_offered_where_it_has_memory():
    layer = body_layer(entry(**MEMORY, memory_recompute=10, memory_select_rec=0, recompute_time=1000), has_memory=True)
    assert set(layer.modes) == {NONE, FULL}
    assert layer.modes[FULL].activation_bytes == 10 * MEGABYTE
    assert layer.modes[FULL].backward_ns == 1000 * NANOSECONDS_PER_MILLISECOND


@pytest.mark.parametrize(("kind", "backward_ms"), [(SELECT, 20.8), (COMM, 22.5), (BOTH, 23.3), (FULL, 30)])
def test_recomputing_takes_a_share_of_the_plain_backward_longer(kind: str, backward_ms: float):
    keys = KIND_KEYS[kind]
    by_default = body_layer(entry(**MEMORY, **{keys.memory: 5}), has_memory=True).modes[kind]
    assert by_default.backward_ns == pytest.approx(backward_ms * NANOSECONDS_PER_MILLISECOND)
    stated = body_layer(entry(**MEMORY, **{keys.memory: 5, keys.coef: 1}), has_memory=True).modes[kind]
    assert stated.backward_ns == 40 * NANOSECONDS_PER_MILLISECOND


def test_kinds_of_ones_own_have_a_time_or_a_coefficient():
    kinds = {"offload": {"memory": 3, "coef": 0.5}, "remote": {"memory": 2, "time": 25}}
    modes = body_layer(entry(**MEMORY, recompute_kinds=kinds), has_memory=True).modes
    assert modes["offload"].backward_ns == 30 * NANOSECONDS_PER_MILLISECOND
    assert modes["remote"].backward_ns == 25 * NANOSECONDS_PER_MILLISECOND
    assert modes["remote"].activation_bytes == 2 * MEGABYTE


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"time": 0}, "nanosecond or more"),
        ({"backward_time": 0}, "nanosecond or more"),
        ({"weight_time": 21}, "at most the backward without recomputation"),
        ({"recompute_time": 19}, "at least the backward without recomputation"),
        ({"memory_activation": None}, "memory_activation"),
        ({"memory_activation": 0}, "memory_activation"),
        (
            {"recompute_kinds": {"full": {"memory": 1, "coef": 1}}},
            "identifiers or paths of modules, joined with \\+, other than none",
        ),
        (
            {"recompute_kinds": {"a b": {"memory": 1, "coef": 1}}},
            "identifiers or paths of modules, joined with \\+, other than none",
        ),
        ({"recompute_kinds": {"own": {"memory": 1}}}, "one of the fields 'time' and 'coef'"),
        ({"recompute_kinds": {"own": {"memory": 1, "coef": 1, "time": 30}}}, "one of the fields 'time' and 'coef'"),
        ({"recompute_kinds": {"own": {"memory": 0, "coef": 1}}}, "memory"),
    ],
)
def test_what_cannot_be_is_refused_at_its_place(values: dict[str, Any], message: str):
    with pytest.raises(InputError, match=message) as caught:
        body_layer(entry(**MEMORY | values), has_memory=True)
    assert "model.json: entry 1" in str(caught.value)


def test_memory_in_part_is_refused_only_where_others_have_it():
    part = {"memory_parameter": 5}
    with pytest.raises(InputError, match="another BODY entry has memory"):
        body_layer(entry(**part), has_memory=True)
    assert body_layer(entry(**part), has_memory=False).parameter_bytes == 5 * MEGABYTE


def test_ends_are_sums_of_their_layers():
    block = end_block([entry(**MEMORY), entry(name="norm", nb_layer=1, time=3, weight_time=2)], has_memory=True)
    assert block.name == "layer + norm"
    assert block.forward_ns == 23 * NANOSECONDS_PER_MILLISECOND
    assert block.backward_ns == 46 * NANOSECONDS_PER_MILLISECOND
    assert (block.parameter_bytes, block.activation_bytes) == (100 * MEGABYTE, 200 * MEGABYTE)
    alone = end_block([entry(**MEMORY)], has_memory=True)
    assert alone.stated_weight_ns is None
    assert block.weight_ns == alone.weight_ns + 2 * NANOSECONDS_PER_MILLISECOND


def test_without_memory_an_end_has_none():
    block = end_block([entry(**MEMORY, memory_until_weight=4)], has_memory=False)
    assert (block.parameter_bytes, block.activation_bytes, block.stated_until_weight_bytes) == (0, 0, None)
    stated = end_block([entry(**MEMORY, memory_until_weight=4)], has_memory=True)
    assert stated.stated_until_weight_bytes == 8 * MEGABYTE


def test_ends_do_not_recompute():
    with pytest.raises(InputError, match="head and tail never recompute"):
        end_block([entry(recompute_kinds={"own": {"memory": 1, "coef": 1}})], has_memory=False)


def test_absent_bytes_are_none_and_counts_are_whole_numbers_from_one():
    assert bytes_of(entry(), "memory_parameter") == 0
    assert layer_count(entry()) == 2
    for count in (0, 1.5, 100_001):
        with pytest.raises(InputError, match="nb_layer"):
            layer_count(entry(nb_layer=count))
