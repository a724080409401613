"""Small models with experts on meshes, with placements as people write them."""

import logging
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForCausalLM

from evenflow.cluster.layout import TensorLayout
from evenflow.cluster.mesh_plan import MeshPlan, Product, StageOnMesh
from evenflow.cluster.placement import PARTIAL, REPLICATE, Placement
from evenflow.model import Plan
from evenflow.schedule import schedule_of
from evenflow_torch.models.experts.capacity import limit_experts
from evenflow_torch.models.parts import ModelRow
from evenflow_torch.models.rows import as_row
from evenflow_torch.run import Pipeline, pipeline
from evenflow_torch.run.engine.stages import cut
from evenflow_torch.run.job.models import norm_in_float64
from tests_torch.run.cases import NUM_STEPS, Answer
from tests_torch.run.mesh.mesh_models import LENGTH, SAMPLES, On, batch, cluster, compared
from tests_torch.run.models import VOCABULARY, loss_fn

HIDDEN = 16
SIZES: dict[str, Any] = {
    "vocab_size": VOCABULARY, "hidden_size": HIDDEN, "intermediate_size": 24, "num_attention_heads": 4,
    "num_key_value_heads": 4, "pad_token_id": None, "bos_token_id": None, "eos_token_id": None,
}  # fmt: skip
CONFIGS: dict[str, dict[str, Any]] = {
    "mixtral": {**SIZES, "num_local_experts": 4, "num_experts_per_tok": 2, "sliding_window": None},
    "gpt_oss": {
        **SIZES, "head_dim": 4, "num_local_experts": 4, "num_experts_per_tok": 3, "sliding_window": 4,
        "attn_implementation": "eager",
    },
    "deepseek_v3": {
        **SIZES, "moe_intermediate_size": 12, "n_routed_experts": 8, "n_shared_experts": 2, "num_experts_per_tok": 3,
        "first_k_dense_replace": 1, "n_group": 4, "topk_group": 2, "q_lora_rank": 8, "kv_lora_rank": 8,
        "qk_rope_head_dim": 4, "qk_nope_head_dim": 4, "v_head_dim": 6, "routed_scaling_factor": 1.5,
    },
}  # fmt: skip
DATA, EXPERT, SUMMED, WIDTH = "data", "expert", "summed experts", "width"
"""What an axis is for: samples, samples and experts, experts alone, the width of experts."""


def model(kind: str, num_layers: int) -> Any:
    logging.getLogger("torch.distributed.tensor").setLevel(logging.ERROR)
    torch.manual_seed(17)
    config = AutoConfig.for_model(kind, **CONFIGS[kind], num_hidden_layers=num_layers)
    made = AutoModelForCausalLM.from_config(config, experts_implementation="eager").double().train()
    for name, parameter in made.named_parameters():
        if "norm" not in name:
            nn.init.normal_(parameter, std=0.3)
    for name, buffer in made.named_buffers():
        if name.endswith("correction_bias"):
            buffer.normal_(std=0.3)
    norm_in_float64(made)
    return made


def mesh_plan(plan: Plan, model: ModelRow, ranks: Sequence[On]) -> MeshPlan:
    stages = cut(model, plan, schedule_of(plan))
    found = []
    for stage in stages:
        where = ranks[stage.rank]
        tokens = tuple(0 if axis in (DATA, EXPERT) else REPLICATE for axis in where.axes)
        experts = tuple({EXPERT: 0, SUMMED: 0, WIDTH: 1}.get(axis, REPLICATE) for axis in where.axes)
        sums = tuple(PARTIAL if axis in (SUMMED, WIDTH) else own for axis, own in zip(where.axes, tokens, strict=True))
        parameters, products = {}, {}
        for part in stage.parts:
            for name, _ in part.module.named_parameters(prefix=part.path, remove_duplicate=False):
                of_experts = ".experts." in name
                parameters[name] = tuple(0 if of_experts and one == 0 else REPLICATE for one in experts)
                if of_experts:
                    products[name.rpartition(".")[0]] = Product(reads=tokens, gives=sums, experts=experts)

        def layout(where: On, shape: tuple[int, ...], placement: Placement) -> TensorLayout:
            return TensorLayout(shape=shape, item_bytes=8, mesh=where.mesh, placement=placement, devices=where.devices)

        shape = (SAMPLES, LENGTH, HIDDEN)
        found.append(
            StageOnMesh(
                rank=stage.rank,
                input=layout(where, shape if stage.index else shape[:2], tokens),
                output=None if stage is stages[-1] else layout(where, shape, tokens),
                parameters=parameters,
                entries={part.path: tokens for part in stage.parts if "embed" not in part.path},
                products=products,
            )
        )
    return MeshPlan(cluster=cluster(sum(len(where.devices) for where in ranks)), stages=tuple(found))


def expert_case(kind: str, plan: Plan, ranks: tuple[On, ...], rank: int, *, capacity: float | None = None) -> Answer:
    """Two steps on the meshes against the library's own loop over experts in the unsplit model."""
    data = batch(plan)
    pipe, where = expert_pipeline(kind, plan, ranks, data, capacity=capacity)
    losses = [pipe.step(data) for _ in range(NUM_STEPS)]
    whole = model(kind, plan.num_layers)
    dropped = [0]
    for name, groups in (one for stage in where.stages for one in stage.token_groups().items()):
        if capacity is not None:  # the microbatches of the batch are groups as well
            experts = whole.get_submodule(name)
            limit_experts(experts, capacity, groups * plan.num_microbatches)
            experts.register_forward_pre_hook(partial(_count, dropped))
    expected = loss_fn(whole(data[0]).logits, data[1])
    (NUM_STEPS * expected).backward()
    answer = compared(pipe, whole, rank, last=losses[-1], expected=expected)
    return answer if capacity is None else replace(answer, found=dropped[0])


def expert_pipeline(
    kind: str, plan: Plan, ranks: tuple[On, ...], data: Any, *, capacity: float | None = None
) -> tuple[Pipeline, MeshPlan]:
    layered = as_row(model(kind, plan.num_layers))
    where = replace(mesh_plan(plan, layered, ranks), expert_capacity=capacity)
    return pipeline(plan, layered, loss_fn, data, mesh_plan=where), where


def _count(dropped: list[int], _module: nn.Module, given: tuple[torch.Tensor, ...]) -> None:
    dropped[0] += int((given[2] == 0).sum())
