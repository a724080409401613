"""Where what vendors publish for a model stands in a ranking."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

from evenflow.errors import InputError
from evenflow.predict.training import Training
from evenflow.tune.answers.standing import outside_space
from evenflow.tune.axes import schedule_of
from evenflow.tune.candidate import Candidate
from evenflow.tune.question import TuningQuestion
from evenflow.tune.recipes import VendorRecipe, recipes_for
from evenflow.tune.tuned import Tuned


@dataclass(frozen=True, kw_only=True)
class PublishedStanding:
    """A published recipe on the devices of a ranking."""

    recipe: VendorRecipe
    training: Training
    candidate: Candidate | None
    """With the best plan known of its degrees; None where none is known that fits."""
    outside: InputError | None
    """What of it is not in the space; None where it is."""


def published_standings(tuned: Tuned) -> Iterator[PublishedStanding]:
    """Yield the recipes for the model and accelerator that the number of devices allows, as the search planned them."""
    for recipe in recipes_for(tuned.question):
        training = recipe_training(recipe, tuned.question)
        if training is None:
            continue
        own = [one for one in tuned.made if recipe.is_of(one.training) and one.found is not None]
        best = min(own, key=lambda candidate: candidate.step_ns, default=None)
        outside = None if own else outside_space(tuned.question, training)
        yield PublishedStanding(recipe=recipe, training=training, candidate=best, outside=outside)


def recipe_training(recipe: VendorRecipe, question: TuningQuestion) -> Training | None:
    """Return a recipe on all devices of a question; None where they are no multiple of its own."""
    whole = question.on_all_devices
    data, rest = divmod(question.devices, recipe.tensor * recipe.context * recipe.pipeline)
    if rest:
        return None
    degrees = replace(
        whole.degrees, tensor=recipe.tensor, context=recipe.context, expert=recipe.expert, pipeline=recipe.pipeline,
        chunks=recipe.chunks, data=data,
    )  # fmt: skip
    whole = replace(whole, degrees=degrees, microbatch=recipe.microbatch)
    return replace(whole, schedule=schedule_of(whole))
