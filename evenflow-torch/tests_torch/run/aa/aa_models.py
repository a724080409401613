"""Cases of the A/A check on real processes: clean ones, and one flipped bit."""

from typing import Any

import torch
from torch import nn
from torch.distributed.device_mesh import DeviceMesh

from evenflow.aa import Direction, RankChecks, plan_checks
from evenflow.model import Plan
from evenflow.schedule import Schedule
from evenflow.simulate import StageCosts, build_graph, run
from evenflow_torch.run import Hook, Pipeline, pipeline
from evenflow_torch.run.aa.aa_check import AACheck
from evenflow_torch.run.engine.hooks import insert_hooks
from evenflow_torch.run.engine.runtime import LossFunction
from evenflow_torch.run.replicas.replicas import replicas_of
from evenflow_torch.run.values.aa_report import Fault, FaultKind
from tests_torch.run.any_model.any_cases import loss_fn as of_logits
from tests_torch.run.any_model.any_cases import masked
from tests_torch.run.any_model.own_models import LENGTH, Gpt
from tests_torch.run.cases import Answer
from tests_torch.run.models import batch, llama, loss_fn, row
from tests_torch.run.replicas.replica_cases import Mesh, device_mesh, own_samples, whole

FAULTY_RANK = 1


def checks_of(schedule: Schedule, rank: int, *, everywhere: bool = True) -> RankChecks:
    """As if every forward took 1 ns and every backward 2."""
    import numpy as np

    ones = np.ones(schedule.num_stages, dtype=np.int64)
    costs = StageCosts(
        num_ranks=schedule.num_ranks, forward_ns=ones, backward_ns=2 * ones, weight_ns=ones, recompute_ns=0 * ones,
        activation_bytes=ones, until_weight_bytes=ones, static_bytes=ones,
        working_bytes=0 * ones,
    )  # fmt: skip
    timeline = run(build_graph(schedule), costs.durations)
    return plan_checks(timeline, costs, compare_ns=[0] * schedule.num_stages, everywhere=everywhere)[rank]


