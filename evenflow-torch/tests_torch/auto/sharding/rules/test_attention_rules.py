"""Attention by rows of the query: which tensors are split, what every device computes, and what it exchanges."""

from itertools import pairwise
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from evenflow.cluster import PARTIAL, REPLICATE, Collective, RowExchange, WholeTensor  # noqa: E402
from evenflow_torch.auto.sharding.operator_strategies import StrategyTable, torch_rules  # noqa: E402
from evenflow_torch.auto.sharding.rules.extra_rules import extra_rules  # noqa: E402
from evenflow_torch.models.trace.dtensor_adapter import Call  # noqa: E402
from evenflow_torch.models.trace.operator_graph import AxisRule, Operator, Role, Value  # noqa: E402
from evenflow_torch.run.mesh.attention.row_pieces import RowSpan, pieces, spans_of  # noqa: E402
from tests_torch.models.trace.test_dtensor_adapter import attention, call  # noqa: E402

aten = torch.ops.aten
FORWARD = aten._scaled_dot_product_flash_attention_for_cpu.default
BACKWARD = aten._scaled_dot_product_flash_attention_for_cpu_backward.default
LENGTH = 2
GATHERED, BALANCED, RING = RowExchange


def by_rows(made: Call) -> dict[RowExchange, AxisRule]:
    rules = extra_rules(made)
    assert rules is not None
    found = [one for one in rules if LENGTH in one.outputs]
    assert len({one.rows for one in found}) == len(found)
    return {one.rows: one for one in found}


def of_rows(made: Call) -> AxisRule:
    return by_rows(made)[GATHERED]


def forward(*, causal: bool, dropout: float = 0.0) -> Call:
    return call(FORWARD, *attention(), dropout, causal)


def backward(*, causal: bool) -> Call:
    query, key, value = attention()
    return call(BACKWARD, query, query, key, value, *FORWARD(query, key, value, 0.0, causal), 0.0, causal)


def with_mask(mask: Any) -> Call:
    bare, masked = call(FORWARD, *attention(), 0.0, False), call(FORWARD, *attention(), mask)
    return Call(overload=FORWARD, arguments=bare.arguments, keywords=(("attn_mask", masked.arguments[3]),))


@pytest.mark.parametrize("rows", [GATHERED, BALANCED])
def test_keys_and_values_are_whole_and_their_gradients_sums(rows: RowExchange) -> None:
    found = by_rows(forward(causal=True))[rows]
    assert found.inputs == (LENGTH, REPLICATE, REPLICATE)
    found = by_rows(backward(causal=True))[rows]
    assert found.inputs == (LENGTH, LENGTH, REPLICATE, REPLICATE, LENGTH, LENGTH)
    assert found.outputs == (LENGTH, PARTIAL, PARTIAL)


@pytest.mark.parametrize("causal", [False, True])
def test_on_a_ring_everything_is_split_by_rows(causal: bool) -> None:
    for made in (forward(causal=causal), backward(causal=causal)):
        found = by_rows(made)[RING]
        assert {*found.inputs, *found.outputs} == {LENGTH}


def test_a_mask_is_split_by_its_rows_where_it_has_them() -> None:
    for rows in (GATHERED, RING):
        for mask, split in (((2, 1, 6, 6), LENGTH), ((6, 6), 0), ((2, 1, 1, 6), REPLICATE)):
            assert by_rows(with_mask(torch.zeros(mask)))[rows].inputs[-1] == split


def test_what_the_runtime_cannot_take_apart_has_no_ring() -> None:
    assert set(by_rows(forward(causal=True, dropout=0.5))) == {GATHERED}
    assert set(by_rows(forward(causal=False))) == {GATHERED, RING}
    assert set(by_rows(with_mask(torch.zeros(6, 6)))) == {GATHERED, RING}
    query, key, value = attention()
    assert set(by_rows(call(FORWARD, query, key[:, :, :3], value[:, :, :3], 0.0, True))) == {GATHERED}


@pytest.mark.parametrize("parts", [2, 3, 6])
def test_the_last_rows_of_causal_attention_are_twice_an_equal_share(parts: int) -> None:
    """The runtime computes all keys up to a device's last row, for each of its rows."""
    length = 6
    own = length // parts
    computed = [own * min((device + 1) * own, length) for device in range(parts)]
    share = length * length / 2 / parts  # as the costs count it
    assert of_rows(forward(causal=True)).work == max(computed) / share
    assert of_rows(forward(causal=False)).work == 1


