"""A plan of stages on several devices is refused for other parameters and shapes, and for dropout that differs."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from evenflow.cluster.mesh_plan import MeshPlan, Product
from evenflow.errors import InputError
from evenflow.model import Plan
from evenflow.schedule import schedule_of
from evenflow_torch.models.rows import as_row
from evenflow_torch.run.engine.stages import boundary_shapes, cut
from evenflow_torch.run.mesh.mesh_plan_check import check_mesh_plan
from tests_torch.run.mesh.expert_models import CONFIGS
from tests_torch.run.mesh.expert_models import mesh_plan as expert_plan
from tests_torch.run.mesh.mesh_models import DATA, LENGTH, SAMPLES, TENSOR, On, mesh_plan, model

PLAN = Plan(schedule="1f1b", num_microbatches=2, layers=((1, 1),))
RANKS = (On(devices=(0, 1), mesh=(2,), axes=(DATA,)), On(devices=(2, 3), mesh=(2,), axes=(TENSOR,)))


def check(where: MeshPlan, whole: Any, *, length: int = LENGTH, is_seeded: bool = True) -> None:
    row = as_row(whole)
    stages = cut(row, PLAN, schedule_of(PLAN))
    tokens = torch.empty(SAMPLES, length, dtype=torch.long, device="meta")
    boundaries = boundary_shapes(stages, row.context, tokens)
    check_mesh_plan(where, row, stages, [boundary.tensor for boundary in boundaries], is_seeded=is_seeded)


def changed(where: MeshPlan, index: int, **changes: Any) -> MeshPlan:
    stages = list(where.stages)
    stages[index] = replace(stages[index], **changes)
    return replace(where, stages=tuple(stages))


def test_a_plan_fits_its_own_model_and_no_other() -> None:
    whole = model(PLAN)
    where = mesh_plan(PLAN, as_row(whole), RANKS)
    check(where, whole)
    parameters = dict(where.stages[1].parameters)
    name = next(iter(parameters))
    for other, message in (
        (changed(where, 1, parameters={**parameters, "extra": (0,)}), "stage 1 must have the parameters of the model"),
        (changed(where, 1, parameters={**parameters, name: (7,)}), f"placement of {name} must split its shape"),
        (changed(where, 1, gradients={name: (7,)}), f"placement of {name} must split its shape"),
        (changed(where, 1, updates={name: (7,)}), f"placement of {name} must split its shape"),
    ):
        with pytest.raises(InputError, match=message):
            check(other, whole)
    with pytest.raises(InputError, match="microbatch must have the shape that the plan was made for"):
        check(where, whole, length=LENGTH + 1)


def test_dropout_that_devices_would_draw_differently_is_refused() -> None:
    whole = model(PLAN)
    where = mesh_plan(PLAN, as_row(whole), RANKS)
    whole.model.layers[0].mlp.act_fn = nn.Dropout(0.5)
    check(where, whole)
    with pytest.raises(InputError, match=r"must have no dropout without a seed .*act_fn'; give pipeline a seed"):
        check(where, whole, is_seeded=False)
    whole.model.layers[0].mlp.act_fn = nn.MultiheadAttention(8, 2, dropout=0.1, bias=False)
    whole.model.layers[0].mlp.act_fn.in_proj_weight = whole.model.layers[0].mlp.act_fn.out_proj.weight = None
    with pytest.raises(InputError, match=r"must have no dropout inside of torch.nn.MultiheadAttention .*act_fn'"):
        check(where, whole)


@pytest.mark.parametrize(
    ("product", "experts", "message"),
    [
        ("model.layers.1.mlp.experts", (0,), r"must divide over the 2 devices that share experts, got 3"),
        ("model.layers.1.mlp.experts", (1,), r"must divide over the 2 devices that share experts, got 25"),
        ("model.layers.1.mlp", (0,), r"must be a layer of experts, got 'model.layers.1.mlp'"),
    ],
)
def test_experts_that_do_not_divide_are_refused(product: str, experts: tuple[int, ...], message: str) -> None:
    sizes = {**CONFIGS["mixtral"], "num_local_experts": 3, "intermediate_size": 25}
    config = AutoConfig.for_model("mixtral", **sizes, num_hidden_layers=2)
    whole = AutoModelForCausalLM.from_config(config)
    where = expert_plan(PLAN, as_row(whole), tuple(replace(one, axes=("data",)) for one in RANKS))
    check(where, whole)
    products = {product: Product(reads=(0,), gives=(0,), experts=experts)}
    with pytest.raises(InputError, match=message):
        check(changed(where, 1, products=products), whole)


def test_experts_that_would_drop_nothing_are_refused_beside_a_capacity() -> None:
    config = AutoConfig.for_model("mixtral", **CONFIGS["mixtral"], num_hidden_layers=2)
    whole = AutoModelForCausalLM.from_config(config)
    where = expert_plan(PLAN, as_row(whole), tuple(replace(one, axes=("data",)) for one in RANKS))
    limited = replace(where, expert_capacity=1.25)
    check(limited, whole)
    silent = changed(limited, 1, products={})
    with pytest.raises(
        InputError, match=r"products, model\.layers\.1\.mlp\.experts must say how these experts are split"
    ):
        check(silent, whole)
    check(replace(silent, expert_capacity=None), whole)
