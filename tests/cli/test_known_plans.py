"""Every verb with a real solver and hardly any time: none answers with a plan longer than one that it knows."""

import json

import pytest

from evenflow.model import Communication, Plan
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.profiles.plan_fields import network_fields, plan_fields
from evenflow.schedule import make_schedule
from evenflow.simulate import Simulation, simulate
from evenflow.solve.order.ordered_outcome import with_order
from evenflow.units import milliseconds
from tests.cli.conftest import TINY

NO_TIME = ("--time-limit", 0.001)
TWO = Plan(schedule="1f1b", num_microbatches=4, layers=((2, 2),))
SPLIT = make_schedule("zb-h1", num_ranks=2, num_chunks=1, num_microbatches=4)


@pytest.fixture
def tiny():
    return parse_layer_file(json.dumps(TINY), place="tiny.json")


def write_plan(folder, simulation: Simulation, name="given.json", *, limit: int | None = None) -> float:
    """Write the plan file of a step, and return the milliseconds of the step."""
    fields = plan_fields(simulation, status="feasible", lower_bound_ns=None, memory_limit_bytes=limit)
    (folder / name).write_text(json.dumps(fields | network_fields(simulation)))
    return milliseconds(simulation.makespan_ns)


def answer(evenflow, folder, *words):
    """Run a verb, and return its JSON file."""
    result = evenflow(*words, "--json", "answer.json", "--overwrite")
    assert result.exit_code == 0, result.output
    return json.loads((folder / "answer.json").read_text())


class TestPlan:
    """``evenflow plan PLAN.json``."""

    @pytest.mark.parametrize("options", [(), ("--target", "torch"), ("--schedule", "search", "--split-backward")])
    def test_an_order_of_its_own(self, evenflow, folder, tiny, options):
        given_ms = write_plan(folder, simulate(tiny, with_order(TWO, SPLIT)))
        found = answer(evenflow, folder, "plan", "given.json", *options, *NO_TIME)
        assert found["makespan_ms"] <= given_ms

    def test_a_cell_without_a_layer(self, evenflow, folder, tiny):
        plan = Plan(schedule="1f1b", num_microbatches=1, layers=((4, 0),))
        slow = Communication(latency_ns=10**9)
        given_ms = write_plan(folder, simulate(tiny, plan, communication=slow))
        assert answer(evenflow, folder, "plan", "given.json", *NO_TIME)["makespan_ms"] <= given_ms