def seen(rows: tuple[RowSpan, ...], keys: tuple[RowSpan, ...]) -> set[tuple[int, int]]:
    """All positions of rows and keys that are computed: of a triangle, those that the mask leaves."""
    row_at, key_at = (
        {one.at + place: one.begin + place for one in spans for place in range(one.end - one.begin)}
        for spans in (rows, keys)
    )
    found: list[tuple[int, int]] = []
    for piece in pieces(rows, keys, is_causal=True):
        for row in range(piece.rows.start, piece.rows.stop):
            for key in range(piece.keys.start, piece.keys.stop):
                assert key_at[key] == piece.first_key + key - piece.keys.start
                if not piece.is_causal or row - piece.rows.start >= key - piece.keys.start:
                    found.append((row_at[row], key_at[key]))
    assert len(set(found)) == len(found)
    return set(found)


@pytest.mark.parametrize(("devices", "length"), [(1, 4), (2, 2), (2, 5), (3, 4), (4, 1), (4, 6), (5, 3)])
def test_every_row_sees_its_keys_once_and_mirrored_devices_compute_as_much(devices: int, length: int) -> None:
    total = devices * length
    wanted = {(row, key) for row in range(total) for key in range(row + 1)}
    everything = (RowSpan(begin=0, end=total, at=0),)
    for mirrored in (False, True):
        spans = [spans_of(device, devices, length, is_mirrored=mirrored) for device in range(devices)]
        gathered = [seen(rows, everything) for rows in spans]
        around = [
            [seen(spans[one], spans[(one - step) % devices]) for one in range(devices)] for step in range(devices)
        ]
        assert set().union(*gathered) == set().union(*(part for step in around for part in step)) == wanted
        assert sum(map(len, gathered)) == sum(len(part) for step in around for part in step) == len(wanted)
        if mirrored and length % 2 == 0:
            assert len(set(map(len, gathered))) == 1
            for step in around:  # equal on all devices in every step, which is what the price says
                assert len(set(map(len, step))) == 1


@pytest.mark.parametrize("causal", [False, True])
def test_what_devices_exchange_is_priced(causal: bool) -> None:
    """Of what is exchanged, halves are counted as halves, keys and values as twice the keys."""
    sizes: dict[tuple[RowExchange, bool], dict[tuple[Collective, bool], float]] = {}
    for made, is_backward in ((forward(causal=causal), False), (backward(causal=causal), True)):
        for rows, one in by_rows(made).items():
            sums: dict[tuple[Collective, bool], float] = {}
            for each in one.exchanges:
                key = each.collective, each.hides
                sums[key] = sums.get(key, 0.0) + each.share
            sizes[rows, is_backward] = sums
    send, ring = (Collective.SEND, False), (Collective.RING, True)
    queries, keys = 2 * 0.5, 2 * 0.5  # query and result; key and value
    assert sizes[GATHERED, False] == sizes[GATHERED, True] == {}
    assert sizes[RING, False] == ({send: queries + keys, ring: 2} if causal else {ring: 2})
    assert sizes[RING, True] == {ring: 4, send: (2 * queries + 2 * keys if causal else 0) + 2}  # gradients, and home
    if causal:
        assert sizes[BALANCED, False] == {send: queries}
        assert sizes[BALANCED, True] == {send: 2 * queries}


def test_special_rows_are_split_along_one_axis() -> None:
    shape = (2, 4, 16, 8)
    tensor = WholeTensor(shape=shape, item_bytes=4)
    made = call(FORWARD, *(torch.zeros(shape) for _ in range(3)), 0.0, True)
    operator = Operator(
        name="attention", role=Role.COMPUTE, inputs=tuple(Value(operator=at) for at in range(3)),
        outputs=(tensor, WholeTensor(shape=shape[:3], item_bytes=4)), call=made,
    )  # fmt: skip
    strategies = StrategyTable(rules=torch_rules).strategies(operator, (tensor,) * 3, (2, 2))
    assert {one.rows for one in strategies} == set(RowExchange)
    assert any(one.outputs[0] == (LENGTH, LENGTH) for one in strategies)
    for one in strategies:
        split = sum(where == LENGTH for where in one.outputs[0])
        assert split == 1 or one.rows is GATHERED
        assert bool(one.exchanges) == (one.rows is not GATHERED)
        assert all(one.outputs[0][axis] == LENGTH for axis, _each in one.exchanges)
    for earlier, later in pairwise(strategies):
        assert earlier != later
