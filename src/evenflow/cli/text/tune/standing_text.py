"""Where what the user runs stands in a ranking of degrees, as text."""

from collections.abc import Iterator

from evenflow.cli.text.chance_text import chance_words
from evenflow.cli.text.display_width import text_width, wrapped
from evenflow.cli.text.tune.explain_text import change_words, gigabytes, ms, why
from evenflow.language import _
from evenflow.predict.memory import fit_probability
from evenflow.tune.answers.explain import difference
from evenflow.tune.answers.standing import Standing
from evenflow.tune.candidate import Candidate


def standing_text(first: Candidate | None, yours: Standing, *, file: str) -> str:
    """Return the rank of the training in a file, why it is not the first, and what keeps it out of the space."""
    return "\n".join(line for sentence in _sentences(first, yours, file) for line in wrapped(sentence, text_width()))


def rank_words(yours: Standing) -> str:
    """Return its rank: ``rank 41 of 212``, or ``rank 41 to 44 of 212`` where bounds leave it open."""
    values = {"rank": f"{yours.rank:,}", "of": f"{yours.of:,}"}
    if yours.rank == yours.last_rank:
        return _("rank {rank} of {of}", **values)
    return _("rank {rank} to {last} of {of}", last=f"{yours.last_rank:,}", **values)


def _sentences(first: Candidate | None, yours: Standing, file: str) -> Iterator[str]:
    candidate = yours.candidate
    assert candidate.found is not None
    if first is not None:
        gap = difference(first, candidate)
        values = {"rank": rank_words(yours), "file": file, "share": f"{100 * abs(gap.share):.1f}", "why": why(gap)}
        values["changes"] = change_words(gap.changes)
        if gap.more_ns >= 0:
            yield _("yours ({file}): {rank}; {share} % slower than #1: {why}", **values)
        else:
            yield _("yours ({file}): {rank}; {share} % faster than #1: {why}", **values)
        yield _("it has {changes}", **values)
    if not yours.fits:
        limit, held = candidate.pricing.question.memory_limit_bytes, max(candidate.found.rank_bytes)
        if held > limit:
            yield _(
                "yours does not fit in memory: {held} GB on the fullest rank, {over} GB above the limit",
                held=gigabytes(held),
                over=gigabytes(held - limit + 2**30 // 20),
            )
        elif candidate.prediction is not None:
            percent = chance_words(fit_probability(candidate.prediction.memory, limit))
            yield _("yours fits with a probability of {percent} %, less than --confidence asks for", percent=percent)
    if yours.outside is not None:
        yield _("yours is not in the space: {reason}", reason=yours.outside.sentence)
    elif yours.improved is not None and yours.improved.step_ns < candidate.step_ns:
        yield _(
            "the degrees of yours with the layers and recomputation that are best take {step} ms, {share:.1f} % less",
            step=ms(yours.improved.step_ns),
            share=100 * (1 - yours.improved.step_ns / candidate.step_ns),
        )
