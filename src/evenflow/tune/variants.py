"""The variants of a configuration's inner problem: the ways in which cells recompute, and the sizes of groups."""

from dataclasses import dataclass, replace

from evenflow.model import NONE, Abilities, Request
from evenflow.predict.training import Training
from evenflow.solve.for_target import group_sizes_for
from evenflow.solve.group_choice import tried_group_sizes
from evenflow.solve.recompute_ways import RecomputeWay, recompute_ways
from evenflow.tune.axes import schedule_of
from evenflow.tune.candidate import Pricing
from evenflow.tune.question import TuningQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class Variants:
    """The ways to recompute and the group sizes that plans of a configuration may combine."""

    ways: tuple[RecomputeWay, ...]
    group_sizes: tuple[int | None, ...]
    """None: as many microbatches as fill the pipeline."""


def variants_of(pricing: Pricing, training: Training, request: Request) -> Variants:
    """Return the ways to recompute, each with all of `group_sizes_of`."""
    question = pricing.question
    ways: tuple[RecomputeWay, ...] = (RecomputeWay(rule=pricing.cell_rule),)
    if question.abilities is not None:
        own = question.abilities.under(schedule_of(training))
        ways = recompute_ways(request, _allowed(own, question.recompute))
    return Variants(ways=ways, group_sizes=group_sizes_of(question, training, request))


def group_sizes_of(question: TuningQuestion, training: Training, request: Request) -> tuple[int | None, ...]:
    """Return the sizes of groups that a configuration may have: the user's alone, else the usual and a promising one.

    Promising is the size that keeps the fewest activations while the pipeline stays full. There is none where the
    framework can run none.
    """
    if training.group_size is not None:
        return (training.group_size,)
    schedule = schedule_of(training)
    # Without messages: which size hides them best is found out by simulating all of them.
    plain = replace(request, communication=None, group_size=None)
    if question.abilities is None:
        return tried_group_sizes(plain, schedule, which="promising")
    return tuple(group_sizes_for(plain, schedule, question.abilities, which="promising"))


def _allowed(abilities: Abilities, kind: str | None) -> Abilities:
    """Return the abilities limited to one way of recomputing; None keeps all."""
    if kind is None:
        return abilities
    ways = [replace(way, kinds=(kind,)) for way in abilities.recomputation if kind != NONE and kind in way.kinds]
    return replace(abilities, recomputation=tuple(ways))
