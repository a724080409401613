"""What torchtitan 0.3 builds of Python modules. Run by `check.py` with the interpreter of its environment."""

import copy
import importlib.util
import json
import os
import re
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from stages import checkpointed, layer_modules, main, order_of, rank_of
from torch.distributed.pipelining.schedules import PipelineScheduleMulti, get_schedule_class
from torchtitan.config import ParallelismConfig
from torchtitan.distributed.pipeline_parallel import (
    _build_pipeline_schedule,
    _generate_llm_fqn_per_model_part,
    _get_pipeline_metadata,
    _pipeline_module_split,
)
from torchtitan.models.llama3.config_registry import llama3_debugmodel


def build(case: Path) -> dict[str, Any]:
    """Build the stages of every rank of a case."""
    os.chdir(case)
    spec = importlib.util.spec_from_file_location("evenflow_plan", case / "evenflow_plan.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    settings = llama3_debugmodel()
    first = settings.model_spec.model.layers[0]
    settings.model_spec.model.layers = [copy.deepcopy(first) for _ in range(int((case / "layers").read_text()))]
    settings = type(settings)(**{name: getattr(module.with_plan(settings), name) for name in settings.__slots__})
    parallelism = settings.parallelism
    size = parallelism.pipeline_parallel_degree
    with torch.device("meta"):
        model = settings.model_spec.model.build()
    ranks = []
    for rank in range(size):
        with rank_of(rank, size) as mesh:
            stages, parts = _pipeline_module_split(
                model,
                mesh,
                parallelism.pipeline_parallel_schedule,
                torch.device("cpu"),
                parallelism.module_fqns_per_model_part,
            )
            modules = [layer_modules(part) for part in parts]
            if settings.activation_checkpoint is not None:
                for part in parts:
                    settings.activation_checkpoint.build(dump_folder="").apply(part)
            schedule = _build_pipeline_schedule(
                parallelism=parallelism,
                local_batch_size=settings.training.local_batch_size,
                stages=stages,
                loss_fn=lambda output, target: (output, {}),
            )
            ranks.append(
                {
                    "stages": [stage.stage_index for stage in stages],
                    "modules": modules,
                    "checkpointed": [checkpointed(part) for part in parts],
                }
            )
    (case / "saved.json").write_text(json.dumps(settings.to_dict()), encoding="utf-8")
    return {"ranks": ranks, "order": order_of(schedule), "microbatches": schedule._n_microbatches}


def own_orders(sizes: list[list[Any]]) -> list[list[str] | None]:
    """Return the orders that PyTorch makes for names and sizes, None where it refuses; what overlaps in turn."""
    return [_own_order(*each) for each in sizes]


def _own_order(name: str, ranks: int, chunks: int, microbatches: int) -> list[str] | None:
    made = get_schedule_class(name)
    last = ranks * chunks - 1
    indices = (0, last) if name in ("ZBVZeroBubble", "DualPipeV") else range(0, last + 1, ranks)
    stages = [
        SimpleNamespace(
            stage_index=index,
            num_stages=last + 1,
            group_size=ranks,
            group_rank=0,
            group=None,
            is_first=index == 0,
            is_last=index == last,
            has_backward=True,
            device=torch.device("cpu"),
            submod=torch.nn.Identity(),
            stage_index_to_group_rank={stage: stage % ranks for stage in range(last + 1)},
        )
        for index in indices
    ]
    is_multi = issubclass(made, PipelineScheduleMulti)
    try:
        schedule = made(stages if is_multi else stages[0], n_microbatches=microbatches, loss_fn=lambda *_: None)
    except ValueError:
        return None
    orders = schedule.pipeline_order if is_multi else schedule._get_pipeline_order()
    return [
        re.sub(
            r"\((.+?);(.+?)\)OVERLAP_F_B",
            r"\1,\2",
            ",".join(str(each) for each in orders[rank] if each is not None and "REDUCE_GRAD" not in str(each)),
        )
        for rank in range(ranks)
    ]


def own_cuts(asked: list[dict[str, Any]]) -> list[list[list[str]] | None]:
    """Return the modules per stage that torchtitan chooses itself, None where it refuses."""
    return [_own_cut(**each) for each in asked]


def _own_cut(num_layers: int, **values: Any) -> list[list[str]] | None:
    parallelism = ParallelismConfig(**values)
    model = SimpleNamespace(layers=[None] * num_layers)
    dims = SimpleNamespace(pp=parallelism.pipeline_parallel_degree)
    try:
        return _generate_llm_fqn_per_model_part(*_get_pipeline_metadata(dims, parallelism, model))
    except ValueError:
        return None


if __name__ == "__main__":
    asked = json.loads((Path(sys.argv[1]) / "asked.json").read_text(encoding="utf-8"))
    main("torchtitan 0.3.0", build, orders=own_orders(asked["orders"]), cuts=own_cuts(asked["cuts"]))
