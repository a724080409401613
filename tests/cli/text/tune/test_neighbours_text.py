"""What one step away costs, in words."""

from dataclasses import replace

from evenflow.cli.text.tune.neighbours_text import neighbours_text
from evenflow.errors import InputError
from evenflow.predict.prediction import PartTime
from evenflow.predict.work import Spent
from evenflow.tune.answers.neighbours import Neighbour
from evenflow.tune.axes import Axis
from tests.tune.answers.test_explain import candidate

TEXT = """\
one step away from #1 on each axis, with the layers and recomputation that are best there
axis    now  then  step ms  more ms     %  peak GB  with it
tensor    1     2    110.0    +10.0  +10.0      4.0  data 4
pipeline 3 cannot be: pipeline must divide the 8 devices
microbatch 4 does not fit: 1.3 GB of memory are missing
zero 0: no plan was found in the time given"""


def test_a_table_and_the_reasons() -> None:
    chosen = candidate([PartTime(name=Spent.PRODUCTS, exposed_ns=100e6)], held=5 * 2**30)
    other = candidate([PartTime(name=Spent.PRODUCTS, exposed_ns=110e6)], tensor=2, held=4 * 2**30)
    without = replace(other, found=None)
    refusal = InputError(value=3, rule="must divide the 8 devices", place="pipeline")
    found = neighbours_text(
        chosen,
        [
            Neighbour(axis=Axis.TENSOR, value=2, candidate=other),
            Neighbour(axis=Axis.PIPELINE, value=3, refusal=refusal),
            Neighbour(axis=Axis.MICROBATCH, value=4, candidate=without, missing_bytes=5 * 2**28),
            Neighbour(axis=Axis.ZERO, value=0, candidate=without),
        ],
    )
    assert found.splitlines()[1:3] == [
        "axis    now  then  step ms  more ms      %  peak GB  with it",
        "tensor    1     2    110.0    +10.0  +10.0      4.0  data 4",
    ]
    assert found.splitlines()[3:] == TEXT.splitlines()[3:]


def test_what_there_was_no_time_for_is_named_once() -> None:
    chosen = candidate([PartTime(name=Spent.PRODUCTS, exposed_ns=100e6)], held=5 * 2**30)
    found = neighbours_text(chosen, [Neighbour(axis=Axis.TENSOR, value=2), Neighbour(axis=Axis.SCHEDULE, value="zbv")])
    assert found.splitlines()[1:] == ["not solved for, the time was over: tensor 2, schedule zbv"]
