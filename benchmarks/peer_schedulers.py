"""The zero-bubble authors' own schedulers, loaded from a checkout of their repository that the caller has.

Nothing of theirs is part of evenflow. `load_peers` takes the path of a checkout of
sail-sg/zero-bubble-pipeline-parallelism; only the files of the scheduler itself are imported, which need torch and pulp
but no Megatron and no accelerator.
"""

import importlib
import sys
from collections.abc import Iterable
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from types import ModuleType
from typing import Any

from benchmarks.random_settings import RandomSetting
from evenflow.model import looped, v_shaped
from evenflow.schedule import Action, Op, Schedule, check_complete

SOURCE = "sail-sg/zero-bubble-pipeline-parallelism"
_PACKAGE = "megatron.core.pipeline_parallel.zerobubble.scheduler"
_OPS = {"F": Op.F, "B": Op.I, "W": Op.W, "BW": Op.B}


class PeerError(Exception):
    """The authors' scheduler has no order for a setting."""


def load_peers(checkout: Path) -> None:
    """Make the scheduler files of a checkout importable without running what the packages around them import."""
    parts = _PACKAGE.split(".")
    folder = checkout.joinpath(*parts)
    if not (folder / "graph.py").is_file():
        raise FileNotFoundError(f"{folder / 'graph.py'} is missing: give a checkout of {SOURCE}")
    for count in range(1, len(parts) + 1):
        package = ModuleType(".".join(parts[:count]))
        package.__path__ = [str(checkout.joinpath(*parts[:count]))]
        sys.modules[package.__name__] = package


def peer_order(setting: RandomSetting) -> Schedule:
    """Return the order that the authors' scheduler makes for a setting, checked to be complete.

    Schedulers that take one time for all stages are given the mean. Raises PeerError where it makes none.
    """
    try:
        with redirect_stdout(StringIO()):  # they print as they go
            nodes = _nodes(setting)
    except (AssertionError, ValueError, IndexError) as error:
        raise PeerError(f"{type(error).__name__}: {error}") from error
    ranks, chunks = setting.num_ranks, setting.num_chunks
    schedule = Schedule.from_actions(
        name=f"their {setting.scheduler}",
        num_stages=ranks * chunks,
        num_microbatches=setting.num_microbatches,
        stage_ranks=looped(num_ranks=ranks, num_chunks=1) if chunks == 1 else v_shaped(num_ranks=ranks),
        orders=[
            [Action(node.layer_group_idx, _OPS[node.type.value], node.microbatch) for node in order] for order in nodes
        ],
    )
    check_complete(schedule)
    return schedule


def _nodes(setting: RandomSetting) -> Iterable[Iterable[Any]]:
    """Run the scheduler of a setting."""
    config = _config(setting)
    sizes = (setting.num_ranks, setting.num_microbatches)
    costs = (config.cost_f[0], config.cost_b[0], config.cost_w[0], config.cost_comm)
    name = setting.scheduler
    if name == "zb":
        return _module("zb").create_schedule(config)
    if name == "1f1b-v":
        return _module("v1f1b").create_schedule(config)
    if name == "zbv":
        memory = (config.mem_f[0], config.mem_b[0], config.mem_w[0])
        return _module("zbv").PipelineGraph(*sizes, *costs, *memory, setting.limit_bytes).create_schedule(config)
    return _module("zbv_greedy").PipelineGraph(*sizes, name.removeprefix("v-"), *costs).create_schedule(config)


def _config(setting: RandomSetting) -> Any:
    ranks = setting.num_ranks
    held, waiting = float(setting.activation_bytes), float(setting.until_weight_bytes)
    stages = (setting.forward_ns, setting.gradient_ns, setting.weight_ns)
    if setting.num_chunks == 1:
        times = [[float(time) for time in each] for each in stages]
    else:
        times = [[sum(each) / len(each)] * ranks for each in stages]
    limit = setting.limit_bytes
    return _module("graph").GraphConfig(
        mem_f=[held] * ranks,
        mem_b=[waiting - held] * ranks,
        mem_w=[-waiting] * ranks,
        max_mem=None if limit is None else [float(limit)] * ranks,
        cost_f=times[0],
        cost_b=times[1],
        cost_w=times[2],
        cost_comm=float(setting.message_ns),
        max_chunks=setting.num_chunks,
        n_stages=ranks,
        n_micro=setting.num_microbatches,
    )


def _module(name: str) -> ModuleType:
    return importlib.import_module(f"{_PACKAGE}.{name}")
