"""What a report says to who decides: of the first plan, and only what its file is enough for."""

from dataclasses import replace

import pytest

from evenflow.cli.shared.decided_plans import decided
from evenflow.export.results.json_text import format_object
from evenflow.model import Plan
from evenflow.profiles.plan_fields import network_fields, simulation_fields
from evenflow.report import Shown, shown_simulation
from evenflow.simulate import Simulation, simulate
from evenflow.targets.registry import target_named
from evenflow.units import MEGABYTE
from tests.networks import plain_network


@pytest.fixture(scope="module")
def simulation() -> Simulation:
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=((4, 4),), recompute={"full": ((1, 0),)})
    return simulate(plain_network(8), plan)


def timeline(simulation: Simulation, limit_mb: int | None) -> Shown:
    limit = None if limit_mb is None else limit_mb * MEGABYTE
    fields = simulation_fields(simulation, limit) | network_fields(simulation)
    return shown_simulation(simulation, name="one", memory_limit_bytes=limit, plan=format_object(fields))


def test_the_first_plan_alone_is_decided_on(simulation: Simulation):
    first = timeline(simulation, 999)
    found, other = decided([first, first], time_limit_s=4.0)
    assert found.decision[0].text == "memory binds on rank 0: with 1 MB more it would recompute less"
    assert any("more on every rank a step would take" in each.text for each in found.decision)
    assert any(point.limit_bytes <= found.limit_bytes for point in found.curve)
    assert found.run
    assert (other.decision, other.run) == ((), ())


def test_without_a_limit_or_over_it_nothing_is_said_of_memory(simulation: Simulation):
    for limit_mb in (None, 100):
        found = decided([timeline(simulation, limit_mb)], time_limit_s=1.0)[0]
        assert found.decision == ()
        assert found.run


def test_a_timeline_without_a_plan_stays_as_it_is(simulation: Simulation):
    bare = replace(timeline(simulation, 999), plan=None)
    assert decided([bare]) == [bare]


def test_what_memory_is_worth_to_the_ways_of_a_framework(simulation: Simulation):
    found = decided([timeline(simulation, 999)], target=target_named("megatron"), time_limit_s=4.0)[0]
    assert found.run[0].title.startswith("Megatron-LM")
    assert found.decision


def test_without_time_for_so_many_actions_it_is_said(simulation: Simulation, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("evenflow.cli.shared.decided_plans._ACTION_SECONDS", 0.1)
    found, other = decided([timeline(simulation, 999), timeline(simulation, 999)], time_limit_s=0.0)
    assert [each.text for each in found.decision] == [
        "There was no time for what memory is worth, and for what frameworks run of the plan."
    ]
    assert (found.run, found.curve, other.decision) == ((), (), ())
