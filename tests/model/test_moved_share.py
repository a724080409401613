"""Tests of one share of what moves to the host, against the rule of Megatron-LM over single groups."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import (
    NONE,
    HostLink,
    Layer,
    LayerRun,
    Mode,
    MovedGroups,
    MovedShare,
    Network,
    Plan,
    shares_between,
    stage_table,
    with_chain,
    with_moved_share,
)
from evenflow.model.moved_share import num_moved
from tests.thoroughness import examples

WHOLE = "again+offload_core_attn+offload_expert_fc1+offload_moe_act"
CHAIN = ("again", "again+offload_core_attn", "again+offload_core_attn+offload_expert_fc1", WHOLE)


def _layer(parts: tuple[int, ...]) -> Layer:
    modes = {
        NONE: Mode(activation_bytes=100, backward_ns=20),
        "again": Mode(activation_bytes=80, backward_ns=22),
        WHOLE: Mode(activation_bytes=80 - sum(parts), offloaded_bytes=sum(parts), moved_parts=parts, backward_ns=22),
    }
    return Layer(name=str(parts), forward_ns=10, parameter_bytes=5, modes=modes)


def _network(layers: list[tuple[int, ...]]) -> Network:
    runs = tuple(LayerRun(layer=_layer(parts), count=1) for parts in layers)
    return Network(name="moving", runs=runs, host_link=HostLink(bytes_per_s=10**9))


def _staying(groups: list[tuple[int, int]], share: float) -> set[tuple[int, int]]:
    """Return what Megatron-LM leaves on the device of the groups (layer, module) of a chunk, in its own steps."""
    stays = set()
    disabled = int(len(groups) * (1 - share))
    for group in reversed(groups):
        if disabled > 0:
            disabled -= 1
            stays.add(group)
        else:
            break
    return stays


_PARTS = st.lists(
    st.tuples(st.sampled_from([0, 7]), st.sampled_from([0, 11]), st.sampled_from([0, 13])), min_size=2, max_size=7
)


@settings(max_examples=examples(60))
@given(layers=_PARTS, share=st.floats(0, 1), cut=st.integers(0, 7))
def test_every_cell_moves_the_groups_that_megatron_moves(layers: list[tuple[int, ...]], share: float, cut: int) -> None:
    network = with_chain(_network(layers), CHAIN)
    assert network is not None
    groups = MovedGroups.of(network, CHAIN)
    assert groups is not None
    first = min(cut, len(layers))
    plan = Plan(
        schedule="1f1b",
        num_microbatches=2,
        layers=((first, len(layers) - first),),
        moved_share=MovedShare(kind=WHOLE, share=share),
    )
    counted = with_moved_share(plan, groups, stage_table((0, 1), num_ranks=2))
    for rank, (start, end) in enumerate([(0, first), (first, len(layers))]):
        every = [(layer, part) for layer in range(start, end) for part in range(3) if layers[layer][part]]
        moves = set(every) - _staying(every, share)
        in_cell = [kind for kind in network.kinds if kind != NONE for _layer in range(counted.count(kind, 0, rank))]
        for layer, kind in zip(range(start, end), in_cell, strict=True):
            expected = sum(layers[layer][part] for part in range(3) if (layer, part) in moves)
            assert network.layers[layer].modes[kind].offloaded_bytes == expected


@given(parts=st.tuples(*[st.integers(0, 20)] * 3))
def test_what_a_part_of_the_modules_moves_less_stays(parts: tuple[int, ...]) -> None:
    network = with_chain(_network([parts]), CHAIN)
    assert network is not None
    modes = network.layers[0].modes
    for count, kind in enumerate(CHAIN):
        assert modes[kind].offloaded_bytes == sum(parts[:count])
        assert modes[kind].activation_bytes + modes[kind].offloaded_bytes == 80


def test_parts_must_be_known() -> None:
    network = _network([(7, 11, 13)])
    layer = network.layers[0]
    whole = replace(layer.modes[WHOLE], moved_parts=())
    unknown = replace(network, runs=(LayerRun(layer=replace(layer, modes={**layer.modes, WHOLE: whole}), count=1),))
    assert with_chain(unknown, CHAIN) is None
    assert with_chain(network, (*CHAIN, "further")) is None
    assert MovedGroups.of(network, CHAIN) is None


@given(counts=st.lists(st.integers(0, 12), min_size=1, max_size=4))
def test_shares_between_make_every_number_of_groups(counts: list[int]) -> None:
    shares = shares_between(counts)
    for count in counts:
        assert {num_moved(count, share) for share in shares} | {0, count} >= set(range(count + 1))


@pytest.mark.parametrize(("groups", "share", "moved"), [(8, 0.8125, 7), (2, 0.8125, 2), (10, 0.9, 10), (3, 0.0, 0)])
def test_numbers_of_groups(groups: int, share: float, moved: int) -> None:
    assert num_moved(groups, share) == moved
