"""Refinement by the exact solver: never worse, and for equal submeshes only."""

from dataclasses import replace

import pytest

from evenflow.cluster.cluster import Link, Submesh
from evenflow.model import EndBlock
from evenflow.simulate import simulate
from evenflow.solve import Outcome, Status
from evenflow.solve.clock import Clock
from evenflow.solve.problem import Problem
from evenflow.solve.race import Race, RaceSettings
from evenflow_torch.auto import refine as refine_module
from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.refine import Refinement, refine
from evenflow_torch.auto.stages.analytic import AnalyticStages
from evenflow_torch.auto.stages.stage_search import plan_stages
from evenflow_torch.auto.stages.two_level_plan import StagesOutcome, TwoLevelPlan
from tests.cluster.clusters import mesh
from tests.solve.recomputation import layers_that_could_recompute_less
from tests_torch.auto.networks import network, stages

SLOW = Link(bytes_per_s=4 * 10**7)
"""10 us for what a layer hands on: a pipeline sends it once a stage, tensor parallelism many times a layer."""
CLUSTER = mesh(1, 4, intra=SLOW, inter=SLOW, memory_bytes=7000)
TAIL = EndBlock(forward_ns=50_000, backward_ns=100_000, parameter_bytes=800)


@pytest.fixture(scope="module")
def pipeline() -> TwoLevelPlan:
    """Ten layers and a head on four devices: the best cut that recomputes whole stages or nothing."""
    alternatives = plan_stages(provider()).alternatives
    return next(plan for plan in alternatives if {stage.submesh for stage in plan.stages} == {Submesh(1, 1)})


def outcome(plan: TwoLevelPlan) -> StagesOutcome:
    return StagesOutcome(plan=plan, alternatives=(plan,), shortage=None, num_evaluated=1, num_possible=1)


def provider() -> AnalyticStages:
    return stages(network([100_000] * 10, tail=TAIL), CLUSTER, samples=1)


@pytest.fixture(scope="module")
def refinement(pipeline: TwoLevelPlan) -> Refinement:
    return refine(outcome(pipeline), provider(), deadline=Deadline.after(8))


def test_recomputing_single_layers_is_shorter(pipeline: TwoLevelPlan, refinement: Refinement) -> None:
    assert "full" in {stage.cost.recompute for stage in pipeline.stages}
    assert refinement.two_level_ns == pipeline.timeline.makespan_ns
    assert {one.schedule for one in refinement.tried} == {"1f1b", "eager-1f1b", "zb-h1", "interleaved"}
    best = refinement.best
    assert best.timeline.makespan_ns < refinement.two_level_ns
    assert refinement.saved == pytest.approx(1 - best.timeline.makespan_ns / refinement.two_level_ns)
    for one in refinement.tried:
        if one.outcome.simulation:
            assert max(one.outcome.simulation.peak_memory_bytes) <= CLUSTER.memory_bytes
            # The solver takes the slowest message for all.
            alone = simulate(one.outcome.simulation.network, one.outcome.plan).makespan_ns
            assert alone <= one.timeline.makespan_ns <= one.outcome.makespan_ns


def test_the_stages_are_known_to_every_order(pipeline: TwoLevelPlan) -> None:
    """Also where there is hardly any time: on equal submeshes they are cells of a plan like any other."""
    found = refine(outcome(pipeline), provider(), deadline=Deadline.after(0.3))
    assert found.tried
    for one in found.tried:
        if one.num_chunks == 1:
            network = provider().network_on(Submesh(1, 1), one.sharding)
            of_stages = replace(pipeline.pipeline, schedule=one.schedule)
            alone = simulate(network, of_stages, communication=pipeline.communication)
            if alone.fits(CLUSTER.memory_bytes):
                assert one.outcome.makespan_ns <= alone.makespan_ns
            else:
                assert one.schedule != "1f1b"


def test_no_layer_recomputes_that_there_is_memory_to_keep(pipeline: TwoLevelPlan, refinement: Refinement) -> None:
    for one in refinement.tried:
        if one.outcome.plan is not None:
            problem, _race = refine_module._race(pipeline, provider(), one.sharding, one.schedule, one.num_chunks)
            assert layers_that_could_recompute_less(problem, one.outcome.plan) == []


def test_of_equal_steps_the_one_that_recomputes_least_is_the_best(refinement: Refinement) -> None:
    shortest = refinement.best
    assert shortest is not None
    plan = shortest.outcome.plan
    assert plan is not None
    assert plan.num_recomputed
    nothing = replace(plan, recompute={kind: tuple((0,) * len(row) for row in t) for kind, t in plan.recompute.items()})
    simulation = replace(shortest.outcome.simulation, plan=nothing)
    same = replace(shortest, outcome=replace(shortest.outcome, simulation=simulation))
    for tried in ((shortest, same), (same, shortest)):
        assert replace(refinement, tried=tried).best is same


def test_rounds_end_when_one_brings_nothing(pipeline: TwoLevelPlan, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = []

    class Stubborn:
        def __init__(self, problem: Problem, settings: RaceSettings) -> None:
            self.found = replace(Race(problem, settings).run(Clock(limit_s=1)), status=Status.FEASIBLE)

        def run(self, clock: Clock) -> Outcome:
            limits.append(clock.limit_s)
            return self.found

    monkeypatch.setattr("evenflow_torch.auto.refine.Race", Stubborn)
    found = refine(outcome(pipeline), provider(), deadline=Deadline.after(10**6))
    first, second = limits[: len(found.tried)], limits[len(found.tried) :]
    assert second == [2 * limit for limit in first]
    assert len(set(first)) == 1


def test_longer_plans_save_nothing(refinement: Refinement) -> None:
    perfect = replace(refinement, two_level_ns=1)
    assert perfect.best is None
    assert perfect.saved == 0


def test_different_submeshes_are_left_alone(pipeline: TwoLevelPlan) -> None:
    first, *others = pipeline.stages
    uneven = replace(pipeline, stages=(replace(first, submesh=Submesh(1, 2)), *others))
    assert refine(outcome(uneven), provider(), deadline=Deadline.after(8)) is None


def test_all_numbers_of_stages_together_are_no_longer_than_one_of_them(refinement: Refinement) -> None:
    found = refine(plan_stages(provider()), provider(), deadline=Deadline.after(30))
    assert found.step_ns <= refinement.step_ns
