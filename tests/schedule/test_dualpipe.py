"""DualPipe with two copies of the parameters is DualPipe-V twice: the same steps, at the same times.

In DualPipe, rank r of p holds stage r for the microbatches of one direction and stage p - 1 - r for those of the other.
Both directions do the same at the same time, so that what a rank gets from its mirror it could give to itself.
[DeepSeek-V3, arXiv:2412.19437, §3.2.1; deepseek-ai/DualPipe]
"""

from collections import deque

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import NONE, Layer, LayerRun, Mode, Network, Plan, cells
from evenflow.schedule import Op, family_name, make_schedule
from evenflow.simulate import simulate
from tests.thoroughness import examples

Done = tuple[Op, int, int, int]
"""Operation, direction, stage along it, microbatch of it."""


def phases(half_rank: int, *, half_ranks: int, half_microbatches: int) -> list[tuple[Op, int]]:
    """The eight steps of DualPipe on a rank: operations, each in the own direction of its half of the ranks (0) or not.

    A weight gradient is the oldest that waits.
    """
    behind = half_ranks - half_rank - 1
    steps = [(Op.F, 0)] * (2 * behind)
    steps += [(Op.F, 0), (Op.F, 1)] * (half_rank + 1)
    steps += [(Op.I, 1), (Op.W, 0), (Op.F, 1)] * behind
    main = half_microbatches - 2 * half_ranks + half_rank + 1
    steps += [(Op.F, 0), (Op.B, 1), (Op.F, 1), (Op.B, 0)] * main
    steps += [(Op.B, 1), (Op.F, 1), (Op.B, 0)] * behind
    is_split = False
    for place in range(half_rank + 1):
        at_half = place == (half_rank + 1) // 2
        is_split |= at_half and half_rank % 2 == 1
        steps.append((Op.I if is_split else Op.B, 1))
        is_split |= at_half and half_rank % 2 == 0
        steps.append((Op.I if is_split else Op.B, 0))
    steps += [(Op.W, 0), (Op.I, 0)] * behind
    return steps + [(Op.W, 0)] * (half_rank + 1)


def order_of(rank: int, *, num_ranks: int, num_microbatches: int) -> list[Done]:
    """What a rank of DualPipe does, in order."""
    is_second = rank >= num_ranks // 2
    half_rank = min(rank, num_ranks - 1 - rank)
    counts = {(op, direction): 0 for op in (Op.F, Op.B) for direction in (0, 1)}
    waiting: deque[tuple[int, int, int]] = deque()
    order: list[Done] = []
    for op, phase in phases(half_rank, half_ranks=num_ranks // 2, half_microbatches=num_microbatches // 2):
        if op == Op.W:
            order.append((op, *waiting.popleft()))
            continue
        direction = phase ^ is_second
        stage = num_ranks - 1 - rank if direction else rank
        key = (Op.F if op == Op.F else Op.B, direction)
        order.append((op, direction, stage, counts[key]))
        if op == Op.I:
            waiting.append((direction, stage, counts[key]))
        counts[key] += 1
    assert not waiting
    return order


def ends_of(orders: list[list[Done]], times: list[tuple[int, int, int]]) -> dict[Done, int]:
    """When everything is done, with the times of forward, input and weight gradient of every stage."""
    last = len(times) - 1
    ends: dict[Done, int] = {}
    free, heads = [0] * len(orders), [0] * len(orders)
    while any(head < len(order) for head, order in zip(heads, orders, strict=True)):
        moved = False
        for rank, order in enumerate(orders):
            while heads[rank] < len(order):
                op, direction, stage, microbatch = action = order[heads[rank]]
                forward, gradient, weight = times[stage]
                needed: list[list[Done]] = []
                if op == Op.F and stage:
                    needed = [[(Op.F, direction, stage - 1, microbatch)]]
                elif op in (Op.B, Op.I):
                    behind = [(each, direction, stage + 1, microbatch) for each in (Op.B, Op.I)]
                    needed = [behind if stage < last else [(Op.F, direction, stage, microbatch)]]
                inputs = [next((ends[each] for each in either if each in ends), None) for either in needed]
                if None in inputs:
                    break
                takes = {Op.F: forward, Op.B: gradient + weight, Op.I: gradient, Op.W: weight}[op]
                free[rank] = ends[action] = max([free[rank], *filter(None, inputs)]) + takes
                heads[rank] += 1
                moved = True
        assert moved, "the order waits for itself"
    return ends


@settings(max_examples=examples(60))
@given(st.data())
def test_dualpipe_is_dualpipe_v_twice(data: st.DataObject) -> None:
    half_ranks = data.draw(st.integers(1, 5))
    half_microbatches = data.draw(st.integers(2 * half_ranks, 2 * half_ranks + 6))
    num_ranks = 2 * half_ranks
    time = st.integers(1, 50)
    times = [(data.draw(time), data.draw(time), data.draw(time)) for _stage in range(num_ranks)]
    orders = [order_of(rank, num_ranks=num_ranks, num_microbatches=2 * half_microbatches) for rank in range(num_ranks)]
    ends = ends_of(orders, times)
    assert sum(map(len, orders)) == len(ends)

    layers = [
        Layer(
            name="layer",
            forward_ns=forward,
            parameter_bytes=1,
            modes={NONE: Mode(activation_bytes=1, backward_ns=gradient + weight)},
            stated_weight_ns=weight,
        )
        for forward, gradient, weight in times
    ]
    network = Network(name="drawn", runs=tuple(LayerRun(layer=layer, count=1) for layer in layers))
    plan = Plan(schedule="dualpipe-v", num_microbatches=half_microbatches, layers=cells([[1] * half_ranks] * 2))
    simulation = simulate(network, plan)
    schedule = simulation.timeline.schedule
    assert simulation.makespan_ns == max(ends.values())
    whole = zip(schedule.ops, schedule.stages, schedule.units, simulation.timeline.end_ns, strict=True)
    once = {(Op(op), int(stage), int(unit)): int(end) for op, stage, unit, end in whole}
    for direction in (0, 1):
        of_direction = {(op, stage, unit): end for (op, way, stage, unit), end in ends.items() if way == direction}
        assert of_direction == once


def test_the_name_of_dualpipe_says_what_it_is() -> None:
    assert make_schedule("dualpipe-v", num_ranks=2, num_chunks=2, num_microbatches=4).num_ranks == 2
    with pytest.raises(InputError, match="two copies of dualpipe-v on half of the ranks each"):
        family_name("DualPipe")
    with pytest.raises(InputError, match="two copies of dualpipe-v-overlap on half"):
        family_name("dualpipe-overlap")
