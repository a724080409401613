"""Layers split over devices inside of stages, in half precision with scaled losses, and two batches a step.

evenflow plan … --json plan.json            (2 ranks, 4 layers)
torchrun --nproc-per-node 4 examples/training/tensor_parallel.py plan.json
"""

import sys
from collections.abc import Mapping

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp.sharded_grad_scaler import ShardedGradScaler
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module

import evenflow

VOCABULARY, WIDTH, LENGTH, TENSOR = 64, 32, 12, 2


class Block(nn.Module):
    """An MLP beside a sum over the tokens before, which is enough to count."""

    def __init__(self) -> None:
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, hidden: Tensor) -> Tensor:
        before = hidden.cumsum(1) / torch.arange(1, hidden.shape[1] + 1)[:, None]
        result: Tensor = hidden + self.down(nn.functional.gelu(self.up(self.norm(hidden + before))))
        return result


def split(mesh: DeviceMesh, stage: Mapping[str, nn.Module]) -> None:
    """Split the MLP of every block of a stage over the devices of `mesh`: by columns, then by rows."""
    for module in stage.values():
        if isinstance(module, Block):
            parallelize_module(module, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})


def loss_fn(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.flatten(0, 1).float(), target.flatten())


def samples(seed: int, number: int) -> tuple[Tensor, Tensor]:
    """Sequences that count up, and what comes next."""
    generator = torch.Generator().manual_seed(seed)
    tokens = (torch.randint(VOCABULARY, (number, 1), generator=generator) + torch.arange(LENGTH + 1)) % VOCABULARY
    return tokens[:, :-1], tokens[:, 1:]


def main() -> None:
    plan = evenflow.read_plan_file(sys.argv[1])
    dist.init_process_group("gloo")
    replicas = dist.get_world_size() // (plan.num_ranks * TENSOR)
    mesh = init_device_mesh("cpu", (plan.num_ranks, replicas, TENSOR), mesh_dim_names=("pp", "dp", "tp"))
    replica, number = mesh.get_local_rank("dp"), 2 * plan.num_microbatches
    torch.manual_seed(0)  # the same model on every rank; each keeps its own part
    blocks = [Block() for _ in range(plan.num_layers)]
    model = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *blocks, nn.Linear(WIDTH, VOCABULARY))
    with torch.autocast("cpu", dtype=torch.float16):
        pipe = evenflow.run.pipeline(
            plan,
            model,
            loss_fn,
            samples(0, number),
            mesh=mesh["pp", "dp"],
            parallelize=lambda stage: split(mesh["tp"], stage),
            head_modules=1,
            tail_modules=1,
        )
        optimizer = torch.optim.AdamW(pipe.parameters(), lr=1e-2)
        scaler = ShardedGradScaler("cpu", init_scale=2.0**10)
        for step in range(8):
            optimizer.zero_grad()
            for half in range(2):  # gradients add up
                loss = pipe.step(samples(100 * step + 10 * half + replica, number), scaler=scaler)
            scaler.unscale_(optimizer)
            pipe.clip_grad_norm_(1.0)
            scaler.step(optimizer)
            scaler.update()
            if loss is not None and mesh.get_local_rank("tp") == replica == 0:
                print(f"step {step}: loss {float(loss):.4f}", flush=True)
    pipe.save("checkpoint", optimizer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
