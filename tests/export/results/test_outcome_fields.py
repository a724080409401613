import json

import pytest

from evenflow.baselines.named_plans import NamedPlan, Skipped
from evenflow.export.results.outcome_fields import best_fields, comparison_fields, outcome_fields
from evenflow.model import Request, Sizes
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.profiles.plan_fields import simulation_fields
from evenflow.solve import solve, solve_best
from evenflow.solve.requests import ContestSearch
from tests.cli.conftest import TINY

NETWORK = parse_layer_file(json.dumps(TINY), place="tiny.json")
SIZES = Sizes(num_ranks=2, num_microbatches=2)


def request_of(memory_limit_bytes: int) -> Request:
    return Request(network=NETWORK, sizes=SIZES, memory_limit_bytes=memory_limit_bytes)


@pytest.fixture(scope="module")
def outcome():
    return solve(request_of(2**30), schedule="1f1b", time_limit_s=5)


@pytest.fixture(scope="module")
def no_plan():
    return solve(request_of(2**20), schedule="1f1b", time_limit_s=5)


def test_a_result_has_the_same_fields_with_and_without_a_plan(outcome, no_plan):
    solved = outcome_fields(outcome, SIZES, schedule="1f1b")
    failed = outcome_fields(no_plan, SIZES, schedule="1f1b")
    assert set(failed) - set(solved) == {"smallest_limit_mb"}
    assert set(solved) <= set(failed)
    for name in ("ranks", "chunks", "microbatches", "schedule", "sequence_splits"):
        assert solved[name] == failed[name]
    assert (failed["status"], failed["makespan_ms"], failed["layers"]) == ("infeasible", None, None)


def test_a_simulated_plan_is_a_solved_one_without_a_bound(outcome):
    solved = outcome_fields(outcome, SIZES, schedule="1f1b")
    simulated = simulation_fields(outcome.simulation, 2**30)
    differ = {name for name in solved if solved[name] != simulated[name]}
    assert differ <= {"status", "lower_bound_ms", "gap", "memory_binds"}
    assert (simulated["status"], simulated["lower_bound_ms"], simulated["gap"]) == ("simulated", None, None)


def test_plans_stand_under_their_names(outcome):
    others = [NamedPlan(name="mine", simulation=outcome.simulation), Skipped(name="naive", reason="too few layers")]
    fields = comparison_fields({"status": "optimal"}, others, 2**30, notes={"mine": {"notes": ["a"]}})
    assert fields["recommended"] == {"status": "optimal"}
    assert fields["mine"] == {**simulation_fields(outcome.simulation, 2**30), "notes": ["a"]}
    assert fields["naive"] == {"status": "skipped", "reason": "too few layers"}


def test_every_schedule_that_is_not_the_best_is_an_alternative():
    best = solve_best(request_of(2**30), ContestSearch(num_chunks=(1, 2), time_limit_s=5))
    fields = best_fields(best, SIZES)
    tried = {(candidate.schedule, candidate.num_chunks) for candidate in best.candidates}
    shown = {(each["schedule"], each["chunks"]) for each in fields["alternatives"]}
    assert shown | {(fields["schedule"], fields["chunks"])} == tried
    assert len(fields["alternatives"]) == len(best.candidates) - 1
    assert fields["bound_over_all_ms"] <= fields["makespan_ms"]
