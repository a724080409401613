"""Planning of one case, watched and checked."""

import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.cases import GIGABYTE, Case, layer, network
from evenflow.model import COMM, NONE, SELECT, Plan
from evenflow.simulate import simulate
from evenflow.solve import Outcome, Progress, Status, solve

CLOSE = 1.005
"""The ratio to the best plan of a run up to which a plan counts as close."""
PROVEN_GAP = 2e-6
"""The share of the makespan that a proof may leave open, since linear programs are solved in floating point."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """Plan and bound at one moment of a solve; seconds count from the call."""

    seconds: float
    makespan_ns: int | None
    lower_bound_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """The measurement of one case."""

    case: str
    status: str
    makespan_ns: int | None
    lower_bound_ns: int
    seconds: float
    time_limit_s: float
    peak_bytes: int | None
    memory_limit_bytes: int
    peak_process_bytes: int
    """The highest memory of the process so far, in MB."""
    points: Sequence[Point]
    """Every moment at which plan or bound changed."""
    plan: dict[str, object] | None
    """Layers and recompute counts of every cell."""
    faults: Sequence[str]
    """Faults of the outcome; empty when all is well."""

    @property
    def gap(self) -> float | None:
        """The share of the makespan that is not proven to be needed."""
        return None if self.makespan_ns is None else 1 - self.lower_bound_ns / self.makespan_ns

    @property
    def first_plan_seconds(self) -> float | None:
        """Seconds until there was a plan."""
        return next((point.seconds for point in self.points if point.makespan_ns is not None), None)

    @property
    def close_seconds(self) -> float | None:
        """Seconds until a plan was within 0.5 % of the best of this run."""
        best = self.makespan_ns
        if best is None:
            return None
        return next(
            (p.seconds for p in self.points if p.makespan_ns is not None and p.makespan_ns <= CLOSE * best), None
        )

    @property
    def proof_seconds(self) -> float | None:
        """Seconds until the plan was proven optimal."""
        return self.seconds if self.status == Status.OPTIMAL.value else None


def measure(case: Case, time_limit_s: float) -> Measurement:
    """Plan `case` within the time limit, and check the outcome."""
    points: list[Point] = []
    began = time.monotonic()

    def watch(progress: Progress) -> None:
        state = (progress.makespan_ns, progress.lower_bound_ns)
        if not points or (points[-1].makespan_ns, points[-1].lower_bound_ns) != state:
            points.append(Point(seconds=time.monotonic() - began, makespan_ns=state[0], lower_bound_ns=state[1]))

    outcome = solve(case.request, schedule=case.schedule, time_limit_s=time_limit_s, progress=watch)
    seconds = time.monotonic() - began
    points.append(Point(seconds=seconds, makespan_ns=outcome.makespan_ns, lower_bound_ns=outcome.lower_bound_ns))
    return Measurement(
        case=case.name,
        status=outcome.status.value,
        makespan_ns=outcome.makespan_ns,
        lower_bound_ns=outcome.lower_bound_ns,
        seconds=seconds,
        time_limit_s=time_limit_s,
        peak_bytes=max(outcome.simulation.peak_memory_bytes) if outcome.simulation else None,
        memory_limit_bytes=case.memory_limit_bytes,
        peak_process_bytes=_peak_process_bytes(),
        points=points,
        plan=None if outcome.plan is None else plan_numbers(outcome.plan),
        faults=faults(case, outcome, points),
    )


def faults(case: Case, outcome: Outcome, points: Sequence[Point]) -> list[str]:
    """Return every claim of `outcome` that does not hold when its plan is simulated afresh."""
    found = outcome.plan
    if found is None:
        return [] if outcome.status is Status.TIMEOUT else [f"status {outcome.status.value}, but every case has a plan"]
    again = simulate(case.network, found)
    peak = max(again.peak_memory_bytes)
    makespan, bound = outcome.makespan_ns, outcome.lower_bound_ns
    mixed = [
        (chunk, rank)
        for chunk in range(found.num_chunks)
        for rank in range(found.num_ranks)
        if found.count(SELECT, chunk, rank) and found.count(COMM, chunk, rank)
    ]
    sizes = (found.num_ranks, found.num_chunks, found.num_microbatches)
    wanted = (case.num_ranks, case.num_chunks, case.num_microbatches)
    bounds = [point.lower_bound_ns for point in points]
    checks = [
        (again.makespan_ns == makespan, f"the plan takes {again.makespan_ns} ns, not {makespan}"),
        (peak <= case.memory_limit_bytes, f"the plan needs {peak} bytes of {case.memory_limit_bytes}"),
        (sizes == wanted, f"the plan has sizes {sizes}, not {wanted}"),
        (all(min(row) > 0 for row in found.layers), "a cell has no layer"),
        (not mixed, f"select and comm share the cells {mixed}"),
        (bound <= again.makespan_ns, f"the bound {bound} is above the makespan"),
        (max(bounds) <= again.makespan_ns, f"a bound on the way, {max(bounds)}, was above the makespan"),
        (
            outcome.status is not Status.OPTIMAL or bound >= (1 - PROVEN_GAP) * again.makespan_ns,
            f"called optimal with makespan {makespan} and bound {bound}",
        ),
    ]
    return [text for holds, text in checks if not holds]


def plan_numbers(found: Plan) -> dict[str, object]:
    """Return the plan as plain numbers."""
    kinds = {kind: table for kind, table in found.recompute.items() if kind != NONE and any(map(any, table))}
    return {"schedule": found.schedule, "layers": found.layers, "recompute": kinds}


def warm_up() -> float:
    """Solve a tiny problem and one with many actions, so that compiled code is loaded; return the seconds."""
    began = time.monotonic()
    for num_ranks, num_chunks, num_microbatches in ((2, 1, 4), (2, 2, 4), (64, 1, 400)):
        measure(
            Case(
                name="warm-up",
                network=network(
                    "warm-up",
                    (layer("layer", 1.0, 10, none=10, full=1), 2 * num_ranks * num_chunks),
                    head=(1, 1),
                    tail=(1, 1),
                ),
                num_ranks=num_ranks,
                num_chunks=num_chunks,
                num_microbatches=num_microbatches,
                memory_limit_bytes=GIGABYTE,
            ),
            time_limit_s=60.0 if num_ranks == 2 else 1.0,  # small ones end with their proof, once all is compiled
        )
    return time.monotonic() - began


def _peak_process_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak
