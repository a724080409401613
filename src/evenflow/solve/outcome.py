"""The outcome of a solve: a plan with its evidence, or the reason why there is none."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum

from evenflow.language import _
from evenflow.model import Plan
from evenflow.notebook import InNotebook, text_of
from evenflow.simulate import Simulation
from evenflow.solve.restrictions import Restrictions
from evenflow.units import megabytes, milliseconds


class Status(Enum):
    """The status at the end of a solve; its value is the word in result files."""

    OPTIMAL = "optimal"
    """No plan is shorter by more than two millionths, the tolerance of the programs behind the proof."""
    FEASIBLE = "feasible"
    """The plan fits; the gap bounds how much shorter another could be."""
    INFEASIBLE = "infeasible"
    """No plan fits in memory."""
    TIMEOUT = "timeout"
    """The time ran out before a plan was found."""

    @property
    def is_proven(self) -> bool:
        """Whether more time cannot change the answer."""
        return self in (Status.OPTIMAL, Status.INFEASIBLE)

    @property
    def word(self) -> str:
        """The status in a table."""
        return {
            Status.OPTIMAL: _("optimal"),
            Status.FEASIBLE: _("feasible"),
            Status.INFEASIBLE: _("infeasible"),
            Status.TIMEOUT: _("timeout"),
        }[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Infeasibility:
    """The reason why no plan fits, with advice on changes that would help."""

    rank: int
    """The rank that needs the most when memory is spread as well as possible."""
    smallest_limit_bytes: int
    """The smallest limit for which a plan exists (`proven`), or for which one was found."""
    proven: bool
    advice: tuple[str, ...]
    """Sentences on changes that would help."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BindingLimit:
    """The memory limit of one rank, where it keeps the rank from a change that would be better for it alone."""

    rank: int
    more_bytes: int
    """Bytes beyond the limit that the smallest such change needs."""
    takes_layer: bool
    """Whether the change is one layer more on the rank; otherwise one of its layers recomputes less."""


@dataclass(frozen=True, kw_only=True)
class Outcome(InNotebook):
    """The result of `evenflow.plan`."""

    status: Status
    simulation: Simulation | None
    """The plan, simulated afresh; None when there is none."""
    lower_bound_ns: int
    """Lower bound on all plans of this schedule within the limit."""
    memory_limit_bytes: int | None
    solve_seconds: float
    first_plan_seconds: float | None = None
    infeasibility: Infeasibility | None = None
    binding: tuple[BindingLimit, ...] | None = None
    """Memory limits that bind, in the order of ranks; None without a plan or a limit."""
    interrupted: bool = False
    """Whether Ctrl-C ended the search."""
    restrictions: Restrictions = field(default_factory=Restrictions)
    """What the plans have in common that bound and limit are for."""
    rank_order: tuple[int, ...] = ()
    """For each rank of the plan, which of those of the request it is, where they were placed; else empty."""
    title: str = ""
    """The framework that the plan is for: bound and limit are those of plans that it can run. Empty: for any."""

    @property
    def plan(self) -> Plan | None:
        """The plan, with layers and recomputation of each cell; None when there is none."""
        return self.simulation.plan if self.simulation else None

    @property
    def makespan_ns(self) -> int | None:
        """The exact time of one step; None without a plan."""
        return self.simulation.makespan_ns if self.simulation else None

    @property
    def gap(self) -> float | None:
        """The largest fraction of the makespan that could be saved: ``1 - lower_bound / makespan``."""
        if self.makespan_ns is None:
            return None
        return 1 - self.lower_bound_ns / self.makespan_ns

    @property
    def restricted(self) -> str:
        """What the plans have in common that bound and limit are for, as words behind "plan"."""
        alone = _(" for the decoder alone") if self.plan is not None and self.plan.encodes_apart else ""
        return alone + self.restrictions.text

    @property
    def among(self) -> str:
        """Which plans of the schedule bound and limit are for, as words behind "plan of this schedule"."""
        if self.title:
            return self.restricted + _(" that {title} can run", title=self.title)
        return self.restricted + (_(" in this order of the ranks") if self.rank_order else "")

    def certificate(self) -> str:
        """Return one sentence on how good the plan is proven to be."""
        split = self.among
        wanted = self.restricted + (_(" for {title}", title=self.title) if self.title else "")
        if self.makespan_ns is None or self.gap is None:
            if self.infeasibility is None:
                return _("no plan was found in the time given")
            smallest = f"{megabytes(self.infeasibility.smallest_limit_bytes):,.0f} MB"
            return _(
                "infeasible: the smallest limit that would do{split} is {smallest}", split=wanted, smallest=smallest
            )
        if self.status is Status.OPTIMAL:
            return _(
                "optimal to 2 parts in a million: no plan of this schedule{split} is shorter than {step_ms:,.3f} ms",
                split=split,
                step_ms=milliseconds(self.makespan_ns),
            )
        if self.lower_bound_ns <= 0:
            return _(
                "{step_ms:,.3f} ms, not yet bounded: the time ran out first",
                step_ms=milliseconds(self.makespan_ns),
            )
        return _(
            "within {gap:.2f} % of optimal{split}: {step_ms:,.3f} ms, bound {bound_ms:,.3f} ms",
            gap=100 * self.gap,
            split=wanted,
            step_ms=milliseconds(self.makespan_ns),
            bound_ms=milliseconds(self.lower_bound_ns),
        )

    def __str__(self) -> str:
        """Return the answer that ``evenflow plan`` prints, in whole."""
        return text_of(self) or self.summary()

    def summary(self) -> str:
        """Return the plan and its evidence as a few lines of text."""
        lines = [self.certificate()]
        if self.simulation:
            plan = self.simulation.plan
            lines += [
                _("layers, chunk {chunk}: {row}", chunk=chunk, row=list(row)) for chunk, row in enumerate(plan.layers)
            ]
            for kind, table in plan.recompute.items():
                lines += [
                    _("{kind}, chunk {chunk}: {row}", kind=kind, chunk=chunk, row=list(row))
                    for chunk, row in enumerate(table)
                    if any(row)
                ]
            peak = max(self.simulation.peak_memory_bytes)
            if self.memory_limit_bytes:
                limit_mb = megabytes(self.memory_limit_bytes)
                lines.append(
                    _(
                        "peak memory: {peak_mb:,.0f} MB of {limit_mb:,.0f} MB",
                        peak_mb=megabytes(peak),
                        limit_mb=limit_mb,
                    )
                )
            else:
                lines.append(_("peak memory: {peak_mb:,.0f} MB", peak_mb=megabytes(peak)))
        if self.binding:
            lines.append(_("memory binds on ranks {ranks}", ranks=[limit.rank for limit in self.binding]))
        if self.infeasibility:
            lines += self.infeasibility.advice
        return "\n".join(lines)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """A progress report from a running solve."""

    seconds: float
    phase: str
    """The present work, as a short phrase."""
    makespan_ns: int | None
    lower_bound_ns: int


ProgressCallback = Callable[[Progress], None]
