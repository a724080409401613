"""Where what the user runs stands, in words."""

from dataclasses import replace

from evenflow.cli.text.tune.standing_text import standing_text
from evenflow.errors import InputError
from evenflow.predict.prediction import PartTime
from evenflow.predict.work import Spent
from evenflow.tune.answers.standing import Standing
from tests.tune.answers.test_explain import candidate


def parts(tensor_ms: float, again_ms: float) -> list[PartTime]:
    return [
        PartTime(name=Spent.PRODUCTS, exposed_ns=(100 + again_ms) * 1e6, recomputed_ns=again_ms * 1e6),
        PartTime(name=Spent.TENSOR, exposed_ns=tensor_ms * 1e6),
    ]


FIRST = candidate(parts(0, 10))
YOURS = Standing(
    candidate=candidate(parts(25, 0), tensor=4, held=9 * 2**30),
    rank=41, last_rank=41, of=212, outside=None, improved=candidate(parts(15, 0), tensor=4),
)  # fmt: skip


def test_a_rank_with_its_reasons() -> None:
    lines = standing_text(FIRST, YOURS, file="run.sh").splitlines()
    assert " ".join(lines[:2]) == (
        "yours (run.sh): rank 41 of 212; 13.6 % slower than #1: it costs 25.0 ms of tensor-parallel communication "
        "(tensor 4), and saves 10.0 ms of recomputation"
    )
    assert lines[2:] == [
        "it has tensor 4 instead of 1, data 2 instead of 8",
        "the degrees of yours with the layers and recomputation that are best take 115.0 ms, 8.0 % less",
    ]


def test_a_rank_that_is_open_and_what_is_not_in_the_space() -> None:
    outside = InputError(value=4, rule="must be at most 2", place="tensor")
    text = standing_text(FIRST, replace(YOURS, last_rank=44, outside=outside, improved=None), file="run.sh")
    assert "rank 41 to 44 of 212" in text
    assert text.splitlines()[-1] == "yours is not in the space: tensor must be at most 2, got 4"


def test_what_does_not_fit() -> None:
    one = candidate(parts(25, 0), tensor=4, held=18 * 2**30)
    text = standing_text(FIRST, replace(YOURS, candidate=one), file="run.sh")
    assert "yours does not fit in memory: 18.0 GB on the fullest rank, 2.0 GB above the limit" in text
