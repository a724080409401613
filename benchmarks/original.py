"""The plans of the original tool for the same cases (numbers in original_plans.json), run by evenflow's simulator."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.cases import Case
from evenflow.model import Plan, cells
from evenflow.schedule import default_family
from evenflow.simulate import Simulation, simulate

PLANS = Path(__file__).with_name("original_plans.json")


def original_simulations(cases: Mapping[str, Case]) -> dict[str, Simulation]:
    """Return the cases for which the original's plan is known."""
    plans = json.loads(PLANS.read_text(encoding="utf-8"))["plans"]
    return {name: simulate(case.network, _plan(case, plans[name])) for name, case in cases.items() if name in plans}


def _plan(case: Case, numbers: Mapping[str, Any]) -> Plan:
    return Plan(
        schedule=default_family(num_chunks=case.num_chunks, less_memory=case.less_memory),
        num_microbatches=case.num_microbatches,
        layers=cells(numbers["layers"]),
        recompute={kind: cells(table) for kind, table in numbers["recompute"].items()},
    )
