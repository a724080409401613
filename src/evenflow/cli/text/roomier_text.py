"""``--alternatives``: a row for each plan that is hardly longer than the best and leaves more memory free."""

from collections.abc import Sequence
from dataclasses import dataclass

from evenflow.cli.text.tables import aligned
from evenflow.language import _
from evenflow.simulate import Simulation
from evenflow.units import megabytes, milliseconds


@dataclass(frozen=True, slots=True, kw_only=True)
class Roomier:
    """A plan that leaves more memory free than the best."""

    simulation: Simulation
    lower_bound_ns: int
    """Lower bound on the step of all plans under its order that hold at most as much."""

    @property
    def peak_bytes(self) -> int:
        """Memory of the fullest rank."""
        return max(self.simulation.peak_memory_bytes)


def roomier_text(
    plans: Sequence[Roomier], best: Simulation, *, limit_bytes: int, percent: float, most_free_bytes: int | None
) -> str:
    """Return the table, and what is proven of plans that leave even more free."""
    rows = [
        [
            plan.simulation.plan.schedule,
            str(plan.simulation.plan.num_chunks),
            f"{milliseconds(plan.simulation.makespan_ns):,.3f}",
            f"{100 * (plan.simulation.makespan_ns / best.makespan_ns - 1):+.2f} %",
            f"{megabytes(plan.peak_bytes):,.1f}",
            f"{megabytes(limit_bytes - plan.peak_bytes):,.1f}",
            f"{milliseconds(plan.lower_bound_ns):,.3f}",
        ]
        for plan in plans
    ]
    header = [
        _("schedule"), _("chunks"), _("step ms"), _("longer"), _("peak MB"), _("free MB"), _("bound ms"),
    ]  # fmt: skip
    if rows:
        lines = [_("at most {percent:g} % longer, with most memory free:", percent=percent)]
        lines.append(aligned(header, rows, left={0}, leaving=(6, 1)))
    else:
        lines = [_("no plan at most {percent:g} % longer was found that leaves more memory free", percent=percent)]
    if most_free_bytes is not None:
        lines.append(
            _(
                "no plan of this order that is at most {percent:g} % longer leaves more than {free} MB free",
                percent=percent,
                free=f"{megabytes(most_free_bytes):,.1f}",
            )
        )
    return "\n".join(lines)
