"""Measured steps as text: how their actions were told, their idle time, and the prediction minus what was measured."""

from collections.abc import Sequence

from evenflow.cli.text.tables import aligned
from evenflow.language import _, _n
from evenflow.report.differences import StepDifference, differences
from evenflow.report.shown import Kind, Shown
from evenflow.units import milliseconds

_MOST_ROWS = 32
_MOST_ACTIONS = 3


def measured_text(timelines: Sequence[Shown]) -> str:
    """Return a paragraph for each measured step, and one for each that has a prediction; empty of predictions alone."""
    paragraphs = [_step(timeline) for timeline in timelines if timeline.kind == Kind.MEASURED]
    paragraphs += [_difference(pair) for pair in differences(timelines)]
    return "\n\n".join(paragraphs)


def _step(timeline: Shown) -> str:
    """Return how a step was read, and where the time of its ranks goes."""
    lines = [_("{name}:", name=timeline.name), *(f"  {note}" for note in timeline.notes)]
    waiting = timeline.rank_waiting_ns
    if waiting is not None and timeline.makespan_ns:
        rows = []
        for rank, (busy_ns, waited_ns) in enumerate(zip(timeline.busy_ns.tolist(), waiting.tolist(), strict=True)):
            parts = (busy_ns, timeline.makespan_ns - busy_ns - waited_ns, waited_ns)
            rows.append([str(rank), *(f"{100 * part / timeline.makespan_ns:.1f}" for part in parts)])
        header = [_("rank"), _("working %"), _("communication %"), _("waiting %")]
        lines.append(aligned(header, rows[:_MOST_ROWS]))
        if timeline.exposed_ns is not None:
            lines.append(
                _(
                    "exchanges of tokens with nothing computed beside them: up to {time:,.3f} ms of a rank",
                    time=milliseconds(max(timeline.exposed_ns)),
                )
            )
        if len(rows) > _MOST_ROWS:
            lines.append(_n("{count} rank more", "{count} ranks more", count=len(rows) - _MOST_ROWS))
    return "\n".join(lines)


def _difference(pair: StepDifference) -> str:
    predicted_ns, measured_ns = pair.predicted.makespan_ns, pair.measured.makespan_ns
    lines = [
        _(
            "{predicted} minus {measured}: {difference:+,.3f} ms of {step:,.3f} ms",
            predicted=pair.predicted.name,
            measured=pair.measured.name,
            difference=milliseconds(predicted_ns - measured_ns),
            step=milliseconds(measured_ns),
        )
    ]
    rows = [
        [
            str(kind.stage),
            kind.op.name,
            f"{milliseconds(kind.predicted_ns) / kind.count:,.3f}",
            f"{milliseconds(kind.measured_ns) / kind.count:,.3f}",
            f"{milliseconds(kind.predicted_ns - kind.measured_ns) / kind.count:+,.3f}",
        ]
        for kind in pair.by_kind
    ]
    header = [_("stage"), _("action"), _("predicted ms"), _("measured ms"), _("difference")]
    lines.append(aligned(header, rows[:_MOST_ROWS], left=(1,)))
    if len(rows) > _MOST_ROWS:
        lines.append(_("{count} rows more: --json has all, and every action", count=len(rows) - _MOST_ROWS))
    changes = (pair.taken_ns[0] - pair.taken_ns[1]).tolist()
    largest = sorted(range(len(changes)), key=lambda index: -abs(changes[index]))[:_MOST_ACTIONS]
    farthest = ", ".join(f"{pair.actions[index]} {milliseconds(changes[index]):+,.3f} ms" for index in largest)
    if farthest:
        lines.append(_("actions that differ most: {actions}", actions=farthest))
    if pair.alone:
        lines.append(
            _n(
                "{count} action is in one of the two alone",
                "{count} actions are in one of the two alone",
                count=pair.alone,
            )
        )
    return "\n".join(lines)
