"""Modules in order, replicas, and every step's work checked: done again in bubbles, and on the next replica.

evenflow plan layers.json … --json plan.json            (2 ranks, 4 layers)
torchrun --nproc-per-node 4 examples/training/checked.py layers.json plan.json
"""

import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh

import evenflow
from evenflow.run import AACheck, as_row, plan_checks

VOCABULARY, WIDTH, LENGTH = 64, 32, 12


def loss_fn(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())


def samples(seed: int, number: int) -> tuple[Tensor, Tensor]:
    """Sequences that count up, and what comes next."""
    generator = torch.Generator().manual_seed(seed)
    tokens = (torch.randint(VOCABULARY, (number, 1), generator=generator) + torch.arange(LENGTH + 1)) % VOCABULARY
    return tokens[:, :-1], tokens[:, 1:]


def main() -> None:
    plan = evenflow.read_plan_file(sys.argv[2])
    planned = evenflow.simulate(sys.argv[1], plan)  # where its bubbles are
    dist.init_process_group("gloo")
    torch.use_deterministic_algorithms(True)  # the second time must give the same bits
    replicas = dist.get_world_size() // plan.num_ranks
    mesh = init_device_mesh("cpu", (plan.num_ranks, replicas), mesh_dim_names=("pp", "dp"))
    replica, number = mesh.get_local_rank("dp"), 2 * plan.num_microbatches
    torch.manual_seed(0)  # the same model on every rank; each keeps its own part
    layers = [nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True) for _ in range(plan.num_layers)]
    modules = [nn.Embedding(VOCABULARY, WIDTH), *layers, nn.Linear(WIDTH, VOCABULARY)]
    row = as_row(modules, head_modules=1, tail_modules=1)
    pipe = evenflow.run.pipeline(plan, row, loss_fn, samples(0, number), mesh=mesh, seed=0)
    optimizer = torch.optim.AdamW(pipe.parameters(), lr=1e-2)
    check = AACheck(pipe, plan_checks(planned.timeline, planned.costs)[pipe.rank])
    for step in range(8):
        optimizer.zero_grad()
        loss = check.step(samples(10 * step + replica, number))  # instead of pipe.step
        check.update(optimizer)  # instead of optimizer.step
        if loss is not None and replica == 0:
            print(f"step {step}: loss {float(loss):.4f}", flush=True)
    audit = check.audit()
    print(f"checked: {audit.num_checks} again, {audit.num_messages} messages, differences {len(audit.mismatches)}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
