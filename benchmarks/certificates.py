"""Certificates of the named cases: what they prove beside the solver, how large they are, and how long they take."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.cases import Case
from benchmarks.table import aligned
from evenflow.export.results.certificate_fields import certificate_file
from evenflow.solve.certificate.certify import certify
from evenflow.solve.certificate.described import not_covered
from evenflow.solve.plan import solve
from evenflow.solve.problem import make_problem
from evenflow.units import milliseconds
from evenflow.verify import read_certificate, verify


@dataclass(frozen=True, slots=True, kw_only=True)
class CertifiedCase:
    """What was measured of one case."""

    name: str
    makespan_ns: int
    lower_bound_ns: int
    """That of the solver."""
    reason: str = ""
    """Why there is no certificate; empty: there is one."""
    bound_ns: int = 0
    num_bytes: int = 0
    write_s: float = 0.0
    verify_s: float = 0.0


def measure(case: Case, *, time_limit_s: float) -> CertifiedCase | None:
    """Plan a case, write its certificate and verify it, the first two in so many seconds each; None without a plan."""
    problem = make_problem(case.request, schedule=case.schedule)
    outcome = solve(case.request, schedule=case.schedule, time_limit_s=time_limit_s)
    if outcome.plan is None or outcome.makespan_ns is None:
        return None
    own = {"name": case.name, "makespan_ns": outcome.makespan_ns, "lower_bound_ns": outcome.lower_bound_ns}
    reason = not_covered(problem)
    if reason:
        return CertifiedCase(**own, reason="not covered")
    began = time.monotonic()
    certificate = certify(problem, problem.counts(outcome.plan), seconds=time_limit_s)
    write_s = time.monotonic() - began
    if certificate is None:
        return CertifiedCase(**own, reason="too little time", write_s=write_s)
    text = certificate_file(certificate).encode()
    began = time.monotonic()
    verify(read_certificate(text, place=case.name))
    return CertifiedCase(
        **own,
        bound_ns=certificate.claim.bound_ns,
        num_bytes=len(text),
        write_s=write_s,
        verify_s=time.monotonic() - began,
    )


def measure_all(cases: Mapping[str, Case], *, time_limit_s: float) -> list[CertifiedCase]:
    """Measure cases one after the other; those without a plan are left out."""
    measured = (measure(case, time_limit_s=time_limit_s) for case in cases.values())
    return [row for row in measured if row is not None]


def report(rows: Sequence[CertifiedCase]) -> str:
    """Return the table."""
    header = ("case", "plan ms", "solver ms", "gap %", "certified ms", "gap %", "kB", "write s", "verify s")
    return aligned(header, [_cells(row) for row in rows])


def _cells(row: CertifiedCase) -> list[str]:
    cells = [row.name, f"{milliseconds(row.makespan_ns):,.3f}", *_bound(row.lower_bound_ns, row.makespan_ns)]
    if row.reason:
        return [*cells, row.reason, "", "", "", ""]
    sizes = f"{row.num_bytes / 1000:,.0f}", f"{row.write_s:.1f}", f"{row.verify_s:.1f}"
    return [*cells, *_bound(row.bound_ns, row.makespan_ns), *sizes]


def _bound(bound_ns: int, makespan_ns: int) -> list[str]:
    return [f"{milliseconds(bound_ns):,.3f}", f"{100 * (1 - bound_ns / makespan_ns):.4f}"]
