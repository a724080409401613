"""Questions of requests: their ranges, and functions that take a request's fields."""

import inspect
from dataclasses import dataclass, field, fields

import pytest

import evenflow
from evenflow.asking import asked, asked_as, check_fields, question_of, takes
from evenflow.errors import InputError
from evenflow.ranges import RANKS
from evenflow.solve.requests import AnyOrderRequest, BestRequest, PlanRequest, TargetRequest
from tests.networks import plain_network


@dataclass(frozen=True, kw_only=True)
class Parcel:
    """A request of two fields, one of which is asked for."""

    name: str = field(kw_only=False)
    weight: int | None = field(default=1, metadata=asked(RANKS, option="--weight"))

    def __post_init__(self) -> None:
        check_fields(self)


@takes(Parcel)
def described(parcel: Parcel) -> str:
    """Return name and weight."""
    return f"{parcel.name}: {parcel.weight}"


def test_a_function_of_a_request_takes_its_fields():
    assert described("book", weight=3) == "book: 3"
    assert described(name="book") == "book: 1"
    assert str(inspect.signature(described)) == "(name: str, *, weight: int | None = 1) -> str"
    assert described.__doc__ == "Return name and weight."


def test_an_unknown_keyword_is_refused():
    with pytest.raises(TypeError, match="wieght"):
        described("book", wieght=3)


@pytest.mark.parametrize("weight", [0, 1.5, True, 10_001])
def test_a_number_outside_of_its_range_is_refused_with_its_name(weight):
    with pytest.raises(InputError, match="weight must be an integer from 1 to 10,000"):
        described("book", weight=weight)


def test_none_is_no_number():
    assert Parcel("book", weight=None).weight is None


def test_a_changed_question_leaves_the_first_as_it_is():
    first = asked(RANKS, option="--weight", help="Weight.")
    (question,) = asked_as(first, help="Weight of one.").values()
    assert (question.option, question.help, question.within) == ("--weight", "Weight of one.", RANKS)
    assert next(iter(first.values())).help == "Weight."


@pytest.mark.parametrize(
    ("function", "request_type"),
    [
        (evenflow.plan, PlanRequest),
        (evenflow.plan_best, BestRequest),
        (evenflow.plan_any_order, AnyOrderRequest),
        (evenflow.plan_for_target, TargetRequest),
    ],
)
def test_the_keywords_of_a_planner_are_the_fields_of_its_request(function, request_type):
    assert set(inspect.signature(function).parameters) == {field.name for field in fields(request_type)}
    assert next(iter(inspect.signature(function).parameters)) == "network"
    asks = {field.name for field in fields(request_type) if question_of(field)}
    assert asks >= {"num_ranks", "num_microbatches", "sequence_splits", "memory_limit_bytes", "time_limit_s"}


@pytest.mark.parametrize("seconds", [0, -1, float("nan")])
def test_a_time_limit_outside_of_its_range_is_refused(seconds):
    with pytest.raises(InputError, match="time_limit_s must be a number above zero"):
        evenflow.plan(plain_network(4), num_ranks=2, num_microbatches=2, time_limit_s=seconds)
