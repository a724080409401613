"""What would make something fit: the numbers are tried by asking again with them."""

from dataclasses import replace

from evenflow.solve.time_left import TimeLeft
from evenflow.tune.answers.infeasible import needed
from evenflow.tune.axes import Axis
from evenflow.tune.search import search
from tests.tune.questions import device_of
from tests.tune.test_search import small


def test_with_the_memory_and_with_the_devices_that_are_named_something_fits() -> None:
    asked = small(memory_limit_bytes=2**30, fixed={Axis.ZERO: 1})
    assert search(asked, time_limit_s=20, rows=1).best is None
    answer = needed(asked, TimeLeft.of(20))
    assert answer.memory_bytes is not None
    assert asked.memory_limit_bytes < answer.bytes_at_least <= answer.memory_bytes
    enough = replace(asked, memory_limit_bytes=answer.memory_bytes)
    assert search(enough, time_limit_s=20, rows=1).best is not None
    short = replace(asked, memory_limit_bytes=answer.bytes_at_least)
    assert search(short, time_limit_s=20, rows=1).best is None


def test_more_devices_where_the_state_is_what_does_not_fit() -> None:
    asked = small(memory_limit_bytes=device_of(3), fixed={Axis.ZERO: 1}, devices=2)
    assert search(asked, time_limit_s=20, rows=1).best is None
    answer = needed(asked, TimeLeft.of(20))
    assert answer.devices is not None
    assert answer.devices > 2
    assert search(replace(asked, devices=answer.devices), time_limit_s=20, rows=1).best is not None


def test_a_model_that_fits_nowhere_has_no_number_of_devices() -> None:
    answer = needed(small(memory_limit_bytes=2**20), TimeLeft.of(10))
    assert answer.devices is None
