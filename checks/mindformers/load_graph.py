"""Prints what MindSpore keeps, moves and computes again of real layers; runs in its own environment, without evenflow.

    python load_graph.py FOLDER

writes, for every NAME.yaml of FOLDER, NAME.seen.json. Each file goes the whole way that a training takes: the package's
configuration and its conversion for newer models, its layer setting, its `TransformerLayer`, and MindSpore's compiler
with the graph of the backward, whose passes insert the copies. The compiler stops before kernels, which a CPU lacks
for flash attention; by then the graph that it wrote out has everything: what the forward hands to the backward is kept,
or is a copy to the host (`MoveTo`).
"""

import contextlib
import json
import os
import re
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

os.environ |= {"RUN_MODE": "train", "GLOG_v": "3", "MS_DEV_SAVE_GRAPHS": "2"}

import mindspore
import numpy
import yaml
from mindformers.core.context.build_context import MFContextOperator
from mindformers.core.parallel_config import build_parallel_config
from mindformers.models.qwen3.configuration_qwen3 import Qwen3Config
from mindformers.parallel_core.training_graph.base_models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from mindformers.parallel_core.training_graph.device_matrix import layout
from mindformers.parallel_core.training_graph.transformer import utils
from mindformers.parallel_core.transformer_config_utils import convert_to_transformer_config
from mindformers.parallel_core.utils.spec_utils import build_module
from mindformers.tools import MindFormerConfig
from mindspore import Tensor, nn, ops
from mindspore.graph.lazy_inline import lazy_inline

HANDED_ON = "18_*.ir"
"""The graph behind all passes of the front end."""
VIEWS = ("Reshape", "Depend", "TupleGetItem")
"""Operators that return memory of what they read."""
ITEM = {"BFloat16": 2, "Float16": 2, "Float32": 4, "UInt8": 1, "Int32": 4, "Int64": 8, "Bool": 1}
NODE = re.compile(r"^  %(\d+)\([^)]*\) = (.*)$")
ARGUMENTS = re.compile(r"^Partial\((.*?)\)(?: |$)")


class Stage(nn.Cell):
    """Layers that are compiled once and called for every microbatch, as a stage of a pipeline is."""

    @lazy_inline
    def __init__(self, config: Any, setting: Any) -> None:
        super().__init__()
        spec = get_gpt_layer_local_spec(
            use_contiguous_weight_layout_attention=config.use_contiguous_weight_layout_attention,
            use_interleaved_weight_layout_mlp=config.use_interleaved_weight_layout_mlp,
            qk_layernorm=config.qk_layernorm,
        )
        self.layers = nn.CellList(
            [build_module(spec, config=config, layer_number=index + 1) for index in range(config.num_layers)]
        )
        for index, layer in enumerate(self.layers):
            setting(layer, index)
            for cell in (layer, *(inner for _name, inner in layer.cells_and_names())):
                cell.pipeline_stage = 0  # all on this one device

    def construct(self, hidden: Tensor, mask: Tensor) -> Tensor:
        """Run the layers."""
        for layer in self.layers:
            hidden = layer(hidden, mask)[0]
        return hidden


class Backward(nn.Cell):
    """Gradients of the weights of a stage."""

    def __init__(self, stage: Stage) -> None:
        super().__init__()
        self.stage = stage
        self.weights = mindspore.ParameterTuple(stage.trainable_params())
        self.gradient = ops.GradOperation(get_by_list=True)

    def construct(self, hidden: Tensor, mask: Tensor) -> Any:
        """Return them."""
        return self.gradient(self.stage, self.weights)(hidden, mask)


