"""A model of one's own as it is: masks and labels come with the batch, the model returns its loss.

evenflow plan … --json plan.json            (2 ranks, 4 layers)
torchrun --nproc-per-node 2 examples/training/any_model.py plan.json
"""

import sys

import torch
import torch.distributed as dist
from torch import Tensor, nn

import evenflow

VOCABULARY, WIDTH, LENGTH, PADDING = 64, 32, 12, 0


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.norm, self.attention = nn.LayerNorm(WIDTH), nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))
        self.drop = nn.Dropout(0.1)

    def forward(self, hidden: Tensor, hides: Tensor) -> Tensor:
        looked = self.norm(hidden)
        found = self.attention(looked, looked, looked, key_padding_mask=hides, need_weights=False)[0]
        hidden = hidden + self.drop(found)
        result: Tensor = hidden + self.mlp(hidden)
        return result


class Model(nn.Module):
    def __init__(self, num_layers: int) -> None:
        super().__init__()
        self.embedding, self.head = nn.Embedding(VOCABULARY, WIDTH), nn.Linear(WIDTH, VOCABULARY, bias=False)
        self.blocks = nn.ModuleList(Block() for _ in range(num_layers))
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Tensor, attention_mask: Tensor, labels: Tensor) -> dict[str, Tensor]:
        hides = torch.zeros(attention_mask.shape, dtype=torch.float32).masked_fill(attention_mask == 0, -torch.inf)
        hidden = self.embedding(tokens)
        for block in self.blocks:
            hidden = block(hidden, hides)
        logits = self.head(hidden)
        return {"loss": nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()), "logits": logits}


def batch(samples: int, seed: int) -> dict[str, Tensor]:
    """Sequences whose labels are what was masked in them."""
    generator = torch.Generator().manual_seed(seed)
    labels = (torch.randint(VOCABULARY, (samples, 1), generator=generator) + torch.arange(LENGTH)) % VOCABULARY
    tokens = torch.where(torch.rand(labels.shape, generator=generator) < 0.15, PADDING, labels)
    mask = torch.ones_like(labels)
    mask[0, LENGTH - 2 :] = 0
    return {"tokens": tokens, "attention_mask": mask, "labels": labels}


def main() -> None:
    plan = evenflow.read_plan_file(sys.argv[1])
    dist.init_process_group("gloo")
    torch.manual_seed(0)  # the same model on every rank; each keeps its own part
    samples = 2 * plan.num_microbatches
    pipe = evenflow.run.pipeline(plan, Model(plan.num_layers), None, batch(samples, 0), seed=0)
    optimizer = torch.optim.AdamW(pipe.parameters(), lr=1e-2)
    for step in range(12):
        optimizer.zero_grad()
        loss = pipe.step(batch(samples, step))
        pipe.clip_grad_norm_(1.0)
        optimizer.step()
        if loss is not None:  # on the rank of the last stage
            print(f"step {step}: loss {float(loss):.4f}", flush=True)
        if step == 5:
            pipe.save("checkpoint", optimizer, wait=False)  # written while the training goes on
    held_out = pipe.evaluate(batch(samples, 99))
    if held_out is not None:
        print(f"held out: loss {float(held_out):.4f}", flush=True)
    pipe.load("checkpoint", optimizer)  # back to the sixth step
    loss = pipe.step(batch(samples, 6))
    if loss is not None:
        print(f"again 6: loss {float(loss):.4f}", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
