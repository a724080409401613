from dataclasses import replace

import pytest

from evenflow.cluster.cluster import Link
from evenflow_torch.auto.stages.stage_search import plan_stages
from evenflow_torch.auto.stages.two_level_plan import Shortage, StagesOutcome
from tests.cluster.clusters import mesh
from tests_torch.auto.networks import network, stages

CLUSTER = mesh(1, 4, memory_bytes=10**6, intra=Link(bytes_per_s=10**9), inter=Link(bytes_per_s=10**9))


@pytest.fixture(scope="module")
def outcome() -> StagesOutcome:
    return plan_stages(stages(network([100] * 4), CLUSTER))


def test_the_shortest_is_near_the_best_by_equation_2(outcome: StagesOutcome) -> None:
    assert outcome.shortest.step_ns <= 1.1 * outcome.plan.step_ns
    # Whatever is far from the best does not count, however short.
    far = tuple(replace(plan, step_ns=10 * plan.step_ns) for plan in outcome.alternatives if plan != outcome.plan)
    assert replace(outcome, alternatives=(outcome.plan, *far)).shortest == outcome.plan


def test_equal_submeshes_are_those_of_all_stages(outcome: StagesOutcome) -> None:
    equal = outcome.shortest_equal
    assert len({stage.submesh for stage in equal.stages}) == 1
    uneven = next(plan for plan in outcome.alternatives if len({stage.submesh for stage in plan.stages}) > 1)
    assert replace(outcome, alternatives=(uneven,)).shortest_equal is None


def test_gradients_go_back_where_activations_came_from(outcome: StagesOutcome) -> None:
    plan = next(plan for plan in outcome.alternatives if len(plan.stages) > 1)
    for there, back in zip(plan.activations, plan.gradients, strict=True):
        assert (there.sender, there.receiver) == (back.receiver, back.sender)
    slowest = max(one.cost_ns for one in (*plan.activations, *plan.gradients))
    assert plan.communication.transfer_ns == slowest


def test_a_shortage_rounds_memory_up() -> None:
    message = Shortage(memory_bytes=2**20 + 1, num_nodes=3).message(mesh(2, 4, memory_bytes=2**20))
    assert "it would with 2 MB a device instead of 1 MB, or with 12 devices (3 x 4)" in message
