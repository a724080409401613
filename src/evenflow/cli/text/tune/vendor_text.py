"""What vendors publish for a model, beside the first row of a ranking, as text."""

from collections.abc import Iterable

from evenflow.cli.text.display_width import text_width, wrapped
from evenflow.cli.text.tune.explain_text import ms
from evenflow.language import _
from evenflow.tune.answers.vendor import PublishedStanding
from evenflow.tune.candidate import Candidate
from evenflow.tune.error import uncertain_ns
from evenflow.tune.wording import split_words


def vendor_text(first: Candidate | None, standings: Iterable[PublishedStanding]) -> str:
    """Return a sentence for each published recipe: how much longer its step is than that of the first row."""
    return "\n".join(line for one in standings for line in wrapped(_sentence(first, one), text_width()))


def _sentence(first: Candidate | None, standing: PublishedStanding) -> str:
    recipe, candidate = standing.recipe, standing.candidate
    name = _(
        "{vendor}'s recipe for {model} ({split}, microbatch {microbatch})",
        vendor=recipe.vendor,
        model=recipe.model,
        split=split_words(standing.training),
        microbatch=recipe.microbatch,
    )
    if standing.outside is not None:
        return _("{name} is not in the space: {reason}", name=name, reason=standing.outside.sentence)
    if candidate is None or first is None:
        return _("{name}: no plan was found that fits in memory", name=name)
    if candidate.split == first.split and candidate.step_ns <= first.step_ns:
        return _("{name} is #1", name=name)
    more = candidate.step_ns / first.step_ns - 1
    values = {"name": name, "step": ms(candidate.step_ns), "share": f"{100 * abs(more):.1f}"}
    if more < 0:
        return _(
            "{name} takes {step} ms with the best layers for it, {share} % less than #1, which is simpler", **values
        )
    assert first.prediction is not None
    if candidate.step_ns - first.step_ns <= uncertain_ns(first.prediction):
        return _("{name} takes {step} ms with the best layers for it, {share} % more than #1: not told apart", **values)
    return _("{name} takes {step} ms with the best layers for it, {share} % more than #1", **values)
