"""Prints what MindFormers computes again under patterns of modules; runs in its own environment, without evenflow.

    python load_sets.py FOLDER

writes, for every NAME.yaml of FOLDER, NAME.seen.json: what the package's own layer setting makes of each layer, once
dense and once with experts: whether it is computed again or moved as a whole, and the paths of the cells and operators
that are. MindSpore and the
rest of the package have stand-ins here, so that cells note what they are told.
"""

import importlib.util
import json
import sys
import sysconfig
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import yaml

SETTING = Path(sysconfig.get_paths()["purelib"], "mindformers/parallel_core/training_graph/transformer/utils.py")


class Cell:
    """A module that keeps the cells in it apart from other attributes, as MindSpore's does."""

    def __init__(self, *operators: str) -> None:
        self.__dict__ |= {"_cells": {}, "runs_again": False, "moves": False}
        for name in operators:
            setattr(self, name, Operator())

    def __setattr__(self, name: str, value: Any) -> None:
        (self._cells if isinstance(value, Cell) else self.__dict__)[name] = value

    def __getattr__(self, name: str) -> Any:
        if name in self.__dict__.get("_cells", {}):
            return self._cells[name]
        raise AttributeError(name)

    def recompute(self, **_options: Any) -> None:
        """Note that it is computed again."""
        self.__dict__["runs_again"] = True

    def offload(self, **_options: Any) -> None:
        """Note that what it returns moves."""
        self.__dict__["moves"] = True

    def set_comm_fusion(self, _index: int) -> None:
        """Leave communication as it is."""


class Operator:
    """A primitive."""

    runs_again = moves = False

    def recompute(self, mode: bool = True) -> None:
        """Note that it is computed again."""
        self.runs_again = mode

    def _offload(self, **_options: Any) -> None:
        self.moves = True


class AlwaysAgain:
    """A primitive that the package computes again in any case, whose flag stands where others have the method."""

    runs_again = moves = False
    recompute = True

    def _offload(self, **_options: Any) -> None:
        self.moves = True


def linear(*, reads_again: bool) -> Cell:
    """Return a product; the reshape of what it reads is computed again, or is not."""
    cell = Cell("matmul", "cast", "add")
    cell.reshape = AlwaysAgain() if reads_again else Operator()
    return cell


def mlp() -> Cell:
    """Return a dense MLP, or shared experts."""
    cell = Cell("mul", "split", "transpose", "add")
    cell.linear_fc1, cell.linear_fc2 = linear(reads_again=True), linear(reads_again=False)
    cell.activation_func = Cell("silu")
    cell.reshape = AlwaysAgain()
    return cell


def layer(*, has_experts: bool) -> Cell:
    """Return a layer by the names of `TransformerLayer`, `SelfAttention`, `MLP` and `MoELayer`."""
    cell = Cell("add")
    cell.input_layernorm, cell.pre_mlp_layernorm = Cell("norm", "cast"), Cell("norm", "cast")
    cell.self_attention, cell.pre_cross_attn_layernorm = Cell("reshape", "cast", "tnd_transpose"), Cell()
    cell.self_attention.core_attention = Cell("flash_attention", "reshape")
    cell.self_attention.linear_qkv = linear(reads_again=True)
    cell.self_attention.linear_proj = linear(reads_again=False)
    cell.mlp = Cell("mul") if has_experts else mlp()
    if has_experts:
        cell.mlp.router, cell.mlp.experts, cell.mlp.shared_experts = Cell("mul"), Cell(), mlp()
    return cell


def noted(cell: Cell, note: str, above: str = "") -> Iterator[str]:
    """Yield the paths of all in a cell with a note: `runs_again`, or `moves`."""
    for name, inner in (*cell._cells.items(), *cell.__dict__.items()):
        if isinstance(inner, Cell | Operator | AlwaysAgain):
            if getattr(inner, note):
                yield f"{above}{name}"
            if isinstance(inner, Cell):
                yield from noted(inner, note, f"{above}{name}.")


def swap_config(*, swap: bool, layer_swap: Any, op_swap: Any) -> Any:
    """Return what the package's class makes of the keys: the entries of every pattern."""
    by_pattern: dict[str, list[Any]] = {}
    for entry in op_swap or []:
        for pattern in entry["op_name"]:
            by_pattern.setdefault(pattern, []).append(entry)
    return types.SimpleNamespace(swap=bool(swap), layer_swap=layer_swap or [], op_swap=by_pattern)


def layer_setting() -> Any:
    """Return the package's class, from its file, without the package around it."""
    names = ("mindspore", "mindspore.ops", "mindspore.ops.operations", "mindformers", "mindformers.tools.logger")
    for name in (*names, "mindformers.tools", "mindformers.modules", "mindformers.core"):
        sys.modules[name] = MagicMock()
    sys.modules["mindspore"].nn.Cell = Cell
    sys.modules["mindspore"].get_auto_parallel_context = lambda _name: True
    transformer = types.SimpleNamespace(
        TransformerSwapConfig=swap_config,
        TransformerRecomputeConfig=types.SimpleNamespace,
    )
    sys.modules["mindformers.modules.transformer"] = transformer  # type: ignore[assignment]
    sys.modules["mindformers.core.context"] = types.SimpleNamespace(is_legacy_model=lambda: False)  # type: ignore[assignment]
    spec = importlib.util.spec_from_file_location("layer_setting", SETTING)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.LayerSetting


def read(path: Path, setting_class: Any) -> list[dict[str, Any]]:
    """Return what is computed again and moved of every layer."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    model, recompute = data["model"]["model_config"], data["recompute_config"]
    usual = dict.fromkeys(("parallel_optimizer_comm_recompute", "recompute_slice_activation"), False)
    usual |= dict.fromkeys(("select_recompute_exclude", "select_comm_recompute_exclude", "mp_comm_recompute"), False)
    parallel = types.SimpleNamespace(
        **usual,
        **recompute,
        pipeline_model_parallel_size=data["parallel_config"]["pipeline_stage"],
        gradient_aggregation_group=4,
        cpu_offloading=model.get("swap"),
        cpu_offloading_num_layers=model.get("layer_swap"),
        op_swap=model.get("op_swap"),
    )
    setting = setting_class(data["num_layers"], model["offset"], parallel, model["pp_interleave_num"])
    seen = []
    for index in range(data["num_layers"]):
        kinds = {}
        for has_experts in (False, True):
            cell = layer(has_experts=has_experts)
            setting(cell, index)
            notes = {note: sorted(noted(cell, note)) for note in ("runs_again", "moves")}
            whole = {"full": cell.runs_again, "offload": cell.moves}
            kinds["experts" if has_experts else "dense"] = {**notes, **whole}
        seen.append(kinds)
    return seen


def main() -> None:
    """Read every file of the folder and write what MindFormers sees."""
    setting_class = layer_setting()
    for path in sorted(Path(sys.argv[1]).glob("*.yaml")):
        try:
            seen: Any = read(path, setting_class)
        except Exception as error:  # noqa: BLE001  # whatever it raises is its answer
            seen = f"{type(error).__name__}: {error}"
        path.with_suffix(".seen.json").write_text(json.dumps(seen), encoding="utf-8")


if __name__ == "__main__":
    main()
