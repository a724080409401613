"""The pipeline of a plan on its devices, from costs that a person can check; no torch."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from evenflow.cluster.cluster import Submesh
from evenflow.cluster.placement import PARTIAL, REPLICATE, Placement
from evenflow_torch.auto.placed_pipeline import PlacedPipeline, place, simulated
from evenflow_torch.auto.sharding.mesh_costs import LayerCost
from evenflow_torch.auto.sharding.sharding_plan import ActivationSharding, ParameterSharding
from evenflow_torch.auto.stages.sharded_stages import ShardedStages
from evenflow_torch.auto.stages.stage_search import plan_stages
from evenflow_torch.auto.stages.two_level_plan import StagesOutcome
from evenflow_torch.models.parts import ModelRow, Part
from tests.cluster.clusters import mesh
from tests_torch.auto.sharding.made_costs import SPLIT, WHOLE, layer_cost, made_costs

ORDER = [0, 1, 1, 1, 1, 2]
"""Kinds of a head, four layers and a tail."""


def activation(name: str, reads: Placement | None) -> ActivationSharding:
    return ActivationSharding(name=name, shape=(8, 8), placement=SPLIT, reads=reads)


def with_tensors(cost: LayerCost) -> LayerCost:
    """A weight that is updated in halves; one product with it, and two with another."""
    weight = ParameterSharding(
        name="up.weight",
        shape=(8, 8),
        dimensions=("column", "row"),
        kept=WHOLE,
        used=WHOLE,
        gradient=WHOLE,
        update=SPLIT,
    )
    bias = replace(weight, name="up.bias", shape=(8,), dimensions=("dimension 0",), kept=SPLIT)
    activations = (activation("up", WHOLE), activation("down", SPLIT), activation("down", WHOLE), activation("n", None))
    return replace(cost, plan=replace(cost.plan, parameters=(weight, bias), activations=activations))


@pytest.fixture(scope="module")
def provider() -> ShardedStages:
    kinds = [with_tensors(layer_cost(each)) for each in (1000, 60_000, 500)]
    return ShardedStages(
        name="made",
        cluster=mesh(1, 4, memory_bytes=10**7),
        num_microbatches=4,
        costs={Submesh(1, 2): {(2,): made_costs(ORDER, kinds)}},
        has_head=True,
        has_tail=True,
    )


@pytest.fixture(scope="module")
def outcome(provider: ShardedStages) -> StagesOutcome:
    return plan_stages(provider)


def part(path: str) -> Part:
    nothing: Any = None
    return Part(name=path, module=nothing, path=path)


@pytest.fixture(scope="module")
def pipeline(provider: ShardedStages, outcome: StagesOutcome) -> PlacedPipeline:
    body = tuple(part(f"layers.{index}") for index in range(4))
    placed = place(outcome, None, provider, ModelRow(head=(part("head"),), body=body, tail=(part("tail"),)))
    assert placed is not None
    return placed


def test_every_layer_is_on_one_stage_and_every_device_on_one_rank(pipeline: PlacedPipeline) -> None:
    first, second = pipeline.stages
    assert first.modules + second.modules == ("head", "layers.0", "layers.1", "layers.2", "layers.3", "tail")
    assert first.kinds + second.kinds == tuple(ORDER)
    assert (first.first, first.end, second.end) == (0, second.first, 4)
    assert sorted((*first.devices, *second.devices)) == [0, 1, 2, 3]
    assert [stage.rank for stage in pipeline.stages] == [0, 1]


def test_what_leaves_a_stage_has_the_shape_of_what_enters_the_next(pipeline: PlacedPipeline) -> None:
    for before, after in pairwise(pipeline.stages):
        assert before.on_mesh.output is not None
        assert before.on_mesh.output.shape == after.on_mesh.input.shape
        assert (before.on_mesh.output.devices, after.on_mesh.input.devices) == (
            tuple(before.devices),
            tuple(after.devices),
        )
    assert pipeline.stages[-1].on_mesh.output is None


def test_parameters_have_full_names_and_updates_only_where_they_lie_otherwise(pipeline: PlacedPipeline) -> None:
    for stage in pipeline.stages:
        kept = {"weight": WHOLE, "bias": SPLIT}
        assert stage.placements == {f"{path}.up.{name}": kept[name] for path in stage.modules for name in kept}
        assert stage.on_mesh.updates == {f"{path}.up.weight": SPLIT for path in stage.modules}
        assert stage.on_mesh.gathered == {f"{path}.up.bias": WHOLE for path in stage.modules}
        assert all(set(where) != {PARTIAL} for where in stage.on_mesh.gradients.values())
        assert stage.on_mesh.gradients.keys() <= stage.placements.keys()
        assert stage.on_mesh.entries == dict.fromkeys(stage.modules, SPLIT)


def test_only_modules_that_multiply_once_have_a_product(pipeline: PlacedPipeline) -> None:
    for stage in pipeline.stages:
        assert set(stage.on_mesh.products) == {f"{path}.up" for path in stage.modules}
        assert {(one.reads, one.gives) for one in stage.on_mesh.products.values()} == {((REPLICATE,), SPLIT)}


def test_a_run_takes_what_the_stages_say(pipeline: PlacedPipeline) -> None:
    taken = pipeline.mesh_plan
    assert taken.cluster is pipeline.cluster
    for stage, on_mesh in zip(pipeline.stages, taken.stages, strict=True):
        assert on_mesh is stage.on_mesh
        assert (on_mesh.rank, on_mesh.parameters) == (stage.rank, stage.placements)


def test_the_simulation_is_that_of_the_shortest_plan(
    pipeline: PlacedPipeline, provider: ShardedStages, outcome: StagesOutcome
) -> None:
    shortest = outcome.shortest
    assert shortest is not None
    again = simulated(shortest, provider)
    assert pipeline.simulation.makespan_ns == again.makespan_ns == shortest.timeline.makespan_ns
    assert again.costs.forward_ns.tolist() == [stage.cost.forward_ns for stage in shortest.stages]
    assert again.costs.backward_ns.tolist() == [stage.cost.backward_ns for stage in shortest.stages]


def test_without_a_plan_nothing_is_placed(provider: ShardedStages, outcome: StagesOutcome) -> None:
    row = ModelRow(body=(part("layers.0"),))
    assert place(replace(outcome, plan=None, alternatives=()), None, provider, row) is None
