"""What a mesh says of processes, by the names of its dimensions."""

from typing import Any

import pytest
import torch
from torch import nn
from torch.distributed.device_mesh import init_device_mesh

from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow_torch.models.rows import as_row
from evenflow_torch.run import pipeline
from evenflow_torch.run.replicas.replicas import replicas_of
from evenflow_torch.run.replicas.sharded_layers import stay_whole
from tests_torch.run.mesh.mesh_models import DATA, On, mesh_plan

PLAN = Plan(schedule="1f1b", num_microbatches=2, layers=((2,),))
BATCH = (torch.ones(4, 3), torch.zeros(4, 3))


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize(
    ("names", "is_sharded"),
    [
        (("pp",), False),
        (("dp", "pp"), True),
        (("pp", "dp_shard"), True),
        (("dp_replicate", "pp"), False),
        (("dp_shard", "pp", "dp_replicate"), True),
    ],
)
def test_dimensions_say_whether_replicas_share(names: tuple[str, ...], is_sharded: bool) -> None:
    replicas = replicas_of(init_device_mesh("cpu", (1,) * len(names), mesh_dim_names=names))
    assert (replicas.count, replicas.index, replicas.is_sharded) == (1, 0, is_sharded)
    assert (replicas.data is None) == (names == ("pp",))
    assert len(replicas.groups) == len(names) - 1


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize("names", [("dp",), ("pp", "tp"), ("pp", "dp", "dp_shard"), None])
def test_other_dimensions_are_refused(names: tuple[str, ...] | None) -> None:
    mesh = init_device_mesh("cpu", (1,) * len(names or ("one",)), mesh_dim_names=names)
    with pytest.raises(InputError, match="mesh must have a dimension pp"):
        replicas_of(mesh)


@pytest.mark.usefixtures("one_rank")
def test_a_pipeline_of_other_ranks_than_the_plan_is_refused() -> None:
    model: list[Any] = [nn.Linear(3, 3), nn.Linear(3, 3)]
    two = Plan(schedule="1f1b", num_microbatches=2, layers=((1, 1),))
    with pytest.raises(InputError, match="mesh, dimension pp must be 2, one process per rank, got 1"):
        pipeline(two, model, nn.functional.mse_loss, BATCH, mesh=init_device_mesh("cpu", (1,), mesh_dim_names=("pp",)))


@pytest.mark.usefixtures("one_rank")
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "mesh must have no dimension dp_shard or dp with a mesh_plan"),
        ({"parallelize": lambda modules: None}, "parallelize must not be given with a mesh_plan"),
    ],
)
def test_what_a_plan_says_itself_is_refused_around_stages_on_several_devices(
    options: dict[str, Any], message: str
) -> None:
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((2,),))
    row = as_row([nn.Linear(3, 3), nn.Linear(3, 3)])
    where = mesh_plan(plan, row, [On(devices=(0,), mesh=(1,), axes=(DATA,))])
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("pp", "dp"))
    with pytest.raises(InputError, match=message):
        pipeline(plan, row, nn.functional.mse_loss, BATCH, mesh=mesh, mesh_plan=where, **options)


@pytest.mark.usefixtures("one_rank")
def test_parameters_that_torch_cannot_split_stay_whole() -> None:
    class Scaled(nn.Linear):
        def __init__(self) -> None:
            super().__init__(3, 3)
            self.factor = nn.Parameter(torch.tensor(2.0))
            self.turned = nn.Parameter(torch.ones(3, 2).T)
            self.exact = nn.Parameter(torch.ones(3, dtype=torch.float64))

        def forward(self, hidden: torch.Tensor) -> torch.Tensor:
            return self.factor * super().forward(hidden) * self.exact.float() + self.turned.sum(dim=0)

    torch.manual_seed(0)
    layers = [Scaled(), Scaled()]
    torch.manual_seed(0)
    alone = nn.Sequential(Scaled(), Scaled())
    whole = {id(parameter) for parameter in stay_whole(layers[0])}
    assert {name for name, parameter in layers[0].named_parameters() if id(parameter) in whole} == {
        "factor", "turned", "exact"
    }  # fmt: skip
    mesh = init_device_mesh("cpu", (1, 1), mesh_dim_names=("dp", "pp"))
    pipe = pipeline(PLAN, layers, nn.functional.mse_loss, BATCH, mesh=mesh)
    pipe.step(BATCH)
    nn.functional.mse_loss(alone(BATCH[0]), BATCH[1]).backward()
    for name, parameter in pipe.named_parameters():
        gradient = parameter.grad.full_tensor() if hasattr(parameter.grad, "full_tensor") else parameter.grad
        torch.testing.assert_close(gradient, alone.get_parameter(name).grad)
