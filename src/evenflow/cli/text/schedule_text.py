"""Results of ``evenflow schedule`` as text and picture."""

from fractions import Fraction

from evenflow.baselines.equal_stages import idle_of_equal_stages, idle_shares, peak_live
from evenflow.cli.text.display_width import output_width
from evenflow.cli.text.tables import aligned
from evenflow.draw.plan_picture import timeline_svg
from evenflow.draw.text_grid import text_grid
from evenflow.export.results.schedule_fields import Formula
from evenflow.language import _, _n, looked_up, to_translate
from evenflow.schedule import Bubble, BubblePlace, Schedule
from evenflow.simulate import Simulation, idle_bubbles
from evenflow.simulate.even_layout import even_layout
from evenflow.units import milliseconds

_COLUMNS = {
    BubblePlace.START: to_translate("before"),
    BubblePlace.FORWARDS: to_translate("F to F"),
    BubblePlace.TURN: to_translate("F to B"),
    BubblePlace.RETURN: to_translate("B to F"),
    BubblePlace.BACKWARDS: to_translate("B to B"),
    BubblePlace.END: to_translate("after"),
}


def shown_text(simulation: Simulation, formula: Formula) -> str:
    """Return a family on equal stages: grid, bubbles, live activations."""
    paragraphs = [_headline(simulation), _grid(simulation)]
    paragraphs.append(f"{_step(simulation)}\n{_idle_note(simulation)}\n{bubble_table(simulation, formula)}")
    paragraphs.append(live_note(simulation))
    return "\n\n".join(paragraphs)


def checked_text(simulation: Simulation, *, place: str) -> str:
    """Return sizes, idle time and live activations of an order that is fine."""
    live = peak_live(simulation)
    idle = idle_shares(simulation)
    rows = [[str(rank), f"{100 * float(idle[rank]):.1f}", number(live[rank])] for rank in range(len(live))]
    return "\n\n".join(
        [
            _("{place}: complete, and it can finish", place=place),
            f"{_headline(simulation)}\n{_step(simulation)}",
            aligned([_("rank"), _("idle %"), _("peak live")], rows),
        ]
    )


def bubble_table(simulation: Simulation, formula: Formula) -> str:
    """Return idle time of every rank by place, ``formula | simulated`` in ms, and its live activations."""
    timeline = even_layout(simulation.timeline)
    simulated = [idle_bubbles(timeline, rank) for rank in range(len(formula))]
    places = [
        place for place in BubblePlace if any(bubble.place is place for bubbles in simulated for bubble in bubbles)
    ]
    live, idle = peak_live(simulation), idle_shares(simulation)
    rows = []
    for rank, bubbles in enumerate(simulated):
        pairs = (f"{_lengths(formula[rank], place)} | {_lengths(bubbles, place)}" for place in places)
        rows.append([str(rank), *pairs, f"{100 * float(idle[rank]):.1f}", number(live[rank])])
    header = [_("rank"), *(looked_up(_COLUMNS[place]) for place in places), _("idle %"), _("peak live")]
    text = [_("bubbles in ms, by formula | simulated:")]
    if any(bubbles is None for bubbles in formula):
        text.append(_("(? means no formula for these sizes and times)"))
    by_width = sorted(range(1, len(places) + 1), key=lambda column: -max(len(row[column]) for row in rows))
    return f"{' '.join(text)}\n{aligned(header, rows, leaving=by_width)}"


def live_note(simulation: Simulation) -> str:
    """Return peak activations beside those of F-then-B."""
    schedule, live = simulation.timeline.schedule, peak_live(simulation)
    most, mean, all_of_them = max(live), sum(live, Fraction(0)) / len(live), schedule.num_microbatches
    lines = [
        _(
            "live activations in microbatches: {most} on the fullest rank, {mean} on average; F-then-B keeps all {all} "
            "on every rank",
            most=number(most),
            mean=number(mean),
            all=all_of_them,
        ),
        _(
            "saved against F-then-B: {most} on the fullest rank, {mean} on average",
            most=_percent(1 - most / all_of_them),
            mean=_percent(1 - mean / all_of_them),
        ),
    ]
    return "\n".join(lines)


def schedule_svg(simulation: Simulation) -> str:
    """Return a picture of the timeline, with live activations as memory."""
    schedule = simulation.timeline.schedule
    return timeline_svg(
        simulation,
        memory_limit_bytes=None,
        title=_title(schedule),
        certificate=_("Equal stages. Memory: 1 GB stands for the activations of one microbatch on a whole rank."),
    )


