"""The A/A check: what it costs in step time, and thousands of checks of sound work.

Layers that sleep leave the processor to others, as on a device of their own: so a bubble is one, also where ranks share
cores. Every family runs on real processes, in each of which steps with and without checks take turns.
"""

import multiprocessing
import os
import socket
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from statistics import fmean
from typing import Any

from benchmarks.table import aligned
from evenflow.model import Plan

NUM_RANKS = 4
FORWARD_MS, BACKWARD_MS = 10.0, 20.0
CHECKS_OF_SOUND_WORK = 10_000


@dataclass(frozen=True, slots=True, kw_only=True)
class AACost:
    """The cost of the checks under one plan."""

    name: str
    plain_step_ms: float
    checked_step_ms: float
    fast_cost: float
    """The cost by the fastest quarter of both kinds of steps, which other work on the machine disturbs least."""
    num_steps: int
    checks_per_step: float
    covered: int
    """Number of pairs of a stage and a direction that are checked."""
    of: int
    mismatches: int

    @property
    def cost(self) -> float:
        """The cost as a share of the step: 0.01 means that steps with checks are one per cent longer."""
        return self.checked_step_ms / self.plain_step_ms - 1


def plans() -> dict[str, Plan]:
    """Return plans with equal and unequal stages; a layer takes 10 ms forward and 20 ms backward."""

    def plan(schedule: str, num_microbatches: int, layers: tuple[tuple[int, ...], ...]) -> Plan:
        return Plan(schedule=schedule, num_microbatches=num_microbatches, layers=layers)

    return {
        "f-then-b": plan("f-then-b", 8, ((2, 2, 2, 2),)),
        "1f1b": plan("1f1b", 8, ((2, 2, 2, 2),)),
        "1f1b, unequal": plan("1f1b", 8, ((1, 2, 3, 2),)),
        "interleaved": plan("interleaved", 8, ((1, 1, 1, 1),) * 2),
        "interleaved, unequal": plan("interleaved", 6, ((1, 2, 1, 1), (1, 1, 1, 2))),
        "zb-h1": plan("zb-h1", 8, ((2, 2, 2, 2),)),
    }


def measure_costs(num_steps: int) -> list[AACost]:
    """Measure every plan for `num_steps` steps."""
    return [_cost(name, _on_processes(partial(_sleeping, plan, num_steps))) for name, plan in plans().items()]


def check_sound_work(num_checks: int) -> tuple[int, int]:
    """Train with dropout on real processes; return the number of checks done and of mismatches found."""
    plan = Plan(
        schedule="interleaved",
        num_microbatches=4,
        layers=((1, 1, 1, 1),) * 2,
        recompute={"full": ((1, 0, 1, 0),) * 2, "select": ((0, 1, 0, 0),) * 2},
    )
    found = _on_processes(partial(_sound, plan, num_checks))
    return sum(done for done, _ in found), sum(mismatches for _, mismatches in found)


def report(costs: list[AACost]) -> str:
    """Return a table with a row for each plan."""
    header = [
        "plan",
        "step ms",
        "with checks",
        "cost %",
        "of fastest %",
        "steps",
        "checks a step",
        "covered",
        "found",
    ]
    return aligned(
        header,
        [
            [
                one.name,
                f"{one.plain_step_ms:.1f}",
                f"{one.checked_step_ms:.1f}",
                f"{100 * one.cost:+.2f}",
                f"{100 * one.fast_cost:+.2f}",
                str(one.num_steps),
                f"{one.checks_per_step:.1f}",
                f"{one.covered}/{one.of}",
                str(one.mismatches),
            ]
            for one in costs
        ],
    )


def _cost(name: str, ranks: list[Any]) -> AACost:
    from evenflow_torch.run.aa.checked_run import report as report_of

    found = report_of([(audit, steps) for audit, steps, _ in ranks])
    items = sum(of for *_, of in ranks)
    return AACost(
        name=name,
        plain_step_ms=found.plain_step_ns / 1e6,
        checked_step_ms=found.checked_step_ns / 1e6,
        fast_cost=_fast_ns(ranks, has_checks=True) / _fast_ns(ranks, has_checks=False) - 1,
        num_steps=len(ranks[0][1]),
        checks_per_step=sum(one.num_checks for one in found.ranks) / found.num_checked_steps,
        covered=items - sum(len(one.never_checked) for one in found.ranks),
        of=items,
        mismatches=len(found.mismatches),
    )


