"""A module of one's own, planned with evenflow.auto for the processes that are there, trained, and gone on with.

Every device does work again in the bubbles of the plan, and compares.

torchrun --nproc-per-node 4 examples/training/two_level.py
"""

from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

import evenflow
from evenflow import auto
from evenflow.run import AACheck, plan_checks

WIDTH, SAMPLES, MICROBATCHES = 32, 4, 4


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        result: Tensor = hidden + self.down(nn.functional.gelu(self.up(self.norm(hidden))))
        return result


def batch(seed: int) -> tuple[Tensor, Tensor]:
    """Points, and each turned by one place."""
    points = torch.randn(SAMPLES * MICROBATCHES, WIDTH, generator=torch.Generator().manual_seed(seed))
    return points, points.roll(1, dims=1)


def planned(devices: int) -> Any:
    """The best plan for so many devices in nodes of two; one process plans, since two searches may differ."""
    answer: list[Any] = [None]
    if dist.get_rank() == 0:
        links = auto.Link(bytes_per_s=10**10), auto.Link(bytes_per_s=10**7)
        nodes = auto.Cluster(
            num_nodes=devices // 2, devices_per_node=2, memory_bytes=2**30, intra=links[0], inter=links[1]
        )
        with torch.device("meta"):
            model, microbatch = nn.Sequential(*(Block() for _ in range(4))), torch.zeros(SAMPLES, WIDTH)
        decided = auto.Fixed(data=2, pipeline=devices // 2)  # without it, all is searched
        found = auto.plan(model, microbatch, nodes, num_microbatches=MICROBATCHES, fixed=decided)
        for stage in found.stages:
            print(f"stage on devices {list(stage.devices)}: {stage.use.words}", flush=True)
        checks = plan_checks(found.simulation.timeline, found.simulation.costs)
        answer = [(found.simulation.plan, found.mesh_plan, checks)]
    dist.broadcast_object_list(answer)
    return answer[0]


def main() -> None:
    dist.init_process_group("gloo")
    torch.use_deterministic_algorithms(True)  # the second time must give the same bits
    plan, mesh_plan, checks = planned(dist.get_world_size())
    torch.manual_seed(0)  # the same model on every rank; each keeps its own part
    model = nn.Sequential(*(Block() for _ in range(4)))
    pipe = evenflow.run.pipeline(plan, model, nn.functional.mse_loss, batch(0), mesh_plan=mesh_plan)
    optimizer = torch.optim.AdamW(pipe.parameters(), lr=1e-2)
    folder = Path("checkpoint")
    if folder.exists():  # of any other plan, and any other number of processes
        pipe.load(folder, optimizer)
    check = AACheck(pipe, checks[pipe.rank])
    for step in range(pipe.num_steps, pipe.num_steps + 6):
        optimizer.zero_grad()
        loss = check.step(batch(step))  # instead of pipe.step
        check.update(optimizer)  # instead of optimizer.step
        if loss is not None and pipe.is_first_device:
            print(f"step {step}: loss {float(loss):.6f}", flush=True)
    pipe.save(folder, optimizer)
    audit = check.audit()
    print(f"checked: {audit.num_checks} again, {audit.num_messages} messages, differences {len(audit.mismatches)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
