"""``--schedule best``: the other schedules beside the best one, as text."""

from collections.abc import Sequence

from evenflow.cli.text.tables import aligned
from evenflow.language import _
from evenflow.model import HostLink
from evenflow.schedule import FAMILIES
from evenflow.solve import BestOutcome, Outcome, ScheduleCandidate, Status
from evenflow.solve.rank_orders import shown_order
from evenflow.targets.frameworks.mindformers.target import TARGET as MINDFORMERS
from evenflow.targets.target import Target
from evenflow.units import megabytes, milliseconds


def best_text(best: BestOutcome, *, target: Target | None = None) -> str:
    """Return a table of every schedule that was tried, the certificate over all, and the best for the framework.

    With a `target`, all are for that framework, and one schedule alone needs no row: its plan says all.
    """
    if target is not None and len(_by_schedule(best.candidates)) == 1:
        return ""
    lines = [_table(best), best.certificate(), *filter(None, (best.fetches_text,))]
    simulation = best.outcome.simulation
    if simulation is not None and simulation.communication is None and simulation.plan.num_chunks > 1:
        lines.append(_("messages cost nothing here, and more chunks send more of them: see --p2p-latency"))
    if target is None and best.best is not None and not _for_target(best.best):
        runs = next((candidate for candidate in best.candidates if _for_target(candidate)), None)
        if runs is None:
            lines.append(_("{title} can run none of these plans", title=MINDFORMERS.title))
        else:
            lines.append(
                _(
                    "the best that {title} can run: --schedule {schedule} --chunks {num_chunks}, {step_ms:,.3f} ms",
                    title=MINDFORMERS.title,
                    schedule=runs.schedule,
                    num_chunks=runs.num_chunks,
                    step_ms=milliseconds(runs.makespan_ns or 0),
                )
            )
    return "\n".join(lines)


def elsewhere_text(elsewhere: BestOutcome, outcome: Outcome) -> str:
    """Return a sentence on the best plan of a quick look at all schedules, beside the best one for a framework."""
    best, best_ns = elsewhere.best, outcome.makespan_ns
    if best is None or best.makespan_ns is None:
        return _("elsewhere: no plan in the time given")
    if best_ns is not None and best.makespan_ns >= best_ns:
        return _("elsewhere: nothing shorter was found")
    step = f"{milliseconds(best.makespan_ns):,.3f} ms"
    if best_ns is None:
        return _("elsewhere: {label}, {step}", label=best.label, step=step)
    percent = f"{100 * (1 - best.makespan_ns / best_ns):.1f} %"
    return _("elsewhere: {label}, {step}, {percent} shorter", label=best.label, step=step, percent=percent)


def _table(best: BestOutcome) -> str:
    has_memory = best.outcome.simulation is not None and best.outcome.simulation.network.has_memory
    has_groups = any(candidate.group_size is not None for candidate in best.candidates)
    has_orders = any(candidate.rank_order for candidate in best.candidates)
    header = [_("schedule"), _("chunks"), *([_("group")] if has_groups else []), *([_("ranks")] if has_orders else [])]
    has_fetches = any(candidate.host_link is not None for candidate in best.candidates)
    has_keepers = any(candidate.host_link and candidate.host_link.keepers_text for candidate in best.candidates)
    header += [*([_("ahead/behind, buffers")] if has_fetches else []), *([_("kept by")] if has_keepers else [])]
    header += [_("step ms"), _("longer")]
    header += [_("bound ms"), _("bubble"), *([_("peak MB")] if has_memory else []), ""]
    rows = []
    for candidate, *others in _by_schedule(best.candidates):
        simulation = candidate.outcome.simulation if candidate.outcome else None
        names = [candidate.schedule, str(candidate.num_chunks), *([_group(candidate)] if has_groups else [])]
        names += [shown_order(candidate.rank_order)] if has_orders else []
        names += [_fetches(candidate.host_link)] if has_fetches else []
        names += [_keepers(candidate.host_link)] if has_keepers else []
        numbers = [""] * (len(header) - len(names) - 1)
        if simulation is not None and candidate.outcome is not None:
            numbers = [
                f"{milliseconds(simulation.makespan_ns):,.3f}",
                f"{100 * (simulation.makespan_ns / (best.outcome.makespan_ns or 1) - 1):+.2f} %",
                f"{milliseconds(_bound_ns([candidate, *others])):,.3f}",
                f"{round(simulation.bubbles.real, 4) + 0.0:.4f}",
                *([f"{megabytes(max(simulation.peak_memory_bytes)):,.1f}"] if has_memory else []),
            ]
        open_one = next((other for other in others if best.can_win(other)), None)
        rows.append(
            [*names, *numbers, best.verdict(open_one if open_one and candidate is not best.best else candidate)]
        )
    longer = header.index(_("longer"))
    bound, bubble, peak = longer + 1, longer + 2, longer + 3
    leaving = (bubble, *([peak] if has_memory else []), bound, longer)
    return aligned(header, rows, left={0, len(header) - 1}, leaving=leaving)


def _by_schedule(candidates: Sequence[ScheduleCandidate]) -> list[list[ScheduleCandidate]]:
    """Group candidates that differ only in how they recompute, best first."""
    by_schedule: dict[object, list[ScheduleCandidate]] = {}
    for candidate in candidates:
        order = (
            candidate.schedule,
            candidate.num_chunks,
            candidate.group_size,
            candidate.rank_order,
            candidate.host_link,
        )
        by_schedule.setdefault(order, []).append(candidate)
    return list(by_schedule.values())


def _bound_ns(candidates: Sequence[ScheduleCandidate]) -> int:
    """Return the smallest lower bound of the candidates: none of them has a plan that is shorter."""
    outcomes = [candidate.outcome for candidate in candidates if candidate.outcome is not None]
    return min(outcome.lower_bound_ns for outcome in outcomes if outcome.status is not Status.INFEASIBLE)


def _group(candidate: ScheduleCandidate) -> str:
    """Return the group size of an interleaved schedule, ``ranks`` for the usual one."""
    usual = _("ranks") if FAMILIES[candidate.schedule].has_groups and candidate.num_chunks > 1 else ""
    return usual if candidate.group_size is None else str(candidate.group_size)


def _fetches(link: HostLink | None) -> str:
    """Return how many actions fetches may be ahead, and copies behind if these are several; then few buffers."""
    if link is None:
        return ""
    ahead = _("by cell") if link.cell_ahead else str(link.ahead)
    actions = ahead if link.behind == 1 else f"{ahead}/{link.behind}"
    return actions if link.buffers is None else f"{actions}, {link.buffers}"


def _keepers(link: HostLink | None) -> str:
    """Return which ranks keep something for others, and otherwise that the host does."""
    return link.keepers_text or _("host") if link is not None else ""


def _for_target(candidate: ScheduleCandidate) -> bool:
    plan = None if candidate.outcome is None else candidate.outcome.plan
    return plan is not None and MINDFORMERS.can_run(plan)
