"""What vendors publish for a model: planned whatever its turn, and where it stands."""

from dataclasses import replace

import pytest

from evenflow.tune import recipes
from evenflow.tune.answers.vendor import published_standings
from evenflow.tune.recipes import RECIPES, VendorRecipe, recipes_for
from evenflow.tune.search import search
from tests.tune.questions import question

ASKED = replace(question(), memory_limit_bytes=24 * 2**30)
SLOW = VendorRecipe(model="small", hidden=2048, layers=8, accelerator="h100", tensor=4, pipeline=2)
"""Nobody would look at it for a model as small as this: its bound is far above the best step."""


@pytest.fixture
def published(monkeypatch: pytest.MonkeyPatch) -> None:
    others = (replace(SLOW, tensor=3), replace(SLOW, tensor=8, pipeline=1), replace(SLOW, accelerator="b200"))
    monkeypatch.setattr(recipes, "RECIPES", (SLOW, *others))


@pytest.mark.usefixtures("published")
def test_a_recipe_is_planned_whatever_its_turn() -> None:
    tuned = search(ASKED, rows=1, time_limit_s=4)
    slow, refused = published_standings(tuned)  # not the one of 3 ways, of which 8 are no multiple, nor another device
    assert tuned.best is not None
    assert slow.recipe is SLOW
    assert slow.candidate is not None
    assert slow.candidate.split != tuned.best.split
    assert slow.candidate.step_ns > tuned.best.step_ns
    assert slow.outside is None
    assert (refused.candidate, refused.training.degrees.tensor) == (None, 8)
    assert refused.outside is not None
    assert refused.outside.place == "tensor"


def test_without_a_recipe_nothing_is_said() -> None:
    assert recipes_for(ASKED) == ()
    assert list(published_standings(search(ASKED, rows=1, time_limit_s=1))) == []


def test_no_recipe_is_there_twice() -> None:
    assert len({*RECIPES}) == len(RECIPES)
