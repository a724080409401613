import pytest

from evenflow.errors import InputError
from evenflow.export.targets import MINDFORMERS, TARGETS, target_named
from evenflow.model import Plan


def plan(schedule: str) -> Plan:
    return Plan(schedule=schedule, num_microbatches=4, layers=((3, 3),))


def test_a_target_is_found_by_its_name():
    assert all(target_named(name) is target for name, target in TARGETS.items())


def test_an_unknown_target_is_refused_with_the_known_ones():
    with pytest.raises(InputError, match=r"target must be one of mindformers, got 'mindformer'"):
        target_named("mindformer")


def test_a_target_expresses_what_it_can_write():
    assert MINDFORMERS.can_express(plan("1f1b"))
    assert not MINDFORMERS.can_express(plan("zb-h1"))
    assert MINDFORMERS.write(plan("1f1b")).startswith("To put in yaml configuration:")


@pytest.mark.parametrize("schedule", MINDFORMERS.schedules)
def test_every_schedule_of_a_target_can_be_written(schedule):
    assert MINDFORMERS.can_express(plan(schedule))
