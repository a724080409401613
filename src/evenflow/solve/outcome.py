"""The outcome of a solve: a plan with its evidence, or the reason why there is none."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from evenflow.model import Plan
from evenflow.simulate import Simulation
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


@dataclass(frozen=True, kw_only=True)
class Outcome:
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
    fixed_layers: bool = False
    """Whether the caller decided the layers of every cell: bound and limit are those of plans with these layers."""

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

    def certificate(self) -> str:
        """Return one sentence on how good the plan is proven to be."""
        split = " with these layers" if self.fixed_layers else ""
        if self.makespan_ns is None or self.gap is None:
            if self.infeasibility is None:
                return "no plan was found in the time given"
            smallest = f"{megabytes(self.infeasibility.smallest_limit_bytes):,.0f} MB"
            return f"infeasible: the smallest limit that would do{split} is {smallest}"
        if self.status is Status.OPTIMAL:
            return f"optimal: no plan of this schedule{split} is shorter than {milliseconds(self.makespan_ns):,.3f} ms"
        if self.lower_bound_ns <= 0:
            return f"{milliseconds(self.makespan_ns):,.3f} ms, not yet bounded: the time ran out first"
        return (
            f"within {100 * self.gap:.2f} % of optimal{split}: {milliseconds(self.makespan_ns):,.3f} ms, "
            f"bound {milliseconds(self.lower_bound_ns):,.3f} ms"
        )

    def summary(self) -> str:
        """Return the plan and its evidence as a few lines of text."""
        lines = [self.certificate()]
        if self.simulation:
            plan = self.simulation.plan
            lines += [f"layers, chunk {chunk}: {list(row)}" for chunk, row in enumerate(plan.layers)]
            for kind, table in plan.recompute.items():
                lines += [f"{kind}, chunk {chunk}: {list(row)}" for chunk, row in enumerate(table) if any(row)]
            peak = max(self.simulation.peak_memory_bytes)
            limit = f" of {megabytes(self.memory_limit_bytes):,.0f} MB" if self.memory_limit_bytes else ""
            lines.append(f"peak memory: {megabytes(peak):,.0f} MB{limit}")
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
