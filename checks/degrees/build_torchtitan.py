"""What torchtitan makes of degrees: the sizes of its meshes, and whether its model takes them.

Run by `check.py` in an environment that has torchtitan, 0.2.2 or 0.3.0, on its own code, on torch's fake process group.
"""

import copy
import inspect
import logging
import warnings
from types import SimpleNamespace
from typing import Any

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

import torch  # noqa: E402
from answers import answer  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402
from torchtitan.distributed.parallel_dims import ParallelDims  # noqa: E402

FIELDS = tuple(inspect.signature(ParallelDims).parameters)
MESHES = ("pp", "dp_replicate", "tp", "cp", "ep", "efsdp")


def build(case: dict[str, Any]) -> dict[str, Any]:
    """Build the meshes of a case, and let the model check its settings."""
    parallelism = case["parallelism"]
    degrees = {
        "dp_replicate": parallelism["data_parallel_replicate_degree"],
        "dp_shard": parallelism["data_parallel_shard_degree"],
        "cp": parallelism["context_parallel_degree"],
        "tp": parallelism["tensor_parallel_degree"],
        "pp": parallelism["pipeline_parallel_degree"],
        "ep": parallelism["expert_parallel_degree"],
        "etp": parallelism.get("expert_tensor_parallel_degree", 1),
        "world_size": case["devices"],
    }
    torch.distributed.init_process_group("fake", store=FakeStore(), rank=0, world_size=case["devices"])
    try:
        dims = ParallelDims(**{name: value for name, value in degrees.items() if name in FIELDS})
        dims.build_mesh()
        found = {name: dims.get_optional_mesh(name) for name in MESHES}
        check_model(case)
        return {name: 1 if mesh is None else mesh.size() for name, mesh in found.items()} | {
            "divisor": dims.seq_len_divisor
        }
    finally:
        torch.distributed.destroy_process_group()


def check_model(case: dict[str, Any]) -> None:
    """Let torchtitan's own model check tensor and pipeline ranks; 0.2.2 has no such check."""
    try:
        from torchtitan.config import ParallelismConfig
        from torchtitan.models.llama3.config_registry import llama3_debugmodel
    except ImportError:
        return
    model = copy.deepcopy(llama3_debugmodel().model_spec.model)
    model.first_attention.n_heads, model.first_attention.n_kv_heads = case["model"]["heads"], case["model"]["kv_heads"]
    model.enable_weight_tying = case["model"]["tied"]
    parallelism = ParallelismConfig()
    for name in ("tensor_parallel_degree", "pipeline_parallel_degree"):
        setattr(parallelism, name, case["parallelism"][name])
    model.update_from_config(config=SimpleNamespace(parallelism=parallelism))


if __name__ == "__main__":
    answer(build)
