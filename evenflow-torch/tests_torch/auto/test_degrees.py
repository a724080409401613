"""Degrees of plans whose stages were sharded by hand, and why others have none."""

from types import SimpleNamespace

import pytest

from evenflow.cluster import Submesh
from evenflow.predict.training import Degrees, Sharding
from evenflow_torch.auto.degrees import PlanDegrees, plan_degrees
from evenflow_torch.auto.wording.stage_use import stage_use
from tests_torch.auto.wording.made_layers import made_layer


def made_stage(stage, mesh, layers, *, devices=None, rank=None):
    """A stage on one node, or on some of two devices."""
    size = mesh[0] * mesh[1]
    return SimpleNamespace(
        stage=stage,
        rank=stage if rank is None else rank,
        devices=devices or range(stage * size, (stage + 1) * size),
        use=stage_use([(f"layer {index}", index, layer) for index, layer in enumerate(layers)], mesh, Submesh(1, size)),
    )


def degrees_of(*layers, mesh=(2, 2), stages=1):
    return plan_degrees([made_stage(stage, mesh, layers) for stage in range(stages)])


@pytest.mark.parametrize(
    ("axes", "zero", "degrees"),
    [
        (("data", "tensor"), "1", Degrees(data=2, tensor=2, sequence_parallel=False)),
        (("data", "data"), "3", Degrees(data=4, sharding=Sharding.PARAMETERS, sequence_parallel=False)),
        (("data", "context"), "1", Degrees(data=2, context=2, sequence_parallel=False)),
        (("context", "tensor"), "0", Degrees(context=2, tensor=2, sharding=Sharding.NOTHING, sequence_parallel=False)),
    ],
)
def test_degrees_of_a_stage(axes, zero, degrees):
    assert degrees_of(made_layer(*axes, zero=zero)) == PlanDegrees(degrees=degrees, replicas=1)


def test_tokens_split_between_products_are_sequence_parallelism():
    found = degrees_of(made_layer("data", "tensor", tokens=True), stages=3)
    assert found == PlanDegrees(degrees=Degrees(data=2, tensor=2, pipeline=3, sharding=Sharding.NOTHING), replicas=1)


def test_chunks_of_a_rank_are_on_its_devices():
    layer = made_layer("data", "tensor")
    stages = [made_stage(stage, (2, 2), [layer], rank=stage % 2, devices=range(stage % 2 * 4, stage % 2 * 4 + 4))
              for stage in range(4)]  # fmt: skip
    found = plan_degrees(stages)
    assert (found.degrees.pipeline, found.degrees.chunks) == (2, 2)


def test_copies_of_devices_that_share_the_state():
    """The outer axis keeps the state whole: the inner one alone shares it out."""
    hybrid = made_layer("data", "data", zero=("0", "3"))
    found = degrees_of(hybrid)
    assert (found.degrees.data, found.replicas, found.degrees.sharding) == (4, 2, Sharding.PARAMETERS)


@pytest.mark.parametrize(
    ("stages", "reason"),
    [
        (
            [((2, 2), ("data", "data"), None), ((1, 2), ("data", "data"), range(4, 6))],
            "stage 0 is on 4 devices, stage 1 on 2",
        ),
        (
            [((2, 2), ("data", "data"), None), ((2, 2), ("data", "tensor"), None)],
            "stage 0 is data parallel over 4, stage 1 tensor parallel over 2, data parallel over 2",
        ),
        ([((2, 2), ("data", "data"), range(4, 8))], "stage 0 lies out of the pipeline's order"),
        ([((2, 2), ("data", "same"), None)], "some devices do the same work as others"),
        ([((2, 2), ("tensor", "data"), None)], "its groups do not lie as frameworks have them"),
    ],
)
def test_plans_without_degrees(stages, reason):
    made = [
        made_stage(number, mesh, [made_layer(*axes)], devices=devices)
        for number, (mesh, axes, devices) in enumerate(stages)
    ]
    found = plan_degrees(made)
    assert isinstance(found, str)
    assert found.startswith(reason)


def test_layers_sharded_otherwise_are_named():
    found = degrees_of(*[made_layer("data", "tensor")] * 3, made_layer("data", "data"))
    assert found == (
        "layers of stage 0 are sharded unlike: tensor parallel over 2, data parallel over 2; "
        "layer 3: data parallel over 4"
    )


def test_state_that_only_some_share():
    assert degrees_of(made_layer("data", "data", zero=("1", "3"))) == (
        "the optimizer's state is not shared out alike over all data parallel devices"
    )
