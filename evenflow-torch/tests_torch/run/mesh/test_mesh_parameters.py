"""Gradients around a step and the copies that the optimizer updates; one process, which has all of everything."""

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_tensor

from evenflow.cluster import MeshPlan
from evenflow.cluster.layout import REPLICATED, TensorLayout
from evenflow.cluster.mesh_plan import StageOnMesh
from evenflow_torch.models.parts import Part
from evenflow_torch.run.engine.stages import StageParts
from evenflow_torch.run.mesh.mesh_parameters import MeshParameters
from tests.cluster.clusters import mesh

NAMES = ("layer.weight", "layer.bias")


@pytest.fixture
def layer() -> Iterator[nn.Linear]:
    """A layer of which the devices have copies."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    made = nn.Linear(4, 2)
    device_mesh = init_device_mesh("cpu", (1,))
    for name, parameter in list(made.named_parameters()):
        placed = distribute_tensor(parameter.detach(), device_mesh, [Replicate()])
        made.register_parameter(name, nn.Parameter(placed))
    yield made
    dist.destroy_process_group()


def parameters_of(layer: nn.Linear) -> MeshParameters:
    """The weight is updated in parts, the bias where it is."""
    layout = TensorLayout(shape=(3, 4), item_bytes=4, mesh=(1,), placement=(REPLICATED,), devices=(0,))
    where = StageOnMesh(
        rank=0, input=layout, output=None, parameters=dict.fromkeys(NAMES, (REPLICATED,)), updates={NAMES[0]: (0,)}
    )
    stage = StageParts(
        index=0, rank=0, parts=(Part(name="layer", module=layer, path="layer"),), kinds={}, splits_backward=False
    )
    return MeshParameters((), [stage], MeshPlan(cluster=mesh(1, 1), stages=(where,)), 0)


def backward(layer: nn.Linear, factor: float) -> None:
    """Add gradients of `factor` in every number."""
    for parameter in (layer.weight, layer.bias):
        gradient = torch.full_like(parameter.detach(), factor)
        parameter.grad = gradient if parameter.grad is None else parameter.grad + gradient


def whole(tensor: torch.Tensor | None) -> torch.Tensor:
    assert isinstance(tensor, DTensor)
    return tensor.full_tensor()


def test_the_optimizer_updates_a_copy_only_where_it_lies_otherwise(layer: nn.Linear) -> None:
    parameters = parameters_of(layer)
    copy = parameters.updated(layer.weight)
    assert parameters.updated(layer.bias) is layer.bias
    assert copy is not layer.weight
    assert copy.placements == (Shard(0),)
    assert torch.equal(whole(copy.detach()), whole(layer.weight.detach()))


def test_values_go_to_the_copy_when_loaded_and_come_back_before_a_step(layer: nn.Linear) -> None:
    parameters = parameters_of(layer)
    copy = parameters.updated(layer.weight)
    with torch.no_grad():
        layer.weight.fill_(7.0)
    parameters.loaded()
    assert (whole(copy.detach()) == 7).all()
    with torch.no_grad():
        copy.fill_(9.0)
    parameters.before_step()
    parameters.before_use(Part(name="layer", module=layer, path="layer"))
    assert (whole(layer.weight.detach()) == 9).all()


def test_gradients_of_steps_add_up_where_the_update_is(layer: nn.Linear) -> None:
    parameters = parameters_of(layer)
    for factor, expected in ((2.0, 2.0), (3.0, 5.0)):
        parameters.before_step()
        assert layer.weight.grad is None
        assert layer.bias.grad is None
        backward(layer, factor)
        parameters.after_step()
        assert layer.weight.grad is None, "the optimizer's copy has it"
        assert (whole(parameters.updated(layer.weight).grad) == expected).all()
        assert (whole(layer.bias.grad) == expected).all()
    parameters.before_step()
    parameters.after_step()
    assert (whole(layer.bias.grad) == 5.0).all(), "a step without gradients leaves those of earlier steps"


def test_gradients_of_a_layer_leave_when_the_last_backward_has_made_them(layer: nn.Linear) -> None:
    parameters = parameters_of(layer)
    inputs = distribute_tensor(torch.ones(3, 4), layer.weight.device_mesh, [Replicate()])
    parameters.before_step()
    layer(inputs).sum().backward()
    assert layer.weight.grad is not None, "not the last one"
    parameters.backward_begins(0, is_last=True)
    layer(inputs).sum().backward()
    assert layer.weight.grad is layer.bias.grad is None, "on their way"
    parameters.backward_ended(0, is_last=True)
    parameters.after_step()
    assert layer.weight.grad is None, "the optimizer's copy has it"
    assert (whole(parameters.updated(layer.weight).grad) == 6).all()
    assert (whole(layer.bias.grad) == 6).all()


def test_what_no_hook_has_seen_leaves_at_the_end_of_the_backward(layer: nn.Linear) -> None:
    parameters = parameters_of(layer)
    parameters.before_step()
    backward(layer, 2.0)
    parameters.backward_ended(0, is_last=True)
    assert layer.weight.grad is layer.bias.grad is None
    parameters.after_step()
    assert (whole(parameters.updated(layer.weight).grad) == 2).all()