def squared_error(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
    """A loss that saves the very output of the model for its backward, which is no view where it ends in a tanh."""
    wanted = torch.nn.functional.one_hot(target, output.shape[-1]).to(output.dtype)
    return torch.nn.functional.mse_loss(output, wanted)


def aa_case(
    plan: Plan,
    rank: int,
    *,
    is_llama: bool = True,
    loss: LossFunction = loss_fn,
    seed: int | None = 5,
    sizes: Mesh | None = None,
    **options: Any,
) -> Answer:
    """Steps with checks; in one there is a flipped bit in a forward, in another one in a backward."""
    data, mesh = own_data(plan, sizes)
    model = llama(plan.num_layers, **options) if is_llama else row(plan.num_layers)
    if loss is squared_error:
        model[-1] = nn.Sequential(model[-1], nn.Tanh())
    ends = {} if is_llama else {"head_modules": 1, "tail_modules": 1}
    pipe = pipeline(plan, model, loss, data, seed=seed, mesh=mesh, **ends)
    return flipped(pipe, data, rank)


def traced_case(plan: Plan, rank: int, *, sizes: Mesh | None = None) -> Answer:
    """The same in a model that is cut by its operators, with masks and dropout."""
    mesh = None if sizes is None else device_mesh(sizes)
    data = masked(2 * plan.num_microbatches, LENGTH)
    pipe = pipeline(plan, Gpt(plan.num_layers, dropout=0.2), of_logits, data, seed=5, mesh=mesh)
    return flipped(pipe, data, rank)


def flipped(pipe: Pipeline, data: Any, rank: int) -> Answer:
    """Steps with checks; in one of those of the faulty rank a bit of a forward is flipped, in one of a backward."""
    checks = checks_of(pipe.schedule, pipe.rank)
    every_rank = [checks_of(pipe.schedule, one) for one in range(pipe.schedule.num_ranks)]
    turns = [checks.turn(number) for number in range(max(2, *(len(one.rotation) for one in every_rank)))]
    faults: dict[int, Fault] = {}
    for direction in Direction:
        step = next(
            step
            for step, turn in enumerate(turns)
            if step not in faults and any(check.direction is direction for check in turn)
        )
        faults[step] = Fault(rank=rank, step=step, direction=direction)
    check = AACheck(pipe, checks, faults=list(faults.values()) if rank == FAULTY_RANK else ())
    seen: list[int] = []
    insert_hooks(pipe.runtime, [Hook(after=checks.order[0], run=lambda _: seen.append(0))])
    for _ in turns:
        check.step(data)
    assert len(seen) == len(turns), "hooks of others run beside those of the check"
    return Answer(found=(check.audit(), sum(map(len, turns)), [(one.step, one.direction) for one in faults.values()]))


def own_data(plan: Plan, sizes: Mesh | None) -> tuple[tuple[torch.Tensor, torch.Tensor], DeviceMesh | None]:
    """The batch of this process's pipeline, and the mesh of all of them."""
    if sizes is None:
        return batch(plan.num_microbatches), None
    mesh = device_mesh(sizes)
    return own_samples(batch(plan.num_microbatches * replicas_of(mesh).count), mesh), mesh


def same_case(plan: Plan, rank: int, *, seed: int | None = 5, sizes: Mesh | None = None, **options: Any) -> Answer:
    """The largest difference of a gradient between steps with checks and without."""
    data, mesh = own_data(plan, sizes)
    options = {"dropout": 0.2, **options}
    plain, pipe = (
        pipeline(plan, llama(plan.num_layers, **options), loss_fn, data, seed=seed, mesh=mesh) for _ in range(2)
    )
    check = AACheck(pipe, checks_of(pipe.schedule, pipe.rank))
    for _ in range(2):  # gradients accumulate
        for run_step in (plain.step, check.step):
            torch.manual_seed(7)
            run_step(data)
    error = max(
        float((whole(one.grad) - whole(other.grad)).abs().max())
        for (_, one), (_, other) in zip(pipe.named_parameters(), plain.named_parameters(), strict=True)
    )
    return Answer(error=error, found=check.audit().mismatches)


def many_checks_case(plan: Plan, rank: int, *, num_steps: int) -> Answer:
    """Clean steps with dropout and an optimizer."""
    data = batch(plan.num_microbatches)
    pipe = pipeline(plan, llama(plan.num_layers, dropout=0.2), loss_fn, data, seed=5)
    check = AACheck(pipe, checks_of(pipe.schedule, rank))
    optimizer = torch.optim.AdamW(pipe.parameters())
    for _ in range(num_steps):
        optimizer.zero_grad()
        check.step(data)
        optimizer.step()
    audit = check.audit()
    wanted = sum(len(check._checks.turn(number)) for number in range(num_steps))
    return Answer(found=(audit.num_checks, wanted, audit.mismatches))


class Stateful(nn.Module):
    """Random numbers that nobody seeds, and a buffer that counts forwards."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        self.count += 1
        return torch.nn.functional.dropout(self.linear(hidden))


def stateful_case(plan: Plan, rank: int) -> Answer:
    """A forward that is done again draws the same numbers from its state then, and leaves nothing behind."""
    torch.manual_seed(3)
    body = [Stateful().double() for _ in range(plan.num_layers)]
    model = nn.Sequential(nn.Embedding(24, 8).double(), *body, nn.Linear(8, 24).double())
    data = batch(plan.num_microbatches)
    pipe = pipeline(plan, model, loss_fn, data, head_modules=1, tail_modules=1)
    check = AACheck(pipe, checks_of(pipe.schedule, rank))
    torch.manual_seed(4)
    check.step(data)
    after = torch.rand(1)
    found = [one for one in check.mismatches if one.direction == Direction.FORWARD]
    counts = [float(part.count) for part in body if part.count]
    torch.manual_seed(4)
    pipe.num_steps = 0
    check.step(data, check=False)
    return Answer(found=(found, counts, bool(torch.equal(after, torch.rand(1)))))


def fault_case(
    plan: Plan,
    rank: int,
    *,
    kind: FaultKind,
    num_steps: int,
    direction: Direction | None = None,
    sizes: Mesh | None = None,
) -> Answer:
    """Steps with an optimizer and a fault, in the same place of every step but the first, or stuck from then on."""
    data, mesh = own_data(plan, sizes)
    pipe = pipeline(plan, llama(plan.num_layers), loss_fn, data, seed=5, mesh=mesh)
    microbatch = 1 if kind in (FaultKind.PRODUCT, FaultKind.MESSAGE) else None
    return faulty(pipe, data, rank, kind=kind, num_steps=num_steps, direction=direction, microbatch=microbatch)


def faulty(
    pipe: Pipeline,
    data: Any,
    rank: int,
    *,
    kind: FaultKind,
    num_steps: int,
    direction: Direction | None,
    microbatch: int | None = None,
) -> Answer:
    """What is seen in steps with an optimizer and a fault, in every step but the first, or stuck from then on."""
    first, last = 1, 2 if kind is FaultKind.STUCK else num_steps
    faults = [
        Fault(rank=rank, step=step, kind=kind, microbatch=microbatch, direction=direction)
        for step in range(first, last)
    ]
    check = AACheck(pipe, checks_of(pipe.schedule, pipe.rank), faults=faults if rank == FAULTY_RANK else ())
    optimizer = torch.optim.AdamW(pipe.parameters())
    for _ in range(num_steps):
        optimizer.zero_grad()
        check.step(data)
        check.update(optimizer)
    return Answer(found=check.audit())
