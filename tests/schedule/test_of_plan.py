from dataclasses import replace

import pytest
from hypothesis import given

from evenflow.errors import InputError, ScheduleError
from evenflow.model import Plan
from evenflow.schedule import Schedule, format_schedule, make_schedule, schedule_of
from tests.strategies import random_schedules


def plan_of(schedule: Schedule) -> Plan:
    return Plan(
        schedule=schedule.name,
        num_microbatches=schedule.num_microbatches,
        layers=((1,) * schedule.num_ranks,) * schedule.num_chunks,
        order=tuple(format_schedule(schedule).splitlines()),
    )


@given(random_schedules())
def test_a_plan_runs_the_order_it_carries(schedule: Schedule):
    assert schedule_of(plan_of(schedule)) == schedule


def test_without_an_order_it_is_that_of_the_family():
    plan = Plan(schedule="interleaved", num_microbatches=5, layers=((1, 1), (1, 1)), sequence_splits=2)
    expected = make_schedule("interleaved", num_ranks=2, num_chunks=2, num_microbatches=5, sequence_splits=2)
    assert schedule_of(plan) == expected


def test_an_order_of_other_sizes_is_refused():
    plan = plan_of(make_schedule("1f1b", num_ranks=2, num_chunks=1, num_microbatches=3))
    with pytest.raises(InputError, match=r"num_microbatches must be the 4 of the plan"):
        schedule_of(replace(plan, num_microbatches=4))
    with pytest.raises(InputError, match=r"num_chunks must be the 2 of the plan"):
        schedule_of(replace(plan, layers=((1, 1), (1, 1))))


def test_an_incomplete_order_is_refused():
    plan = plan_of(make_schedule("1f1b", num_ranks=2, num_chunks=1, num_microbatches=2))
    with pytest.raises(ScheduleError, match="0B1 0 times"):
        schedule_of(replace(plan, order=("0F0,0F1,0B0", plan.order[1])))


def test_an_order_has_a_line_a_rank():
    with pytest.raises(InputError, match="one line for each of the 2 ranks"):
        Plan(schedule="search", num_microbatches=1, layers=((1, 1),), order=("0F0,0B0",))


def test_a_plan_with_another_group_size_runs_its_order():
    plan = Plan(schedule="interleaved", num_microbatches=9, layers=((1,) * 4,) * 2, group_size=9)
    sizes = {"num_ranks": 4, "num_chunks": 2, "num_microbatches": 9}
    assert schedule_of(plan).same_order(make_schedule("interleaved", **sizes, group_size=9))
    assert not schedule_of(plan).same_order(make_schedule("interleaved", **sizes))
