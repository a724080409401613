"""Steps against memory, devices and changes, in words."""

from evenflow.cli.text.tune.pareto_text import devices_text, distance_text, memory_text, untried_text
from evenflow.predict.prediction import PartTime
from evenflow.predict.work import Spent
from evenflow.tune.answers.pareto import OnDevices
from evenflow.tune.tuned import Tuned
from tests.tune.answers.test_explain import candidate
from tests.tune.questions import question

FAST = candidate([PartTime(name=Spent.PRODUCTS, exposed_ns=100e6)], held=5 * 2**30)
SMALL = candidate([PartTime(name=Spent.PRODUCTS, exposed_ns=125e6)], tensor=4, held=3 * 2**30)


def test_memory() -> None:
    assert memory_text([FAST, SMALL]).splitlines() == [
        "step against memory: nothing that was solved is both as fast and as small",
        "peak GB  step ms      %  configuration",
        "    5.0    100.0   +0.0  tensor 1, pipeline 1, data 8, microbatch 1, ZeRO 1, 1f1b",
        "    3.0    125.0  +25.0  tensor 4, pipeline 1, data 2, microbatch 1, ZeRO 1, 1f1b",
    ]


def test_what_holds_as_much_as_it_is_printed_is_one_row() -> None:
    slower = candidate([PartTime(name=Spent.PRODUCTS, exposed_ns=110e6)], tensor=2, held=5 * 2**30 - 2**20)
    assert memory_text([FAST, slower, SMALL]) == memory_text([FAST, SMALL])


def test_what_there_was_no_time_for() -> None:
    assert untried_text([3 * 2**30], [4, 1]) == (
        "not solved for, the time was over: 3.0 GB of memory, 4 devices, 1 device"
    )


def test_devices_and_those_without_a_plan() -> None:
    tuned = Tuned(
        question=question(), ranked=(FAST,), made=(FAST,), excluded={}, reasons={}, lower_bound_ns=1.0,
        solve_seconds=1.0,
    )  # fmt: skip
    assert devices_text([OnDevices(devices=8, tuned=tuned)], [4, 2]).splitlines() == [
        "step against devices: the same batch on fewer of them",
        "devices  step ms     %  tokens/s each  configuration",
        "      8    100.0  +0.0      163,840.0  tensor 1, pipeline 1, data 8, microbatch 1, ZeRO 1, 1f1b",
        "nothing was found that fits on 4, 2 devices",
    ]


def test_changes() -> None:
    assert distance_text(SMALL, [SMALL, FAST]).splitlines()[1:] == [
        "changes  step ms      %  configuration",
        "      0    125.0   +0.0  the same degrees",
        "      1    100.0  -20.0  tensor 1, data 8",
    ]
