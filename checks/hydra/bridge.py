"""Put YAML and overrides into a configuration of Megatron-Bridge. Runs in an environment with it, without evenflow.

Its own code merges them and hands the result to megatron-core, which says how many layers every cell gets. Only the
modules of its configuration are loaded: the package as a whole wants a GPU.

Reads a JSON list of objects from stdin, with the number of ``layers``, the ``yaml`` and the ``overrides``; writes for
each what the configuration has, or the message of the error.
"""

import contextlib
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


def module_of_bridge(path: str) -> ModuleType:
    """Return a module of Megatron-Bridge without the package around it."""
    megatron = importlib.util.find_spec("megatron")
    assert megatron is not None
    assert megatron.submodule_search_locations
    files = [Path(folder) / "bridge" / path for folder in megatron.submodule_search_locations]
    spec = importlib.util.spec_from_file_location(
        path.replace("/", "_").removesuffix(".py"), next(filter(Path.exists, files))
    )
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


TransformerConfig = module_of_bridge("models/transformer_config.py").TransformerConfig
overriding = module_of_bridge("training/utils/omegaconf_utils.py")


@dataclass
class Container:
    """The part of Megatron-Bridge's configuration that a plan decides."""

    model: Any = field(default=None)


def read(case: dict[str, Any], folder: Path) -> object:
    """Return the layers of every cell and the settings of a case; the message where it is refused."""
    file = folder / "overrides.yaml"
    file.write_text(case["yaml"], encoding="utf-8")
    container = Container(
        TransformerConfig(num_layers=case["layers"], hidden_size=8, num_attention_heads=2, params_dtype=torch.float32)
    )
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
    }


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as temporary, contextlib.redirect_stdout(sys.stderr):
        found = [read(case, Path(temporary)) for case in json.load(sys.stdin)]
    json.dump(found, sys.stdout)
