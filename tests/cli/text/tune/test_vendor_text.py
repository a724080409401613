"""What vendors publish, in words."""

from dataclasses import replace

import pytest

from evenflow.cli.text.tune.vendor_text import vendor_text
from evenflow.errors import InputError
from evenflow.tune.answers.vendor import PublishedStanding
from evenflow.tune.candidate import Candidate
from evenflow.tune.recipes import VendorRecipe
from evenflow.tune.search import search
from tests.tune.answers.test_vendor import ASKED

RECIPE = VendorRecipe(model="small", hidden=2048, layers=8, accelerator="h100", tensor=4, pipeline=2)
NAME = "NVIDIA's recipe for small (tensor 1, pipeline 1, data 8, microbatch 1)"


@pytest.fixture(scope="module")
def first() -> Candidate:
    best = search(ASKED, rows=1, time_limit_s=2).best
    assert best is not None
    return best


def said(first: Candidate | None, **changes: object) -> str:
    standing = PublishedStanding(recipe=RECIPE, training=ASKED.on_all_devices, candidate=first, outside=None)
    return " ".join(vendor_text(first, [replace(standing, **changes)]).split())


def longer(first: Candidate, by: float) -> Candidate:
    """Another row, of which a step takes so many times as long."""
    assert first.found is not None
    training = replace(first.training, microbatch=2 * first.training.microbatch)
    return replace(first, training=training, found=replace(first.found, step_ns=by * first.found.step_ns))


def test_how_much_longer_it_takes(first: Candidate) -> None:
    step = f"{first.step_ns * 1.5 / 1e6:,.1f}"
    assert said(first, candidate=longer(first, 1.5)) == (
        f"{NAME} takes {step} ms with the best layers for it, 50.0 % more than #1"
    )
    assert said(first, candidate=longer(first, 1.01)).endswith("1.0 % more than #1: not told apart")
    assert said(first, candidate=longer(first, 0.99)).endswith("1.0 % less than #1, which is simpler")


def test_that_it_is_the_first(first: Candidate) -> None:
    assert said(first) == f"{NAME} is #1"


def test_that_it_cannot_be(first: Candidate) -> None:
    assert said(first, candidate=None) == f"{NAME}: no plan was found that fits in memory"
    outside = InputError(value=8, rule="must be at most 4", place="tensor")
    assert said(first, candidate=None, outside=outside).endswith("is not in the space: tensor must be at most 4, got 8")
