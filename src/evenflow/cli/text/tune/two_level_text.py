"""What free shardings could gain over degrees, as text."""

from collections.abc import Iterator

from evenflow.cli.text.display_width import text_width, wrapped
from evenflow.cli.text.tables import aligned
from evenflow.cli.text.tune.explain_text import gigabytes, ms
from evenflow.language import _
from evenflow.tune.answers.two_level import TwoLevel, TwoLevelStep
from evenflow.tune.candidate import Candidate


def two_level_text(answer: TwoLevel, candidate: Candidate | None, *, command: str) -> str:
    """Return the two-level plans side by side, with what could be gained; or why there is no answer.

    `candidate` is the row whose degrees they are, and `command` what plans freely again.
    """
    best, free = answer.best_degrees, answer.free
    if best is None or free is None or answer.degrees is None or candidate is None:
        return "\n".join(wrapped(_("--refine auto has no answer: {reason}", reason=answer.reason), text_width()))
    title = _(
        "shardings of every operator beside degrees, all planned by `evenflow auto` at the costs of single operators"
    )
    named = [
        (_("degrees of #{row}", row=answer.row), answer.degrees),
        *([] if best is answer.degrees else [(_("best degrees there"), best)]),
        (_("every operator freely"), free),
    ]
    header = ["", _("step ms"), "%", _("microbatches"), _("schedule"), _("peak GB")]
    table = aligned(header, [_row(name, step, answer.degrees) for name, step in named], left={0, 4}, leaving=(3, 4))
    sentences = [f"{name}: {step.description}" for name, step in named] + list(_sentences(answer, candidate))
    return "\n".join(
        [title, table, *(line for sentence in sentences for line in wrapped(sentence, text_width())), command]
    )


def _row(name: str, step: TwoLevelStep, first: TwoLevelStep) -> list[str]:
    return [
        name,
        ms(step.step_ns),
        f"{100 * (step.step_ns / first.step_ns - 1) + 0.0:+.1f}",
        _("{count:,} of {size:,}", count=step.num_microbatches, size=step.microbatch),
        step.schedule,
        gigabytes(step.peak_bytes),
    ]


def _sentences(answer: TwoLevel, candidate: Candidate) -> Iterator[str]:
    """Yield sentences on what free shardings could gain, and on what these step times can be compared with."""
    if answer.gain:
        yield _("a free sharding could still gain {share:.1f} % over the best degrees", share=100 * answer.gain)
    else:
        yield _("no free sharding was found that is faster than the best degrees")
    if answer.most_gain is not None:
        yield _("no plan at all could gain more than {share:.1f} %", share=100 * answer.most_gain)
    if answer.row > 1:
        yield _(
            "the degrees of the rows before #{row} are not among the plain plans of `evenflow auto`", row=answer.row
        )
    yield _(
        "the ranking has {step} ms for #{row}, with fused operators and what the framework overlaps: these steps "
        "compare with one another, not with it",
        step=ms(candidate.step_ns),
        row=answer.row,
    )
    yield _("to plan freely for longer:")
