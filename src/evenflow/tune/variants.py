"""The variants of a configuration's inner problem: the ways in which cells recompute, and the sizes of groups."""

from dataclasses import dataclass, replace

from evenflow.model import NONE, Abilities, Request
from evenflow.predict.training import Training
from evenflow.solve.for_target import group_sizes_for
from evenflow.solve.group_choice import tried_group_sizes
from evenflow.solve.recompute_ways import RecomputeWay, recompute_ways
from evenflow.tune.axes import schedule_of
from evenflow.tune.candidate import Pricing


@dataclass(frozen=True, slots=True, kw_only=True)
class Variants:
    """What plans of a configuration may be: every way with every group size."""

    ways: tuple[RecomputeWay, ...]
    group_sizes: tuple[int | None, ...]
    """None: as many microbatches as fill the pipeline."""


def variants_of(pricing: Pricing, training: Training, request: Request) -> Variants:
    """Return the variants: of the user's group size alone where there is one, else the usual and a promising one.

    Promising is the size that keeps the fewest activations while the pipeline stays full. There are no group sizes
    where the framework can run none.
    """
    question, schedule = pricing.question, schedule_of(training)
    # Without messages: which size hides them best is found out by simulating all of them.
    plain = replace(request, communication=None, group_size=None)
    if question.abilities is None:
        ways: tuple[RecomputeWay, ...] = (RecomputeWay(rule=pricing.cell_rule),)
        sizes = tried_group_sizes(plain, schedule, which="promising")
    else:
        ways = recompute_ways(request, _allowed(question.abilities, question.recompute))
        sizes = tuple(group_sizes_for(plain, schedule, question.abilities, which="promising"))
    if training.group_size is not None:
        sizes = (training.group_size,)
    return Variants(ways=ways, group_sizes=sizes)


def _allowed(abilities: Abilities, kind: str | None) -> Abilities:
    """Return the abilities with no kind of recomputation but `kind`; None: with all of theirs."""
    if kind is None:
        return abilities
    ways = [replace(way, kinds=(kind,)) for way in abilities.recomputation if kind != NONE and kind in way.kinds]
    return replace(abilities, recomputation=tuple(ways))
