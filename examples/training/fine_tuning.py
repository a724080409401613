"""Supervised fine-tuning, as trainers of TRL do it: prompts with answers, of which the answers alone are learnt.

evenflow plan config.json --accelerator h100 --ranks 2 --microbatches 4 --seq 16 --json plan.json
torchrun --nproc-per-node 2 examples/training/fine_tuning.py plan.json config.json STEPS

More processes than ranks are replicas. It goes on where it stopped, also under another plan and with other replicas.
"""

import json
import math
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from transformers import AutoModelForCausalLM, LlamaConfig

import evenflow

PADDING, NOT_LEARNT, SAMPLES, WHOLE_STEPS = 0, -100, 8, 12


def conversations(seed: int, number: int, vocabulary: int) -> list[tuple[list[int], list[int]]]:
    """Prompts that count up, and answers that go on with it, of different lengths."""
    random = torch.Generator().manual_seed(seed)
    lengths = torch.randint(2, 7, (number, 2), generator=random).tolist()
    starts = torch.randint(1, vocabulary - 16, (number,), generator=random).tolist()
    return [
        (list(range(start, start + asked)), list(range(start + asked, start + asked + told)))
        for start, (asked, told) in zip(starts, lengths, strict=True)
    ]


def collated(samples: list[tuple[list[int], list[int]]]) -> tuple[Tensor, Tensor]:
    """Tokens, padded to a multiple of four, and the tokens behind them: those of the answers alone."""
    length = -(-max(len(prompt) + len(answer) for prompt, answer in samples) // 4) * 4
    tokens = torch.full((len(samples), length + 1), PADDING)
    labels = torch.full((len(samples), length + 1), NOT_LEARNT)
    for place, (prompt, answer) in enumerate(samples):
        tokens[place, : len(prompt) + len(answer)] = torch.tensor(prompt + answer)
        labels[place, len(prompt) : len(prompt) + len(answer)] = torch.tensor(answer)
    return tokens[:, :-1], labels[:, 1:]


def batch(data: list[tuple[list[int], list[int]]], step: int, replica: int, replicas: int) -> tuple[Tensor, Tensor]:
    """This replica's samples of a step, from data that are shuffled anew in every pass."""
    passes = len(data) // SAMPLES
    order = torch.randperm(len(data), generator=torch.Generator().manual_seed(step // passes)).tolist()
    places = order[step % passes * SAMPLES :][:SAMPLES]
    return collated([data[place] for place in places[replica::replicas]])


def loss_fn(logits: Tensor, labels: Tensor) -> Tensor:
    """A sum over the tokens that are learnt; `num_learnt` says how many these are."""
    return nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), ignore_index=NOT_LEARNT, reduction="sum")


def num_learnt(labels: Tensor) -> Tensor:
    return (labels != NOT_LEARNT).sum()


def rate(step: int) -> float:
    """The learning rate: up in the first steps, then down along a cosine."""
    return 1e-2 * min((step + 1) / 3, (1 + math.cos(math.pi * step / WHOLE_STEPS)) / 2)


def main() -> None:
    plan = evenflow.read_plan_file(sys.argv[1])
    config = LlamaConfig(**json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
    dist.init_process_group("gloo")
    replicas = dist.get_world_size() // plan.num_ranks
    mesh = init_device_mesh("cpu", (plan.num_ranks, replicas), mesh_dim_names=("pp", "dp"))
    replica = mesh.get_local_rank("dp")
    data, held_out = (conversations(seed, 40, config.vocab_size) for seed in (1, 2))
    torch.manual_seed(0)  # the same model on every rank; each keeps its own part
    model = AutoModelForCausalLM.from_config(config)
    example = batch(data, 0, replica, replicas)
    pipe = evenflow.run.pipeline(plan, model, loss_fn, example, loss_weight=num_learnt, mesh=mesh, seed=0)
    optimizer = torch.optim.AdamW(pipe.parameters(), lr=1e-2)
    checkpoint = Path("checkpoint")
    if checkpoint.exists():
        pipe.load(checkpoint, optimizer)
    for step in range(pipe.num_steps, int(sys.argv[3])):
        for group in optimizer.param_groups:
            group["lr"] = rate(step)
        optimizer.zero_grad()
        loss = pipe.step(batch(data, step, replica, replicas))
        pipe.clip_grad_norm_(1.0)
        optimizer.step()
        if loss is not None and replica == 0:
            print(f"step {step}: loss {float(loss):.6f}", flush=True)
    loss = pipe.evaluate(batch(held_out, 0, replica, replicas))
    if loss is not None and replica == 0:
        print(f"held out: loss {float(loss):.6f}", flush=True)
    pipe.save(checkpoint, optimizer)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
