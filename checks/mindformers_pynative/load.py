"""Prints what MindFormers in PyNative mode reads in configurations; runs in its own environment, without evenflow.

    python load.py FOLDER

writes, for every NAME.yaml of FOLDER, NAME.seen.json: the layers of every stage and the schedule by the package's own
classes, and the layers that its `apply_ac` wraps, wholly or their modules; or the error it raises. What is known of the
package is in installed.json. MindSpore and hyper-parallel, which is not on the package index, have stand-ins here.
"""

import importlib.util
import json
import logging
import re
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

import yaml

PACKAGE = Path(sysconfig.get_paths()["purelib"], "mindformers", "pynative")


class Cell:
    """A module that keeps the modules in it apart from other attributes, as MindSpore's does."""

    def __init__(self, **cells: "Cell") -> None:
        object.__setattr__(self, "_cells", cells)

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Cell):
            self._cells[name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        if name in self._cells:
            return self._cells[name]
        raise AttributeError(name)


class Wrapped(Cell):
    """A module that is recomputed."""


class Linear(Cell):
    """A linear layer under tensor parallelism, which notes its transfers so."""

    def __init__(self) -> None:
        super().__init__()
        self._comm_ops = {"output.reducescatter": {"fn": transfer, "domain": "tp"}}


def transfer(value: Any) -> Any:
    """Stand for a collective."""
    return value


def stand_in(name: str, **values: Any) -> None:
    """Let `import name` find these values."""
    module = types.ModuleType(name)
    module.__dict__.update(values)
    module.__path__ = []
    sys.modules[name] = module


def load(name: str, path: Path) -> Any:
    """Import a module of the package from its file, without the package around it."""
    folders = [str(path.parent)] if path.name == "__init__.py" else None
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=folders)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


stand_in("mindspore", nn=types.SimpleNamespace(Cell=Cell), Tensor=type("Tensor", (), {}))
stand_in("hyper_parallel", PipelineStage=object)
stand_in("hyper_parallel.core")
stand_in(
    "hyper_parallel.core.activation_checkpoint",
    CheckpointPolicy=None,
    checkpoint_exclude_wrapper=None,
    checkpoint_wrapper=lambda cell, **_options: Wrapped(**getattr(cell, "_cells", {})),
    swap_wrapper=None,
    SwapManager=None,
)
SCHEDULES = {
    name: type(name, (), {"__init__": lambda self, stages, micro_batch_num: None})
    for name in ("Schedule1F1B", "ScheduleInterleaved1F1B", "ScheduleGPipe")
}
stand_in("hyper_parallel.core.pipeline_parallel", **SCHEDULES)
stand_in("mindformers")
stand_in("mindformers.pynative")
stand_in("mindformers.tools")
stand_in("mindformers.tools.logger", logger=logging.getLogger("mindformers"))
stand_in("mindformers.tools.check_rules", check_yaml_depth_before_loading=None)
logging.disable()
CONFIG = load("mindformers.pynative.config", PACKAGE / "config" / "__init__.py").config
PIPELINE = load("pipeline_parallel", PACKAGE / "distributed" / "pipeline_parallel.py")
CHECKPOINT = load("activation_checkpoint", PACKAGE / "distributed" / "activation_checkpoint.py")


def layer() -> Cell:
    """Return a layer as far as it matters here."""
    return Cell(input_layernorm=Cell(), self_attention=Cell(), mlp=Cell(linear_fc2=Linear(), shared_experts=Cell()))


def wrapped_in(cell: Cell, above: str = "") -> list[str]:
    """Return the paths of the modules that are recomputed, in order."""
    found = []
    for name, inner in cell._cells.items():
        found += [f"{above}{name}"] if isinstance(inner, Wrapped) else wrapped_in(inner, f"{above}{name}.")
    return found


def read(path: Path) -> dict[str, Any]:
    """Return what the package makes of a configuration."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    num_layers = data["model"]["num_hidden_layers"]
    parallelism = CONFIG.ParallelismConfig.from_dict(data["parallelism"])
    recompute = CONFIG.RecomputeConfig.from_dict(data["recompute"])
    setting = PIPELINE.PpLayerSetting(num_layers, parallelism)
    schedule_type = PIPELINE._infer_schedule_type(parallelism)
    schedule = PIPELINE._create_schedule(schedule_type, [], 1, parallelism)
    stages, kinds = [], {}
    for stage in range(setting.num_virtual_stages):
        first, last = setting.get_layer_range(stage)
        stages.append([first, last])
        model = types.SimpleNamespace(
            config=types.SimpleNamespace(num_layers=num_layers, mtp_num_layers=0),
            layers={index: layer() for index in range(first, last + 1)},
            layer_start=first,
            layer_end=last,
        )
        CHECKPOINT.apply_ac(
            model, recompute, CONFIG.RecomputeCommConfig(), CONFIG.SwapConfig(), parallelism.pipeline_parallel
        )
        for index, each in model.layers.items():
            kinds[index] = "full" if isinstance(each, Wrapped) else ",".join(wrapped_in(each))
    return {
        "ranks": setting.pp,
        "stages": stages,
        "kinds": [kinds[index] for index in sorted(kinds)],
        "schedule": type(schedule).__name__,
    }


def installed() -> dict[str, bool]:
    """Return whether the package behaves as the page says where no configuration shows it."""
    model = types.SimpleNamespace(layers={0: layer()}, layer_start=0, layer_end=0)
    everything = {r"mlp\.linear_fc2\.output\.reducescatter": ["0"], "input_layernorm": ["0"]}
    CHECKPOINT._config_list = {}
    CHECKPOINT.apply_recompute(
        model, CONFIG.RecomputeConfig(), CONFIG.RecomputeCommConfig(enable=True, select_module=everything)
    )
    cells = model.layers[0]._cells
    untouched = cells["mlp"].linear_fc2._comm_ops["output.reducescatter"]["fn"] is transfer
    trainer = (PACKAGE / "trainer" / "trainer.py").read_text(encoding="utf-8")
    return {
        "recompute_comm leaves collectives and norms alone": untouched
        and not isinstance(cells["input_layernorm"], Wrapped),
        "the trainer sets the number of microbatches": bool(
            re.search(r"pipeline_parallel_microbatch_size = self\.num_accumulation_steps", trainer)
        ),
    }


def main() -> None:
    """Read every file of the folder and write what MindFormers sees."""
    Path(sys.argv[1], "installed.json").write_text(json.dumps(installed()), encoding="utf-8")
    for path in sorted(Path(sys.argv[1]).glob("*.yaml")):
        try:
            seen = read(path)
        except Exception as error:  # noqa: BLE001  # whatever it raises is its answer
            seen = {"error": f"{type(error).__name__}: {error}"}
        path.with_suffix(".seen.json").write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main()
