"""Flags of evenflow through Megatron-LM's own `arguments.py`. Run by `check_arguments.py` beside a checkout of it."""

import json
import sys
import warnings
from pathlib import Path
from typing import Any

warnings.filterwarnings("ignore")

import megatron.core  # noqa: E402
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout  # noqa: E402
from megatron.training.arguments import parse_args  # noqa: E402

NAMES = (
    "num_layers", "mtp_num_layers", "pipeline_model_parallel_size", "microbatch_group_size_per_vp_stage",
    "recompute_granularity", "recompute_method", "recompute_num_layers", "recompute_modules",
)  # fmt: skip


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
    results = [parsed(words) for words in json.loads(Path(cases_file).read_text("utf-8"))]
    Path(results_file).write_text(json.dumps({"version": megatron.core.__version__, "results": results}), "utf-8")
