"""Parameters of Hugging Face, read by rank into a model without storage, trained by replicas, and written back.

evenflow plan … --json plan.json            (2 ranks, as many layers as the model)
torchrun --nproc-per-node 4 examples/training/pretrained.py plan.json MODEL_FOLDER NEW_FOLDER
"""

import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from transformers import AutoConfig, AutoModelForCausalLM

import evenflow

LENGTH, PADDING = 12, -100


def sum_over_tokens(output: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(output.flatten(0, 1), target.flatten(), ignore_index=PADDING, reduction="sum")


def num_tokens(target: Tensor) -> Tensor:
    return (target != PADDING).sum()


def samples(seed: int, number: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Sequences that count up; of some the end does not count."""
    generator = torch.Generator().manual_seed(seed)
    tokens = (torch.randint(vocabulary, (number, 1), generator=generator) + torch.arange(LENGTH + 1)) % vocabulary
    targets = tokens[:, 1:].clone()
    targets[0, LENGTH // 2 :] = PADDING
    return tokens[:, :-1], targets


def main() -> None:
    plan, folder, new = evenflow.read_plan_file(sys.argv[1]), sys.argv[2], sys.argv[3]
    dist.init_process_group("gloo")
    mesh = init_device_mesh(
        "cpu", (plan.num_ranks, dist.get_world_size() // plan.num_ranks), mesh_dim_names=("pp", "dp")
    )
    replica, number = mesh.get_local_rank("dp"), 2 * plan.num_microbatches
    config = AutoConfig.from_pretrained(folder)
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    pipe = evenflow.run.pipeline(
        plan,
        model,
        sum_over_tokens,
        samples(0, number, config.vocab_size),
        loss_weight=num_tokens,
        mesh=mesh,
        weights=folder,
    )
    optimizer = torch.optim.AdamW(pipe.parameters(), lr=1e-2)
    for step in range(6):
        optimizer.zero_grad()
        loss = pipe.step(samples(10 * step + replica, number, config.vocab_size))
        optimizer.step()
        if loss is not None and replica == 0:
            print(f"step {step}: loss {float(loss):.4f}", flush=True)
    held_out = pipe.evaluate(samples(99, number, config.vocab_size))
    if held_out is not None and replica == 0:
        print(f"held out: loss {float(held_out):.4f}", flush=True)
    pipe.save_pretrained(new)
    if dist.get_rank() == 0:
        config.save_pretrained(new)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
