"""What free shardings could gain over degrees, as text."""

from collections.abc import Iterator

from evenflow.cli.text.display_width import wrapped
from evenflow.cli.text.tables import aligned
from evenflow.cli.text.tune.explain_text import WIDTH, gigabytes, ms
from evenflow.language import _
from evenflow.tune.answers.two_level import TwoLevel, TwoLevelStep
from evenflow.tune.candidate import Candidate


def two_level_text(found: TwoLevel, one: Candidate | None, *, command: str) -> str:
    """Return the plans side by side, what could be gained, and what the steps are not; or why there is no answer.

    `one` is the row whose degrees they are, and `command` what plans freely again.
    """
    best, free = found.best_degrees, found.free
    if best is None or free is None or found.degrees is None or one is None:
        return "\n".join(wrapped(_("--refine auto has no answer: {reason}", reason=found.reason), WIDTH))
    title = _(
        "shardings of every operator beside degrees, all planned by `evenflow auto` at the costs of single operators"
    )
    named = [
        (_("degrees of #{row}", row=found.row), found.degrees),
        *([] if best is found.degrees else [(_("best degrees there"), best)]),
        (_("every operator freely"), free),
    ]
    header = ["", _("step ms"), "%", _("microbatches"), _("schedule"), _("peak GB")]
    table = aligned(header, [_row(name, step, found.degrees) for name, step in named], left={0, 4})
    sentences = [f"{name}: {step.words}" for name, step in named] + list(_sentences(found, one))
    return "\n".join([title, table, *(line for each in sentences for line in wrapped(each, WIDTH)), command])


def _row(name: str, step: TwoLevelStep, first: TwoLevelStep) -> list[str]:
    return [
        name,
        ms(step.step_ns),
        f"{100 * (step.step_ns / first.step_ns - 1) + 0.0:+.1f}",
        _("{count:,} of {size:,}", count=step.num_microbatches, size=step.microbatch),
        step.schedule,
        gigabytes(step.peak_bytes),
    ]


def _sentences(found: TwoLevel, one: Candidate) -> Iterator[str]:
    """Yield what could be gained, and what these steps are not."""
    if found.gain:
        yield _("a free sharding could still gain {share:.1f} % over the best degrees", share=100 * found.gain)
    else:
        yield _("no free sharding was found that is faster than the best degrees")
    if found.most_gain is not None:
        yield _("no plan at all could gain more than {share:.1f} %", share=100 * found.most_gain)
    if found.row > 1:
        yield _("the degrees of the rows before #{row} are not among the plain plans of `evenflow auto`", row=found.row)
    yield _(
        "the ranking has {step} ms for #{row}, with fused operators and what the framework overlaps: these steps "
        "compare with one another, not with it",
        step=ms(one.step_ns),
        row=found.row,
    )
    yield _("to plan freely for longer:")
