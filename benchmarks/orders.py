"""The gain of a searched order over the best plan of a schedule family, with wide and with tight limits."""

import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace

from benchmarks.cases import Case
from benchmarks.table import aligned
from evenflow.simulate import simulate
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.order.alternate import solve_any_order
from evenflow.solve.order.order_search import load_kernels
from evenflow.solve.order.ordered_outcome import OrderedOutcome
from evenflow.solve.problem import make_problem
from evenflow.units import megabytes, milliseconds

STANDARD = ("70b-8x1", "70b-8x2", "175b-16x1", "175b-16x3", "moe-16x2x32")
TIGHT = 0.1
"""A tight limit lies this share of the way from the smallest limit of the default family to the case's own."""
HEADER = (
    "case", "limit MB", "split", "best family", "family ms", "order ms", "gain %", "same cells %", "any cells %", "s"
)  # fmt: skip


def run_orders(cases: Mapping[str, Case], *, time_limit_s: float) -> None:
    """Plan `cases` with both limits, with and without split backwards; print a row for each."""
    load_kernels()
    rows = []
    for case in cases.values():
        for limited in (case, _tight(case)):
            for split in (False, True):
                print(
                    f"  {case.name} ({megabytes(limited.memory_limit_bytes):,.0f} MB) ...", file=sys.stderr, flush=True
                )
                rows.append(_row(limited, split_backward=split, time_limit_s=time_limit_s))
    print(aligned(HEADER, rows))


def _tight(case: Case) -> Case:
    problem = make_problem(case.request, schedule=case.schedule)
    least = least_memory(problem, seconds=20.0, exact=False).peak_bytes
    return replace(case, memory_limit_bytes=round(least + TIGHT * (case.memory_limit_bytes - least)))


def _row(case: Case, *, split_backward: bool, time_limit_s: float) -> list[str]:
    began = time.monotonic()
    outcome = solve_any_order(case.request, split_backward=split_backward, time_limit_s=time_limit_s)
    seconds = time.monotonic() - began
    return [
        case.name,
        f"{megabytes(case.memory_limit_bytes):,.0f}",
        "yes" if split_backward else "no",
        *_found(case, outcome),
        f"{seconds:.0f}",
    ]


def _found(case: Case, outcome: object) -> Iterator[str]:
    """Return families, makespans, gain and bounds of one row, checked by a simulation of the plan."""
    if not isinstance(outcome, OrderedOutcome) or outcome.plan is None or outcome.family.plan is None:
        yield from ["-"] * 6
        return
    again = simulate(case.network, outcome.plan)
    if again.makespan_ns != outcome.makespan_ns or not again.fits(case.memory_limit_bytes):
        raise RuntimeError(f"{case.name}: the plan is not what it is said to be")
    family_ns, found_ns = outcome.family.makespan_ns or 0, again.makespan_ns
    yield outcome.family.plan.schedule
    yield f"{milliseconds(family_ns):,.1f}"
    yield f"{milliseconds(found_ns):,.1f}"
    yield f"{100 * (1 - found_ns / family_ns):.2f}"
    yield f"{100 * (1 - outcome.order_lower_bound_ns / found_ns):.2f}"
    yield f"{100 * (1 - outcome.lower_bound_ns / found_ns):.2f}"
