"""Flags of evenflow through Megatron-LM's own `arguments.py`. Run by `check_arguments.py` beside a checkout of it."""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

import megatron.core  # noqa: E402
import torch  # noqa: E402
from megatron.core.models.hybrid import hybrid_layer_allocation as hybrid  # noqa: E402
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout  # noqa: E402
from megatron.training.arguments import parse_args  # noqa: E402

NAMES = (
    "num_layers", "mtp_num_layers", "pipeline_model_parallel_size", "microbatch_group_size_per_vp_stage",
    "recompute_granularity", "recompute_method", "recompute_num_layers", "recompute_modules",
)  # fmt: skip


def parsed_pattern(words: list[str], chunks: int) -> dict[str, Any]:
    """Return the symbols of every stage ``[rank][chunk]`` of a pattern, and those for further tokens."""
    sys.argv = ["pretrain_hybrid.py", *words]
    try:
        arguments = parse_args()
        pattern = hybrid.parse_hybrid_pattern(arguments.hybrid_layer_pattern)
        ranks = arguments.pipeline_model_parallel_size
        stages = [
            [
                "".join(hybrid.select_pipeline_segment(pattern.main_pattern, (rank, ranks), chunk)[0])
                for chunk in range(chunks)
            ]
            for rank in range(ranks)
        ]
    except (AssertionError, ValueError, SystemExit) as error:
        return {"error": str(error)}
    return {"stages": stages, "further": [pattern.mtp_pattern] * pattern.mtp_num_depths}


def parsed(words: list[str]) -> dict[str, Any]:
    """Return what the words say, with the letters of every stage ``[rank][chunk]``, or why they are refused."""
    sys.argv = ["pretrain_gpt.py", *words]
    try:
        arguments = parse_args()
        layout = PipelineParallelLayerLayout.from_str(
            arguments.pipeline_model_parallel_layout, arguments.pipeline_model_parallel_size
        )
        layout.validate_layer_layout(arguments.num_layers, arguments.mtp_num_layers)
    except (AssertionError, ValueError, SystemExit) as error:
        return {"error": str(error)}
    stages = [[[layer.name for layer in stage] for stage in rank] for rank in layout.layout]
    return {"stages": stages, **{name: getattr(arguments, name) for name in NAMES}}


if __name__ == "__main__":
    _program, cases_file, results_file = sys.argv
    torch.distributed.get_rank = lambda group: group[0]  # what stands for a group here
    torch.distributed.get_world_size = lambda group: group[1]
    hybrid.log_on_each_pipeline_stage = hybrid.log_single_rank = lambda *_arguments, **_options: None
    results = [
        parsed_pattern(case["words"], case["chunks"]) if isinstance(case, dict) else parsed(case)
        for case in json.loads(Path(cases_file).read_text("utf-8"))
    ]
    Path(results_file).write_text(json.dumps({"version": megatron.core.__version__, "results": results}), "utf-8")
