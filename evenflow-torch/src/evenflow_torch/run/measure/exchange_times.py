"""Time of messages between stages on several devices: from the parts of one to the parts of the other."""

import time
from collections.abc import Sequence

import torch
import torch.distributed as dist

from evenflow.cluster import MeshPlan
from evenflow_torch.run.measure.settled import settled
from evenflow_torch.run.mesh.exchange import StageExchange, finish
from evenflow_torch.run.mesh.mesh_stage import MeshStage

_TIMES = 20


def measure_exchanges_ns(
    plan: MeshPlan, stages: Sequence[MeshStage], device: torch.device, *, num_replicas: int = 1
) -> int:
    """Return half the time of an activation to the next stage and its gradient back, the mean over pairs of stages.

    Every device calls it, of all replicas at the same time. Pair after pair, the devices of the first stage measure.
    """
    own = {stage.stage_index: stage for stage in stages}
    measured = [index for index in range(len(plan.stages) - 1) if index in own]

    def measure() -> list[list[int]]:
        found = []
        for index in range(len(plan.stages) - 1):
            dist.barrier()
            if index in own:
                found.append([_there_and_back(own[index]) for _ in range(_TIMES)][1:])
            elif index + 1 in own:
                for _ in range(_TIMES):
                    _back(own[index + 1])
        return found

    medians = zip(measured, settled(measure, device).medians_ns, strict=True)
    own_ns = sum(median_ns / 2 / len(plan.stages[index].devices) for index, median_ns in medians)
    total = torch.tensor([own_ns], dtype=torch.float64, device=device)
    dist.all_reduce(total)
    return round(total.item() / max(1, len(plan.stages) - 1) / num_replicas)


def _there_and_back(stage: MeshStage) -> int:
    assert stage.links.activations_out is not None
    assert stage.links.gradients_in is not None
    start = time.perf_counter_ns()
    finish(stage.links.activations_out.sends(torch.zeros_like(stage.example_output, device=stage.device).detach()))
    _receive(stage.links.gradients_in, stage.example_output.dtype, stage.device)
    if stage.device.type == "cuda":
        torch.cuda.synchronize(stage.device)
    return time.perf_counter_ns() - start


def _back(stage: MeshStage) -> None:
    assert stage.links.activations_in is not None
    assert stage.links.gradients_out is not None
    _receive(stage.links.activations_in, stage.example_input.dtype, stage.device)
    finish(stage.links.gradients_out.sends(torch.zeros_like(stage.example_input, device=stage.device).detach()))


def _receive(exchange: StageExchange, dtype: torch.dtype, device: torch.device) -> None:
    receives = exchange.receives(dtype=dtype, device=device)
    finish(receives)
    exchange.arrived(receives, None, dtype=dtype, device=device)
