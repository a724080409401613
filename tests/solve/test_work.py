"""What an order is made for: memory of one microbatch at a time against the simulator, and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.schedule import Action, Op, Schedule, make_schedule
from evenflow.simulate import peak_bytes
from evenflow.solve.work import UNLIMITED, Work, make_work, splits_of
from tests.solve.order.cases import as_work, equal_work, small_work
from tests.solve.order.oracle import Small
from tests.thoroughness import examples


def one_at_a_time(work: Work, splits: np.ndarray) -> Schedule:
    """Each microbatch is done before the next begins."""
    orders: list[list[Action]] = [[] for _ in range(work.num_ranks)]
    for unit in range(work.num_microbatches):
        for stage, rank in enumerate(work.stage_ranks):
            orders[rank].append(Action(stage, Op.F, unit))
        for stage in reversed(range(work.num_stages)):
            ops = (Op.I, Op.W) if splits[stage] else (Op.B,)
            orders[work.stage_ranks[stage]] += [Action(stage, op, unit) for op in ops]
    return Schedule.from_actions(
        name="one at a time",
        num_stages=work.num_stages,
        num_microbatches=work.num_microbatches,
        stage_ranks=work.stage_ranks,
        orders=orders,
    )


@settings(max_examples=examples(50))
@given(small_work(), st.data())
def test_the_memory_of_one_microbatch_at_a_time_is_the_simulators(small: Small, data: st.DataObject):
    work = as_work(small)
    splits = np.array([data.draw(st.booleans()) for _ in small.stage_ranks])
    order = one_at_a_time(work, splits)
    assert work.alone_bytes(splits).tolist() == peak_bytes(order, work.costs).tolist()
    assert splits_of(order) is not None
    assert (splits_of(order) == splits).all()


@settings(max_examples=examples(30))
@given(small_work())
def test_a_byte_less_than_one_microbatch_needs_is_refused(small: Small):
    costs = as_work(small).costs
    order = one_at_a_time(as_work(small), np.zeros(small.num_stages, dtype=bool))
    needed = int(peak_bytes(order, costs).max())

    def make(limit: int | None) -> Work:
        return make_work(costs, order, memory_limit_bytes=limit, communication=None, split_backward=False)

    assert make(needed).room_bytes.tolist() == [needed] * order.num_ranks
    assert make(None).room_bytes.tolist() == [UNLIMITED] * order.num_ranks
    with pytest.raises(InputError, match="one microbatch at a time"):
        make(needed - 1)


def test_gradients_take_the_parts_of_a_sequence_in_reverse():
    work = equal_work(num_ranks=2, num_microbatches=2, may_split=False, room=(9, 9))
    assert work.gradient_units.tolist() == [0, 1]
    assert replace(work, sequence_splits=3).gradient_units.tolist() == [2, 1, 0, 5, 4, 3]


def test_a_stage_that_does_both_has_no_pattern():
    orders = [[Action(0, Op.F, 0), Action(0, Op.B, 0), Action(0, Op.F, 1), Action(0, Op.I, 1), Action(0, Op.W, 1)]]
    both = Schedule.from_actions(name="both", num_stages=1, num_microbatches=2, stage_ranks=(0,), orders=orders)
    assert splits_of(both) is None


def test_an_order_without_backwards_is_refused():
    whole = make_schedule("1f1b", num_ranks=1, num_chunks=1, num_microbatches=1)
    only = Schedule.from_actions(
        name="forwards", num_stages=1, num_microbatches=1, stage_ranks=(0,), orders=[whole.order(0)[:1]]
    )
    costs = equal_work(num_ranks=1, num_microbatches=1, may_split=False, room=(9,)).costs
    with pytest.raises(InputError, match="must have backwards"):
        make_work(costs, only, memory_limit_bytes=None, communication=None, split_backward=False)
