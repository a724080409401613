"""Prints what MindFormers reads in training YAMLs; runs in its own environment and knows nothing of evenflow.

    python mindformers_load.py FOLDER

writes, for every NAME.yaml of FOLDER, NAME.seen.json: what the package's own code (configuration file, context, model
configuration, layer setting) decides for each layer, or the error it raises; and what the packages know, in
installed.json.
"""

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import mindspore
from mindformers.core.context.build_context import MFContextOperator, build_mf_context, build_parallel_context
from mindformers.core.parallel_config import build_parallel_config
from mindformers.models.build_config import build_model_config
from mindformers.parallel_core.training_graph.transformer.utils import LayerSetting
from mindformers.tools import MindFormerConfig
from mindformers.trainer import base_trainer
from mindspore import context, nn
from mindspore.ops import operations


class Block(nn.Cell):
    """An operator tree with the names that the patterns look for."""

    def __init__(self) -> None:
        super().__init__()
        self.mul = operations.Mul()
        self.norm = operations.Add()


class Layer(nn.Cell):
    """A decoder layer as far as the layer setting looks at it: operators `mlp.mul` and `mlp.norm`, or the old names."""

    def __init__(self) -> None:
        super().__init__()
        self.mlp = Block()
        self.feed_forward = Block()
        self.is_recomputed = False

    def recompute(self, **_: Any) -> None:
        """Note that the layer setting asks for full recomputation."""
        self.is_recomputed = True


def load(path: Path) -> dict[str, Any]:
    """Return stage, chunk and recomputation of every layer, and the settings of the pipeline."""
    MFContextOperator.reset_instance()
    context.reset_auto_parallel_context()
    config = MindFormerConfig(str(path))
    build_mf_context(config)
    operator = build_parallel_context(config)
    operator._set_ms_auto_parallel_context(**operator.parallel_ctx)
    build_parallel_config(config)
    config.model.model_config.parallel_config = config.parallel_config
    model_config = build_model_config(config.model.model_config)
    if config.use_legacy:
        arguments = (
            model_config.num_layers,
            model_config.offset,
            config.parallel_config,
            model_config.pp_interleave_num,
        )
    else:
        core = model_config.convert_to_transformer_config()
        arguments = (core.num_layers, core.offset, core, core.virtual_pipeline_model_parallel_size)
    setting = LayerSetting(*arguments)
    layers = []
    for index in range(setting.num_layers):
        layer = Layer()
        setting(layer, index)
        block = layer.feed_forward if config.use_legacy else layer.mlp
        layers.append(
            {
                "rank": int(layer.pipeline_stage),
                "chunk": int(setting.interleave_ids[index]),
                "full": layer.is_recomputed,
                "select": bool(block.mul.attrs.get("recompute", False)),
                "comm": bool(block.norm.attrs.get("recompute_comm_op", False)),
            }
        )
    return {
        "layers_per_cell": setting.layer_list.tolist(),
        "interleave": context.get_auto_parallel_context("pipeline_interleave"),
        "scheduler": context.get_auto_parallel_context("pipeline_scheduler"),
        "stages": context.get_auto_parallel_context("pipeline_stages"),
        "micro_batch_num": config.parallel_config.micro_batch_num,
        "seq_split_num": config.parallel_config.seq_split_num,
        "layers": layers,
    }


def installed() -> dict[str, bool]:
    """Return whether the packages know what a block says of them and no configuration shows.

    These are read when a graph is compiled or a trainer starts, which needs devices.
    """
    compiler = Path(mindspore.__file__).parent.joinpath("lib", "libmindspore_frontend.so").read_bytes()
    return {
        "the variable of the less-memory order": b"ENABLE_LESS_MEM_VPP" in compiler,
        "too few microbatches are refused": b"MicroBatch num must be larger or equal than StageNum" in compiler,
        "full recompute is refused with split sequences": "When using seq pipe, cannot apply full recompute"
        in inspect.getsource(base_trainer),
    }


def main() -> None:
    """Read every file of the folder and write what MindFormers sees."""
    Path(sys.argv[1], "installed.json").write_text(json.dumps(installed()), encoding="utf-8")
    for path in sorted(Path(sys.argv[1]).glob("*.yaml")):
        try:
            seen = load(path)
        except Exception as error:  # noqa: BLE001  # whatever it raises is its answer
            seen = {"error": f"{type(error).__name__}: {error}"}
        path.with_suffix(".seen.json").write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main()
