"""torchtitan's own trainer with the modules, the order and the recomputation of a plan.

evenflow plan layers.json --target torchtitan … --json plan.json
evenflow export plan.json --to torchtitan --output-folder .            (evenflow_plan.py and order.csv)
torchrun --nproc-per-node RANKS examples/training/with_torchtitan.py STEPS

Its checkpoints have the names of the whole model: a training that stopped goes on from the last one, also with the
files of another plan.
"""

import sys
from pathlib import Path

import torch
from torchtitan.models.llama3 import config_registry
from torchtitan.tools.logging import init_logger

sys.path.insert(0, str(Path.cwd()))
import evenflow_plan  # of this folder


def main() -> None:
    init_logger()
    config = evenflow_plan.with_plan(config_registry.llama3_debugmodel())
    config.training.steps = int(sys.argv[1])
    config.checkpoint.enable, config.checkpoint.interval, config.checkpoint.keep_latest_k = True, 3, 0
    config.checkpoint.last_save_model_only = False  # the optimizer too, so that the last one can be gone on from
    config.debug.seed = 0
    config.dump_folder = "."
    trainer = config.build()
    try:
        trainer.train()
    finally:
        trainer.close()
        torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