def compiled(path: Path, graphs: Path) -> str:
    """Return the text of the graph that MindSpore makes of the layers of a file."""
    config = MindFormerConfig(**yaml.safe_load(path.read_text(encoding="utf-8")))
    build_parallel_config(config)
    model = convert_to_transformer_config(
        Qwen3Config(**config.model.model_config, parallel_config=config.parallel_config)
    )
    layout.init_layout(model)
    utils.is_legacy_model = lambda: False
    setting = utils.LayerSetting(model.num_layers, model.offset, model, 1)
    shutil.rmtree(graphs, ignore_errors=True)
    mindspore.set_context(mode=mindspore.GRAPH_MODE, save_graphs=2, save_graphs_path=str(graphs))
    hidden = Tensor(numpy.ones((model.seq_length, 1, model.hidden_size)), mindspore.bfloat16)
    mask = Tensor(numpy.ones((1, 1, model.seq_length, model.seq_length)), mindspore.uint8)
    with contextlib.suppress(RuntimeError, TypeError):  # no kernels here
        Backward(Stage(model, setting))(hidden, mask)
    return next(iter(graphs.glob(HANDED_ON))).read_text(encoding="utf-8")


def handed_on(text: str) -> list[dict[str, Any]]:
    """Return what the forward hands to the backward: of which operator, how many bytes, and whether it is a copy.

    Memory that several share is one of them, and kept where any of them is.
    """
    forward = next(graph for graph in text.split("\nsubgraph @")[1:] if "▸" in graph.split("(")[0])
    lines = forward.splitlines()
    nodes: dict[str, tuple[str, str, str]] = {}
    for number, line in enumerate(lines):
        if node := NODE.match(line):
            scope = next((below for below in lines[number + 1 : number + 4] if "Fullname" in below), "")
            nodes[node[1]] = (
                node[2],
                lines[number + 1].rpartition("->")[2],
                scope.partition("scope: (")[2].rstrip(")"),
            )
    call = next(match for body, _type, _scope in nodes.values() if (match := ARGUMENTS.match(body)))
    held: dict[tuple[str, str], dict[str, Any]] = {}
    for name in (word.strip()[1:] for word in call[1].split(",")[1:]):
        if name not in nodes or "Tensor" not in nodes[name][1]:
            continue  # weights, the input, and the order of side effects
        moves = operator(nodes[name][0]) == "MoveTo"
        source = read(nodes[name][0]) if moves else name
        base = memory_of(source, nodes)
        scope = nodes[base[0]][2]
        layer = re.search(r"(\d+)-TransformerLayer/(.*)", scope)
        if layer is None:
            continue  # parameters as they are loaded
        entry = held.setdefault(
            base, {"layer": int(layer[1]), "of": layer[2], "bytes": size(nodes[source][1]), "moves": True}
        )
        entry["moves"] &= moves
    return list(held.values())


def operator(body: str) -> str:
    """Return the name of the operator of a node."""
    return body.partition("(")[0].removeprefix("PrimFunc_")


def read(body: str) -> str:
    """Return the first node that a node reads."""
    found = re.search(r"\(%(\d+)", body)
    assert found is not None, body
    return found[1]


def memory_of(name: str, nodes: Mapping[str, tuple[str, str, str]]) -> tuple[str, str]:
    """Return the node whose memory a node returns, and which element of what that returns."""
    while operator(nodes[name][0]) in VIEWS:
        body = nodes[name][0]
        name = read(body)
        if operator(body) == "TupleGetItem":
            found = re.search(r"I64\((\d+)\)", body)
            return name, found[1] if found else ""
    return name, ""


def size(type_text: str) -> int:
    """Return the bytes of a tensor's type, as the graph writes it."""
    found = re.search(r"Tensor\[(\w+)\], \(([\d, ]*)\)", type_text)
    assert found is not None, type_text
    bytes_of = ITEM[found[1]]
    for extent in filter(str.strip, found[2].split(",")):
        bytes_of *= int(extent)
    return bytes_of


def main() -> None:
    """Read every file of the folder and write what MindSpore makes of it."""
    mindspore.set_context(device_target="CPU")
    MFContextOperator.reset_instance()
    for path in sorted(Path(sys.argv[1]).glob("*.yaml")):
        try:
            seen: Any = handed_on(compiled(path, path.with_suffix(".graphs")))
        except Exception as error:  # noqa: BLE001  # whatever it raises is its answer
            seen = f"{type(error).__name__}: {error}"
        path.with_suffix(".seen.json").write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main()
