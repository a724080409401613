"""What NeMo AutoModel builds of recipes. Run by `check.py` with the interpreter of its environment."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
import yaml
from nemo_automodel.components.distributed.pipelining.config import PipelineConfig
from nemo_automodel.components.distributed.pipelining.functional import (
    build_pipeline_schedule,
    calculate_virtual_stages,
    generate_hf_model_fqn_per_model_part,
    split_model_into_stages,
)
from stages import layer_modules, main, order_of, rank_of
from torch.distributed.pipelining.schedules import PipelineScheduleSingle, get_schedule_class
from transformers import LlamaConfig, LlamaForCausalLM


def build(case: Path) -> dict[str, Any]:
    """Build the stages of every rank of a case."""
    os.chdir(case)
    recipe = yaml.safe_load((case / "recipe.yaml").read_text(encoding="utf-8"))
    size = recipe["distributed"]["pp_size"]
    pipeline = PipelineConfig(**recipe["distributed"]["pipeline"])
    config = LlamaConfig(
        hidden_size=16,
        intermediate_size=16,
        num_attention_heads=2,
        num_hidden_layers=int((case / "layers").read_text()),
        vocab_size=32,
    )
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    ranks = []
    for rank in range(size):
        with rank_of(rank, size) as mesh:
            stages, parts = split_model_into_stages(
                model,
                mesh,
                "pp",
                pipeline.pp_schedule,
                torch.device("cpu"),
                pipeline.module_fqns_per_model_part,
                layers_per_stage=pipeline.layers_per_stage,
            )
            schedule = build_pipeline_schedule(
                pipeline.pp_schedule_csv,
                pipeline.pp_schedule,
                pipeline.pp_microbatch_size,
                recipe["step_scheduler"]["local_batch_size"],
                stages,
                lambda output, target: output,
            )
            ranks.append(
                {
                    "stages": [stage.stage_index for stage in stages],
                    "modules": [
                        [*layer_modules(part.model, "model."), *(["lm_head"] if part.lm_head is not None else [])]
                        for part in parts
                    ],
                    "checkpointed": [[] for _part in parts],
                }
            )
    return {"ranks": ranks, "order": order_of(schedule), "microbatches": schedule._n_microbatches}


def own_cuts(asked: list[dict[str, Any]]) -> list[list[list[str]] | None]:
    """Return the modules per stage that NeMo AutoModel chooses itself, None where it refuses."""
    return [_own_cut(**each) for each in asked]


def _own_cut(
    num_layers: int, pp_size: int, pp_schedule: str, layers_per_stage: int | None, rounding: str | None
) -> list[list[str]] | None:
    is_single = issubclass(get_schedule_class(pp_schedule), PipelineScheduleSingle)
    try:
        count, _per_rank = calculate_virtual_stages(num_layers, layers_per_stage, pp_size, is_single, rounding)
        return generate_hf_model_fqn_per_model_part(count, num_layers)
    except ValueError:
        return None


if __name__ == "__main__":
    asked = json.loads((Path(sys.argv[1]) / "asked.json").read_text(encoding="utf-8"))
    main("nemo-automodel 0.7.0", build, cuts=own_cuts(asked["cuts"]))