def schedule_html(simulation: Simulation, *, plan: str | None, made_by: str) -> str:
    """Return a page with the timeline, and with live activations as memory; it carries the text of a plan file."""
    from evenflow.report import report_html, shown_simulation

    schedule = simulation.timeline.schedule
    note = _("Equal stages. Memory: 1 GB stands for the activations of one microbatch on a whole rank.")
    shown = shown_simulation(simulation, name=schedule.name, memory_limit_bytes=None, notes=(note,), plan=plan)
    return report_html([shown], title=_title(schedule), made_by=made_by)


def _title(schedule: Schedule) -> str:
    return f"{schedule.name}: {sizes_text(schedule)}"


def sizes_text(schedule: Schedule) -> str:
    """Return the sizes of a schedule as text."""
    microbatches = _n("1 microbatch", "{count} microbatches", count=schedule.num_microbatches)
    if schedule.group_size is not None:
        microbatches = _("{microbatches} in groups of {size}", microbatches=microbatches, size=schedule.group_size)
    text = _(
        "{ranks} x {chunks}, {microbatches}",
        ranks=_n("1 rank", "{count} ranks", count=schedule.num_ranks),
        chunks=_n("1 chunk", "{count} chunks", count=schedule.num_chunks),
        microbatches=microbatches,
    )
    if schedule.sequence_splits == 1:
        return text
    return _("{sizes}, sequences in {parts} parts", sizes=text, parts=schedule.sequence_splits)


def number(value: Fraction) -> str:
    """Return a number of microbatches with at most two decimals."""
    return f"{float(value):.2f}".rstrip("0").rstrip(".")


def _headline(simulation: Simulation) -> str:
    schedule, costs = simulation.timeline.schedule, simulation.costs
    forward_ns, backward_ns, weight_ns = (
        int(times[0]) for times in (costs.forward_ns, costs.backward_ns, costs.weight_ns)
    )
    forward, backward = _ms(forward_ns), _ms(backward_ns)
    if schedule.splits_backward:
        times = _(
            "forward {forward} ms, backward {backward} ms, {weight} ms of it for the weights",
            forward=forward,
            backward=backward,
            weight=_ms(weight_ns),
        )
    else:
        times = _("forward {forward} ms, backward {backward} ms", forward=forward, backward=backward)
    return _("{name}: {sizes}; equal stages, {times}", name=schedule.name, sizes=sizes_text(schedule), times=times)


def _grid(simulation: Simulation) -> str:
    grid, unit_ns = text_grid(simulation.timeline, most=output_width())
    if not grid:
        return _(
            "(no grid: at one column for each {unit_ms} ms it would be too wide; --svg draws it)", unit_ms=_ms(unit_ns)
        )
    return f"{grid}\n" + _("(one column is {unit_ms} ms)", unit_ms=_ms(unit_ns))


def _step(simulation: Simulation) -> str:
    shares = idle_shares(simulation)
    return _(
        "one step takes {makespan_ms} ms; {percent} of all ranks' time is idle",
        makespan_ms=_ms(simulation.makespan_ns),
        percent=_percent(sum(shares, Fraction(0)) / len(shares)),
    )


def _idle_note(simulation: Simulation) -> str:
    """Return one sentence on the idle time of each rank: by formula and simulated."""
    formula = idle_of_equal_stages(simulation)
    simulated = _ms(simulation.makespan_ns - int(simulation.timeline.busy_ns[0]))
    if formula.idle_ns is None:
        return _(
            "idle on each rank: {simulated} ms simulated; no formula: {reason}",
            simulated=simulated,
            reason=formula.words,
        )
    return _(
        "idle on each rank: {value} ms by formula {formula}, {simulated} ms simulated",
        value=_ms(formula.idle_ns),
        formula=formula.words,
        simulated=simulated,
    )


def _lengths(bubbles: tuple[Bubble, ...] | None, place: BubblePlace) -> str:
    """Return the bubbles at one place, like ``3`` or ``4x2 + 6``."""
    if bubbles is None:
        return "?"
    terms = [
        _ms(bubble.length_ns) if bubble.count == 1 else f"{bubble.count}x{_ms(bubble.length_ns)}"
        for bubble in bubbles
        if bubble.place is place
    ]
    return " + ".join(terms) or "0"


def _ms(time_ns: int) -> str:
    return f"{milliseconds(time_ns):,.6f}".rstrip("0").rstrip(".")


def _percent(share: Fraction) -> str:
    return f"{100 * float(share):.1f} %"
