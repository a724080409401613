"""Put YAML and overrides into a configuration of Megatron-Bridge. Runs in an environment with it, without evenflow.

Its own code merges them and hands the result to megatron-core, which says how many layers every cell gets. Only the
modules of its configuration are loaded: the package as a whole wants a GPU.

Reads a JSON list of objects from stdin, with the number of ``layers``, the ``yaml`` and the ``overrides``; writes for
each what the configuration has, or the message of the error.
"""

import contextlib
import importlib
import importlib.util
import json
import logging
import sys
import tempfile
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

warnings.filterwarnings("ignore")
logging.disable(logging.CRITICAL)

import torch  # noqa: E402
from megatron.core.transformer.enums import LayerType  # noqa: E402


def bare_package() -> None:
    """Make Megatron-Bridge a package whose modules can be imported one by one, without running what is around them."""
    megatron = importlib.util.find_spec("megatron")
    assert megatron is not None
    assert megatron.submodule_search_locations
    folders = [Path(folder) / "bridge" for folder in megatron.submodule_search_locations]
    for name in ("", "models", "training", "training/utils", "utils"):
        package = ModuleType(".".join(filter(None, ("megatron.bridge", *name.split("/")))))
        package.__path__ = [str(folder / name) for folder in folders if (folder / name).is_dir()]
        sys.modules[package.__name__] = package


bare_package()
MLATransformerConfig = importlib.import_module("megatron.bridge.models.transformer_config").MLATransformerConfig
overriding = importlib.import_module("megatron.bridge.training.utils.omegaconf_utils")


@dataclass
class Container:
    """The part of Megatron-Bridge's configuration that a plan decides."""

    model: Any = field(default=None)


def read(case: dict[str, Any], folder: Path) -> object:
    """Return the layers of every cell and the settings of a case; the message where it is refused."""
    file = folder / "overrides.yaml"
    file.write_text(case["yaml"], encoding="utf-8")
    model_of_all_modules = MLATransformerConfig(
        num_layers=case["layers"],
        hidden_size=8,
        num_attention_heads=2,
        multi_latent_attention=True,
        num_moe_experts=2,
        moe_grouped_gemm=True,
        add_bias_linear=False,
        params_dtype=torch.float32,
    )
    container = Container(model_of_all_modules)
    try:
        overriding.process_config_with_overrides(
            container, str(file) if case["yaml"] else None, case["overrides"] or None
        )
        model = container.model
        model.finalize()
        by_rank = model.pipeline_model_parallel_layout.layout
        layers = [[cell.count(LayerType.decoder) for cell in chunk] for chunk in zip(*by_rank, strict=True)]
    except Exception as error:  # noqa: BLE001 (whatever it refuses)
        return f"{type(error).__name__}: {error}"
    return {
        "layers": layers,
        "group": model.microbatch_group_size_per_vp_stage,
        "granularity": model.recompute_granularity,
        "method": model.recompute_method,
        "number": model.recompute_num_layers,
        "modules": model.recompute_modules,
        "moved": model.offload_modules if model.fine_grained_activation_offloading else [],
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary, contextlib.redirect_stdout(sys.stderr):
        found = [read(case, Path(temporary)) for case in json.load(sys.stdin)]
    json.dump(found, sys.stdout)
