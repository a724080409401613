import pytest

from evenflow.export.targets import MINDFORMERS
from evenflow.model import Plan


def plan(schedule: str) -> Plan:
    return Plan(schedule=schedule, num_microbatches=4, layers=((3, 3),))


def test_a_target_expresses_what_it_can_write():
    assert MINDFORMERS.can_run(plan("1f1b"))
    assert not MINDFORMERS.can_run(plan("zb-h1"))
    assert MINDFORMERS.write(plan("1f1b")).startswith("To put in yaml configuration:")


@pytest.mark.parametrize("schedule", MINDFORMERS.schedules)
def test_every_schedule_of_a_target_can_be_written(schedule):
    assert MINDFORMERS.can_run(plan(schedule))


def test_a_target_does_not_run_what_it_refuses_later():
    few = Plan(schedule="1f1b", num_microbatches=1, layers=((3, 3),))
    assert MINDFORMERS.write(few)
    assert not MINDFORMERS.can_run(few)
