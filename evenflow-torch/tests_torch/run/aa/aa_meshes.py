"""Cases of the A/A check where stages lie on several devices: clean ones, and one flipped bit on one of the devices."""

from dataclasses import replace
from typing import Any

import torch
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh

from evenflow.aa import Direction
from evenflow.cluster.mesh_plan import RowExchange
from evenflow.model import Plan
from evenflow_torch.models.rows import as_row
from evenflow_torch.run import Pipeline, pipeline
from evenflow_torch.run.aa.aa_check import AACheck
from evenflow_torch.run.values.aa_report import FaultKind
from tests_torch.run.aa.aa_models import checks_of, faulty, flipped
from tests_torch.run.cases import Answer
from tests_torch.run.mesh.expert_models import expert_pipeline
from tests_torch.run.mesh.mesh_models import On, batch, dropping_model, loss_fn, mesh_plan, model
from tests_torch.run.replicas.replica_cases import own_samples, whole


def made(
    plan: Plan,
    ranks: tuple[On, ...],
    *,
    replicas: int = 1,
    sums_parts: bool = False,
    rows: RowExchange | None = None,
    dropout: bool = True,
    **options: Any,
) -> tuple[Pipeline, Any]:
    """Return a pipeline and the samples of this replica."""
    mesh: DeviceMesh | None = None
    data = batch(replace(plan, num_microbatches=replicas * plan.num_microbatches))
    if replicas > 1:
        sizes = sum(len(where.devices) for where in ranks), replicas
        mesh = init_device_mesh("cpu", sizes, mesh_dim_names=("pp", "dp_replicate"))
        data = own_samples(data, mesh)
    layered = as_row(dropping_model(plan, **options) if dropout else model(plan, **options))
    where = mesh_plan(plan, layered, ranks, sums_parts=sums_parts, rows=rows)
    return pipeline(plan, layered, loss_fn, data, mesh=mesh, mesh_plan=where, seed=5), data


def flipped_case(plan: Plan, ranks: tuple[On, ...], rank: int, **options: Any) -> Answer:
    """Steps with checks; on one device a bit of a forward is flipped in one, of a backward in another."""
    return flipped(*made(plan, ranks, **options), rank)


def flipped_experts_case(plan: Plan, ranks: tuple[On, ...], rank: int, *, kind: str) -> Answer:
    """The same with experts, whose tokens go all-to-all."""
    data = batch(plan)
    pipe, _where = expert_pipeline(kind, plan, ranks, data)
    return flipped(pipe, data, rank)


def same_case(plan: Plan, ranks: tuple[On, ...], rank: int, **options: Any) -> Answer:
    """The largest difference of a parameter between training with checks and without, and what was seen."""
    (plain, data), (pipe, _data) = (made(plan, ranks, **options) for _ in range(2))
    check = AACheck(pipe, checks_of(pipe.schedule, pipe.rank))
    optimizers = [torch.optim.AdamW(one.parameters(), lr=0.01) for one in (plain, pipe)]
    for _ in range(3):
        plain.step(data)
        optimizers[0].step()
        check.step(data)
        check.update(optimizers[1])  # gradients accumulate
    error = max(
        float((whole(one) - whole(other)).detach().abs().max())
        for (_, one), (_, other) in zip(pipe.named_parameters(), plain.named_parameters(), strict=True)
    )
    return Answer(error=error, found=check.audit())


def fault_case(
    plan: Plan,
    ranks: tuple[On, ...],
    rank: int,
    *,
    kind: FaultKind,
    num_steps: int,
    direction: Direction | None = None,
    **options: Any,
) -> Answer:
    """Steps with an optimizer and a fault of one device, in every step but the first, or stuck from then on."""
    return faulty(*made(plan, ranks, **options), rank, kind=kind, num_steps=num_steps, direction=direction)
