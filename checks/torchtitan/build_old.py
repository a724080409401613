"""What torchtitan 0.2 builds of TOML files. Run by `check.py` with the interpreter of its environment."""

import os
from pathlib import Path
from typing import Any

import torch
from stages import checkpointed, layer_modules, main, order_of, rank_of
from torchtitan.config import ConfigManager
from torchtitan.distributed.activation_checkpoint import apply_ac
from torchtitan.distributed.pipeline_parallel import build_pipeline_schedule, pipeline_module_split
from torchtitan.models.llama3.model.args import TransformerModelArgs
from torchtitan.models.llama3.model.model import Transformer


def build(case: Path) -> dict[str, Any]:
    """Build the stages of every rank of a case."""
    os.chdir(case)
    settings = ConfigManager().parse_args(["--job.config_file", str(case / "config.toml")])
    parallelism = settings.parallelism
    size = parallelism.pipeline_parallel_degree
    args = TransformerModelArgs(dim=16, n_layers=int((case / "layers").read_text()), n_heads=2, vocab_size=32)
    with torch.device("meta"):
        model = Transformer(args)
    ranks = []
    for rank in range(size):
        with rank_of(rank, size) as mesh:
            stages, parts = pipeline_module_split(
                model,
                mesh,
                parallelism.pipeline_parallel_schedule,
                torch.device("cpu"),
                parallelism.module_fqns_per_model_part,
            )
            modules = [layer_modules(part) for part in parts]
            if settings.activation_checkpoint.mode != "none":
                for part in parts:
                    apply_ac(part, settings.activation_checkpoint)
            schedule = build_pipeline_schedule(settings, stages, lambda output, target: output)
            ranks.append(
                {
                    "stages": [stage.stage_index for stage in stages],
                    "modules": modules,
                    "checkpointed": [checkpointed(part) for part in parts],
                }
            )
    return {"ranks": ranks, "order": order_of(schedule), "microbatches": schedule._n_microbatches}


if __name__ == "__main__":
    main("torchtitan 0.2.2", build)
