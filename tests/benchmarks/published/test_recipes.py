"""Recipes: their rows, and the table of a choice beside one of them."""

from pathlib import Path

import pytest
from benchmarks.published.recipes import RECIPES, Recipe, compare

from benchmarks.published import recipes
from evenflow.predict.limits.checks import check_training
from evenflow.profiles.measured.as_training import training_of
from evenflow.profiles.measured.reading import read_runs
from evenflow.tune import recipes as published_recipes
from evenflow.tune.recipes import VendorRecipe


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_tune_shows_the_same_recipes(recipe: Recipe) -> None:
    training, topology = training_of(recipe.run)
    name = topology.accelerator.name
    published = [one for one in published_recipes.RECIPES if one.is_for(training.model, name)]
    assert any(one.is_of(training) for one in published)


@pytest.mark.parametrize("own", [own for own in published_recipes.RECIPES if own.source == "Megatron-Bridge"])
def test_every_recipe_of_the_bridge_is_a_published_run(own: VendorRecipe) -> None:
    runs = read_runs(Path(recipes.__file__).parent / "data" / "megatron_bridge.csv")
    sizes = own.hidden, own.layers, own.accelerator
    split = own.tensor, own.context, own.expert, own.pipeline, own.chunks, own.microbatch
    assert any(
        sizes == (run.hidden, run.layers, run.hardware) and split == (run.tp, run.cp, run.ep, run.pp, run.vpp, run.mbs)
        for run in runs
    )


@pytest.mark.parametrize("recipe", RECIPES, ids=lambda recipe: recipe.name)
def test_recipes_are_trainings_on_all_of_their_devices(recipe: Recipe) -> None:
    run = recipe.run
    training, topology = training_of(run)
    assert training.degrees.devices == run.gpus
    assert training.microbatches * training.microbatch * training.degrees.data == training.global_batch
    check_training(training, topology.accelerator)
    assert not run.lacks


def test_the_choice_is_never_predicted_to_be_slower_than_a_recipe_of_the_space() -> None:
    recipe = next(one for one in RECIPES if one.name == "Llama 3.1 8B")
    found = compare(recipe, time_limit_s=10)
    best = found.tuned.best
    assert best is not None
    assert best.step_ns <= found.recipe.step_ns
    assert best.training.degrees.devices == found.recipe.training.degrees.devices == 8
    lines = recipes.table([found]).splitlines()
    assert lines[1].startswith("Llama 3.1 8B")
    assert "9.07" in lines[1]
    assert lines[2].startswith("8 x")
    (reason,) = recipes.reasons([found]).splitlines()
    assert reason.startswith("Llama 3.1 8B: ")
    assert reason.count("of the recipe's step") == 2
