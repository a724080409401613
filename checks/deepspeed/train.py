"""Trains a small model for a few steps; runs in DeepSpeed's environment and knows nothing of evenflow.

python train.py whole MICROBATCHES          prints the losses of plain PyTorch, in one process
torchrun ... train.py pipeline FOLDER       prints those of DeepSpeed with the files that were written to FOLDER
"""

import json
import os
import sys
from pathlib import Path

os.environ["DS_ACCELERATOR"] = "cpu"

import torch
from torch import nn
from torch.nn.functional import cross_entropy, dropout, gelu

WORDS, WIDTH, LAYERS, STEPS = 50, 16, 8, 4
RATE = 0.01


class Embedding(nn.Embedding):
    """The head of the model."""

    def __init__(self) -> None:
        torch.manual_seed(1)
        super().__init__(WORDS, WIDTH)


class Block(nn.Module):
    """A body layer."""

    def __init__(self, number: int) -> None:
        super().__init__()
        torch.manual_seed(100 + number)
        self.wide, self.narrow = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)
        self.number = number

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Return the inputs and what the layer makes of them, some of it dropped."""
        torch.manual_seed(self.number)  # what is dropped must not depend on the cut
        return inputs + self.narrow(dropout(gelu(self.wide(inputs)), 0.1))


class Tail(nn.Linear):
    """The tail of the model."""

    def __init__(self) -> None:
        torch.manual_seed(2)
        super().__init__(WIDTH, WORDS)


def loss_fn(outputs: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return the loss of one microbatch."""
    return cross_entropy(outputs.flatten(0, 1), labels.flatten())


def microbatches(count: int) -> list[tuple[torch.Tensor, torch.Tensor]]:
    """Return inputs and labels."""
    made = torch.Generator().manual_seed(0)
    return [tuple(torch.randint(0, WORDS, (2, 12), generator=made) for _ in range(2)) for _ in range(count)]


def whole(count: int) -> list[float]:
    """Train without any pipeline."""
    model = nn.Sequential(Embedding(), *(Block(number) for number in range(LAYERS)), Tail())
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.0)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        total = 0.0
        for inputs, labels in microbatches(count):
            loss = loss_fn(model(inputs), labels) / count
            loss.backward()
            total += float(loss.detach())
        optimizer.step()
        losses.append(total)
    return losses


def pipeline(folder: Path, checkpoint: Path) -> list[float]:
    """Train with the written files, word for word, as `docs/targets/deepspeed.md` says."""
    sys.path.insert(0, str(folder))
    import deepspeed
    from deepspeed.pipe import LayerSpec

    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    layers = [LayerSpec(Embedding), *(LayerSpec(Block, number) for number in range(LAYERS)), LayerSpec(Tail)]
    names = {"layers": layers, "loss_fn": loss_fn}
    exec((folder / "use.py").read_text("utf-8"), names)
    config = json.loads((folder / "config.json").read_text("utf-8")) | {
        "train_micro_batch_size_per_gpu": 2,
        "optimizer": {"type": "Adam", "params": {"lr": RATE, "torch_adam": True, "weight_decay": 0.0}},
        "steps_per_print": 1000,
    }
    engine = deepspeed.initialize(model=names["module"], model_parameters=names["module"].parameters(), config=config)[
        0
    ]
    data = microbatches(config["gradient_accumulation_steps"])
    if checkpoint.exists():
        engine.load_checkpoint(checkpoint, tag="one", load_module_only=True)
        return [float(engine.train_batch(iter(data)))]
    losses = [float(engine.train_batch(iter(data))) for _ in range(STEPS - 1)]
    engine.save_checkpoint(checkpoint, tag="one")
    return [*losses, float(engine.train_batch(iter(data)))]


if __name__ == "__main__":
    found = whole(int(sys.argv[2])) if sys.argv[1] == "whole" else pipeline(*map(Path, sys.argv[2:]))
    if os.environ.get("RANK", "0") == "0":
        sys.stdout.write(f"losses {json.dumps(found)}\n")
