"""A plain loop under torchrun, which goes on where it stopped, also under another plan.

evenflow plan config.json --accelerator h100 --ranks 2 --microbatches 4 --seq 16 --json plan.json
torchrun --nproc-per-node 2 examples/training/loop.py plan.json config.json STEPS
"""

import json
import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from transformers import AutoModelForCausalLM, LlamaConfig

import evenflow


def loss_fn(logits: Tensor, target: Tensor) -> Tensor:
    return nn.functional.cross_entropy(logits.flatten(0, 1), target.flatten())


def batch(step: int, samples: int, vocabulary: int) -> tuple[Tensor, Tensor]:
    """Sequences that count up, and what comes next."""
    random = torch.Generator().manual_seed(step)
    tokens = (torch.randint(vocabulary, (samples, 1), generator=random) + torch.arange(17)) % vocabulary
    return tokens[:, :-1], tokens[:, 1:]


plan = evenflow.read_plan_file(sys.argv[1])
config = LlamaConfig(**json.loads(Path(sys.argv[2]).read_text(encoding="utf-8")))
samples, checkpoint = 8, Path("checkpoint")  # as many samples under every plan
dist.init_process_group("gloo")
torch.manual_seed(0)  # the same model on every rank; each keeps its own part
model = AutoModelForCausalLM.from_config(config)
pipe = evenflow.run.pipeline(plan, model, loss_fn, batch(0, samples, config.vocab_size), seed=0)
optimizer = torch.optim.AdamW(pipe.parameters(), lr=1e-2)
if checkpoint.exists():
    pipe.load(checkpoint, optimizer)
for step in range(pipe.num_steps, int(sys.argv[3])):
    optimizer.zero_grad()
    loss = pipe.step(batch(step, samples, config.vocab_size))
    pipe.clip_grad_norm_(1.0)
    optimizer.step()
    if loss is not None:  # on the rank of the last stage
        print(f"step {step}: loss {float(loss):.6f}", flush=True)
pipe.save(checkpoint, optimizer)
dist.destroy_process_group()
