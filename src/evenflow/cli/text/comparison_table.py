"""Several plans in one table."""

from collections.abc import Sequence

from evenflow.baselines.named_plans import NamedPlan
from evenflow.cli.text.tables import aligned, fill_drain_note
from evenflow.export.results.outcome_fields import RECOMMENDED
from evenflow.language import _
from evenflow.units import megabytes, milliseconds


def comparison_table(plans: Sequence[NamedPlan], memory_limit_bytes: int | None) -> str:
    """Return a row for each plan: step, how much longer than the recommended one, bubbles by cause, peak, limit."""
    communicates = any(plan.simulation.communication for plan in plans)
    copies = any(plan.simulation.bubbles.host_copies is not None for plan in plans)
    has_memory = plans[0].simulation.network.has_memory
    base_ns = next((named.simulation.makespan_ns for named in plans if named.name == RECOMMENDED), None)
    header = [_("plan"), _("step ms"), _("longer"), _("bubble"), _("ideal"), _("imbalance"), _("recompute")]
    header += ["p2p"] if communicates else []
    header += [_("host copies")] if copies else []
    header += [_("peak MB"), _("limit")] if has_memory else [_("limit")]
    rows = []
    for plan in plans:
        simulation, bubbles = plan.simulation, plan.simulation.bubbles
        shares = [bubbles.real, bubbles.ideal, bubbles.imbalance, bubbles.recompute]
        shares += [bubbles.communication] if communicates else []
        shares += [bubbles.host_copies or 0.0] if copies else []
        rows.append(
            [
                plan.name,
                f"{milliseconds(simulation.makespan_ns):,.3f}",
                f"{100 * (simulation.makespan_ns / base_ns - 1):+.2f} %" if base_ns else "",
                *(f"{round(share, 4) + 0.0:.4f}" for share in shares),
                *([f"{megabytes(max(simulation.peak_memory_bytes)):,.1f}"] if has_memory else []),
                _verdict(plan, memory_limit_bytes),
            ]
        )
    # The parts of a bubble, then the bubble: how long a step is, and whether it fits, decide.
    parts = range(4, len(header) - (2 if has_memory else 1))
    table = aligned(header, rows, left={0, len(header) - 1}, leaving=(*parts, 3))
    return "\n".join([table, *_fill_drain_notes(plans)])


def _fill_drain_notes(plans: Sequence[NamedPlan]) -> list[str]:
    """Return a line for each order of the plans: what equal stages idle under it, by formula and simulated."""
    by_order: dict[tuple[str, int], str] = {}
    for named in plans:
        plan = named.simulation.plan
        by_order.setdefault((plan.schedule, plan.num_chunks), fill_drain_note(named.simulation.fill_drain))
    if len(by_order) == 1:
        return list(by_order.values())
    return [f"{schedule}, v = {chunks}: {note}" for (schedule, chunks), note in by_order.items()]


def _verdict(plan: NamedPlan, memory_limit_bytes: int | None) -> str:
    if memory_limit_bytes is None:
        return _("not checked")
    if plan.simulation.fits(memory_limit_bytes):
        return _("fits")
    over = sum(peak > memory_limit_bytes for peak in plan.simulation.peak_memory_bytes)
    return _("OVER on {over} of {num_ranks} ranks", over=over, num_ranks=plan.simulation.plan.num_ranks)
