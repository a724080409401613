"""``--schedule best``: the other schedules beside the best one, as text."""

from evenflow.cli.text.tables import aligned
from evenflow.language import _
from evenflow.schedule import FAMILIES
from evenflow.solve import BestOutcome, Candidate
from evenflow.targets.frameworks.mindformers import TARGET as MINDFORMERS
from evenflow.units import megabytes, milliseconds


def best_text(best: BestOutcome) -> str:
    """Return a row for every schedule that was tried, the certificate over all, and the best for the framework."""
    lines = [_table(best), best.certificate()]
    simulation = best.outcome.simulation
    if simulation is not None and simulation.communication is None and simulation.plan.num_chunks > 1:
        lines.append(_("messages cost nothing here, and more chunks send more of them: see --p2p-latency"))
    if best.best is not None and not _for_target(best.best):
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


def _table(best: BestOutcome) -> str:
    has_memory = best.outcome.simulation is not None and best.outcome.simulation.network.has_memory
    has_groups = any(each.group_size is not None for each in best.candidates)
    header = [_("schedule"), _("chunks"), *([_("group")] if has_groups else []), _("step ms"), _("longer")]
    header += [_("bound ms"), _("bubble"), *([_("peak MB")] if has_memory else []), ""]
    rows = []
    for each in best.candidates:
        simulation = each.outcome.simulation if each.outcome else None
        names = [each.schedule, str(each.num_chunks), *([_group(each)] if has_groups else [])]
        numbers = [""] * (len(header) - len(names) - 1)
        if simulation is not None and each.outcome is not None:
            numbers = [
                f"{milliseconds(simulation.makespan_ns):,.3f}",
                f"{100 * (simulation.makespan_ns / (best.outcome.makespan_ns or 1) - 1):+.2f} %",
                f"{milliseconds(each.outcome.lower_bound_ns):,.3f}",
                f"{round(simulation.bubbles.real, 4) + 0.0:.4f}",
                *([f"{megabytes(max(simulation.peak_memory_bytes)):,.1f}"] if has_memory else []),
            ]
        rows.append([*names, *numbers, best.verdict(each)])
    return aligned(header, rows, left={0, len(header) - 1})


def _group(candidate: Candidate) -> str:
    """Return the group size of an interleaved schedule, ``ranks`` for the usual one."""
    usual = _("ranks") if FAMILIES[candidate.schedule].has_groups and candidate.num_chunks > 1 else ""
    return usual if candidate.group_size is None else str(candidate.group_size)


def _for_target(candidate: Candidate) -> bool:
    plan = None if candidate.outcome is None else candidate.outcome.plan
    return plan is not None and MINDFORMERS.can_run(plan)
