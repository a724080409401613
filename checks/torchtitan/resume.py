"""Runs examples/training/with_torchtitan.py on CPU; stops behind a step, if one is named, as a training that is ended.

Started by `trained.py` with torch.distributed.run. Its model, data and device are those of `train.py`; losses go into a
file for each rank.
"""

import json
import os
import runpy
import sys
from pathlib import Path
from typing import Any

import train
from torchtitan.models.llama3 import config_registry
from torchtitan.trainer import Trainer


def main(example: Path, steps: str, last: int) -> None:
    """Run the example until a step has ended."""
    config_registry.llama3_debugmodel = train.settings
    losses: dict[int, float] = {}
    train_all, forward_backward = Trainer.train, Trainer.forward_backward_step

    def with_cut_batches(trainer: Any) -> None:
        train.with_whole_batches(trainer.pp_schedule)
        train_all(trainer)

    def noted(trainer: Any, **values: Any) -> Any:
        loss = forward_backward(trainer, **values)
        losses[trainer.step] = float(loss.detach())
        return loss

    Trainer.train, Trainer.forward_backward_step = with_cut_batches, noted
    Trainer.should_continue_training = lambda trainer: trainer.step < last
    sys.argv = [str(example), steps]
    runpy.run_path(str(example), run_name="__main__")
    Path(f"rank{os.environ['RANK']}.json").write_text(json.dumps({"losses": losses}), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]))