def _fast_ns(ranks: list[Any], *, has_checks: bool) -> float:
    """Return the mean of the fastest quarter of the steps with checks, or of those without."""
    steps = zip(*(steps for _, steps, _ in ranks), strict=True)
    times = sorted(
        max(end for *_, end in step) - min(start for _, start, _ in step) for step in steps if step[0][0] is has_checks
    )
    return fmean(times[: max(1, len(times) // 4)])


def _sleeping(plan: Plan, num_steps: int) -> Any:
    import time

    import torch
    import torch.distributed as dist
    from torch import nn

    from evenflow_torch.run import pipeline
    from evenflow_torch.run.aa.checked_run import AARun, checks_of_rank
    from evenflow_torch.run.measure.calibrate import calibrate

    class Sleep(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, hidden: Any) -> Any:
            time.sleep(FORWARD_MS / 1e3)
            return hidden.clone()

        @staticmethod
        def backward(context: Any, *gradients: Any) -> Any:
            time.sleep(BACKWARD_MS / 1e3)
            return gradients[0].clone()

    class Layer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(16, 16)

        def forward(self, hidden: Any) -> Any:
            return self.linear(Sleep.apply(hidden))

    def loss_fn(output: Any, target: Any) -> Any:
        return (output - target).square().mean()

    torch.manual_seed(1)
    data = torch.randn(plan.num_microbatches, 16, requires_grad=True), torch.randn(plan.num_microbatches, 16)
    pipe = pipeline(plan, [Layer() for _ in range(plan.num_layers)], loss_fn, data)
    calibration = calibrate(pipe, data, loss_fn)
    checks = checks_of_rank(pipe, calibration)
    steps = AARun(pipe, checks)
    for step in range(num_steps + 2):
        dist.barrier()
        steps.step(data, check=step % 2 == 0, measure=step >= 2)
    return *steps.own(), len(checks.items)


def _sound(plan: Plan, num_checks: int) -> tuple[int, int]:
    import torch
    import torch.distributed as dist
    from transformers import LlamaConfig, LlamaForCausalLM

    from evenflow_torch.run import pipeline
    from evenflow_torch.run.aa.aa_check import AACheck
    from evenflow_torch.run.aa.checked_run import checks_of_rank
    from evenflow_torch.run.job.models import next_token_loss, tokens
    from evenflow_torch.run.measure.calibrate import calibrate

    torch.use_deterministic_algorithms(True)
    config = LlamaConfig(
        vocab_size=64, hidden_size=32, intermediate_size=48, num_attention_heads=4, num_key_value_heads=2,
        num_hidden_layers=plan.num_layers, attention_dropout=0.1, pad_token_id=None,
    )  # fmt: skip
    torch.manual_seed(2)
    device = torch.device("cpu")
    sizes = {"seed": 3, "batch": plan.num_microbatches, "length": 16, "vocabulary": 64, "device": device}
    data = tokens(step=0, **sizes)
    pipe = pipeline(plan, LlamaForCausalLM(config), next_token_loss, data, seed=4)
    calibration = calibrate(pipe, data, next_token_loss)
    checks = checks_of_rank(pipe, calibration, everywhere=True)
    check = AACheck(pipe, checks)
    optimizer = torch.optim.AdamW(pipe.parameters(), lr=1e-3)
    step = 0
    done = torch.zeros(1)
    while done.item() < num_checks:
        optimizer.zero_grad()
        check.step(tokens(step=step, **sizes))
        optimizer.step()
        step += 1
        done.fill_(check.audit().num_checks)
        dist.all_reduce(done)
    audit = check.audit()
    return audit.num_checks, len(audit.mismatches)


def _on_processes(work: Callable[[], Any]) -> list[Any]:
    """Run `work` on every rank, each in a process of its own, and return the results."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    context = multiprocessing.get_context("spawn")
    with context.Pool(NUM_RANKS) as pool:
        # Unordered, so that a rank that fails ends all of them.
        return [
            found
            for _, found in sorted(pool.imap_unordered(partial(_rank, port, work), range(NUM_RANKS)), key=itemgetter(0))
        ]


def _rank(port: int, work: Callable[[], Any], rank: int) -> tuple[int, Any]:
    import torch
    import torch.distributed as dist

    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    torch.set_num_threads(1)
    dist.init_process_group("gloo", rank=rank, world_size=NUM_RANKS)
    try:
        return rank, work()
    finally:
        dist.destroy_process_group()
