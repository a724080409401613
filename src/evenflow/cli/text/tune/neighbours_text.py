"""What is one step away from a configuration, as text."""

from collections.abc import Sequence

from evenflow.cli.text.display_width import text_width, wrapped
from evenflow.cli.text.tables import aligned
from evenflow.cli.text.tune.explain_text import gigabytes, ms
from evenflow.language import _
from evenflow.tune.answers.explain import changes_between
from evenflow.tune.answers.neighbours import Neighbour
from evenflow.tune.axes import value_of
from evenflow.tune.candidate import Candidate


def neighbours_text(chosen: Candidate, neighbours: Sequence[Neighbour]) -> str:
    """Return a table of what each step would cost, and of why some cannot be made."""
    title = _("one step away from #1 on each axis, with the layers and recomputation that are best there")
    rows = [row for neighbour in neighbours if (row := _row(chosen, neighbour)) is not None]
    header = [_("axis"), _("now"), _("then"), _("step ms"), _("more ms"), "%", _("peak GB"), _("with it")]
    table = aligned(header, rows, left={0, len(header) - 1}, leaving=(4,))
    reasons = [line for neighbour in neighbours for line in _reason(neighbour)]
    untried = ", ".join(
        f"{neighbour.axis} {neighbour.value}"
        for neighbour in neighbours
        if neighbour.candidate is None and neighbour.refusal is None
    )
    if untried:
        reasons += wrapped(_("not solved for, the time was over: {what}", what=untried), text_width())
    return "\n".join([*wrapped(title, text_width()), *([table] if rows else []), *reasons])


def _row(chosen: Candidate, neighbour: Neighbour) -> list[str] | None:
    """Return a neighbour's row of the table; None where it has no plan."""
    candidate = neighbour.candidate
    if candidate is None or candidate.found is None:
        return None
    more_ns = candidate.step_ns - chosen.step_ns
    return [
        str(neighbour.axis),
        str(value_of(chosen.training, neighbour.axis)),
        str(neighbour.value),
        ms(candidate.step_ns),
        f"{more_ns / 1e6 + 0.0:+,.1f}",
        f"{100 * more_ns / chosen.step_ns + 0.0:+.1f}",
        gigabytes(max(candidate.found.rank_bytes)),
        ", ".join(
            f"{change.axis} {change.other}"
            for change in changes_between(chosen, candidate)
            if change.axis != neighbour.axis
        ),
    ]


def _reason(neighbour: Neighbour) -> list[str]:
    """Return lines on why a neighbour has no plan; none where it has one."""
    name = f"{neighbour.axis} {neighbour.value}"
    if neighbour.refusal is not None:
        refusal = neighbour.refusal
        return wrapped(
            _("{name} cannot be: {place} {rule}", name=name, place=refusal.place, rule=refusal.rule), text_width()
        )
    if neighbour.candidate is None or neighbour.candidate.found is not None:
        return []
    if neighbour.missing_bytes is None:
        return wrapped(_("{name}: no plan was found in the time given", name=name), text_width())
    missing = gigabytes(neighbour.missing_bytes + 2**30 // 20)  # never 0.0
    return wrapped(
        _("{name} does not fit: {missing} GB of memory are missing", name=name, missing=missing), text_width()
    )
