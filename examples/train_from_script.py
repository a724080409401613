"""A training script that runs a plan: any modules in a row, a stock optimizer, checkpoints under the usual names.

evenflow plan … --json plan.json            (4 ranks, 6 layers)
torchrun --nproc-per-node 4 examples/train_from_script.py plan.json
"""

import sys

import torch
import torch.distributed as dist
from torch import nn

import evenflow

VOCABULARY, WIDTH, LENGTH = 64, 32, 16


def main() -> None:
    plan = evenflow.read_plan_file(sys.argv[1])
    dist.init_process_group("gloo")
    torch.manual_seed(0)  # the same model on every rank; each keeps its own part
    layers = [nn.TransformerEncoderLayer(WIDTH, 4, 64, batch_first=True) for _ in range(plan.num_layers)]
    model = nn.Sequential(nn.Embedding(VOCABULARY, WIDTH), *layers, nn.Linear(WIDTH, VOCABULARY))

    def loss_fn(output: torch.Tensor, target: torch.Tensor) -> torch.Tensor:
        return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten())

    inputs = torch.randint(VOCABULARY, (2 * plan.num_microbatches, LENGTH))
    batch = (inputs, (inputs + 1) % VOCABULARY)
    pipe = evenflow.run.pipeline(plan, model, loss_fn, batch, seed=0, head_modules=1, tail_modules=1)
    optimizer = torch.optim.AdamW(pipe.parameters(), lr=1e-2)
    for step in range(10):
        optimizer.zero_grad()
        loss = pipe.step(batch)
        optimizer.step()
        if loss is not None:  # on the rank of the last stage
            print(f"step {step}: loss {float(loss):.4f}", flush=True)
    torch.save(pipe.state_dict(), f"rank{dist.get_rank()}.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
