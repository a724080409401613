"""Why a row is not the first, in words."""

from dataclasses import replace

from evenflow.cli.text.tune.explain_text import explain_text
from evenflow.predict.work import Spent
from evenflow.tune.answers.explain import COMPUTE, RECOMPUTATION, AxisChange, Difference, PartDifference
from evenflow.tune.axes import Axis

GB = 2**30
TENSOR = AxisChange(axis=Axis.TENSOR, first=4, other=8)
ONE = Difference(
    changes=(TENSOR, AxisChange(axis=Axis.DATA, first=4, other=2)),
    parts=(
        PartDifference(name=COMPUTE, first_ns=900_040_000, other_ns=900_040_000, cause=TENSOR),
        PartDifference(name=RECOMPUTATION, first_ns=100_040_000, other_ns=40_000_000),
        PartDifference(name=Spent.TENSOR, first_ns=50_040_000, other_ns=240_000_000, cause=TENSOR),
        PartDifference(name=Spent.CONTEXT, first_ns=0, other_ns=0),
    ),
    first_bytes=70 * GB,
    other_bytes=62 * GB,
    limit_bytes=80 * GB,
)
TEXT = """\
number 3 takes 129.9 ms longer than number 1 (12.4 %): tensor 8 instead of 4, data 2 instead of 4
exposed ms                     number 1  number 3  difference
compute                           900.0     900.0        +0.0
recomputation                     100.1      40.0       -60.1
tensor-parallel communication      50.0     240.0      +190.0
step ms                         1,050.1   1,180.0      +129.9
peak GB                            70.0      62.0        -8.0
free GB                            10.0      18.0        +8.0
it costs 190.0 ms of tensor-parallel communication (tensor 8), and saves 60.1 ms of recomputation
its fullest rank holds 62.0 GB, 8.0 GB less; 18.0 GB of 80.0 GB stay free"""


def test_a_row_and_the_first() -> None:
    assert explain_text(ONE, first="number 1", other="number 3") == TEXT


def test_what_cannot_be_told_apart_is_said_so() -> None:
    found = explain_text(ONE, first="number 1", other="number 3", is_tied=True)
    assert found == TEXT + "\nthe error of such a difference is larger: they cannot be told apart"


def test_the_columns_add_up_as_they_are_shown() -> None:
    rows = [line.split() for line in TEXT.splitlines()[2:6]]
    for column in (-3, -2, -1):
        *parts, step = (float(row[column].replace(",", "")) for row in rows)
        assert abs(sum(parts) - step) < 1e-9


def test_what_does_not_fit() -> None:
    lines = explain_text(replace(ONE, other_bytes=81 * GB), first="number 1", other="today").splitlines()
    assert lines[-1] == "it does not fit: 81.0 GB are 1.0 GB above the limit of 80.0 GB"
    assert lines[-3].split() == ["free", "GB", "10.0", "-1.0", "-11.0"]


def test_a_faster_one_and_an_equal_one() -> None:
    parts = tuple(replace(part, first_ns=part.other_ns, other_ns=part.first_ns) for part in ONE.parts)
    lines = explain_text(replace(ONE, parts=parts, changes=()), first="number 1", other="today").splitlines()
    assert lines[0] == "today takes 129.9 ms less than number 1 (11.0 %): the same degrees"
    assert lines[-2].startswith("it costs 60.1 ms of recomputation, and saves 190.0 ms of")
    same = tuple(replace(part, other_ns=part.first_ns) for part in ONE.parts)
    assert "no part of the step takes another time" in explain_text(
        replace(ONE, parts=same), first="number 1", other="today"
    )
