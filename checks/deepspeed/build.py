"""Builds what DeepSpeed makes of written plans; runs in its own environment and knows nothing of evenflow.

    python build.py FOLDER

reads cases.json: for each case the text of the written module and the sizes of a list of layers. It writes seen.json:
the package's version, the parts of every case, the layers that each rank has and those that ran twice in a step; and
the orders of work of the package's train schedule.
"""

import functools
import json
import os
import sys
from pathlib import Path
from typing import Any

os.environ |= {"DS_ACCELERATOR": "cpu", "LOCAL_RANK": "0"}

import deepspeed
import torch
import torch.distributed as dist
from deepspeed.pipe import LayerSpec, PipelineModule
from deepspeed.runtime.pipe import schedule
from torch.testing._internal.distributed.fake_pg import FakeStore

RANKS, MICROBATCHES = range(1, 9), range(1, 21)


RAN: list[int] = []
"""The layers that ran, by their number."""


class Block(torch.nn.Module):
    """A layer that knows its number and notes each of its forwards."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.linear = torch.nn.Linear(2, 2)

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """Note the run."""
        RAN.append(self.number)
        return self.linear(inputs)


class Function:
    """A layer that is no module."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, inputs: torch.Tensor) -> torch.Tensor:
        """Note the run."""
        RAN.append(self.number)
        return inputs.exp()


def entries(count: int, *, functions: bool) -> list[Any]:
    """Return descriptions, modules and, where asked for, functions in turn."""
    makers: list[Any] = [functools.partial(LayerSpec, Block), Block] + [Function] * functions
    return [makers[number % len(makers)](number) for number in range(count)]


def with_ranks(size: int, rank: int) -> None:
    """Be one of so many ranks, none of which sends anything."""
    if dist.is_initialized():
        dist.destroy_process_group()
        deepspeed.comm.comm.cdb = None
    dist.init_process_group("fake", rank=rank, world_size=size, store=FakeStore())
    deepspeed.init_distributed(dist_backend="fake", verbose=False)


def build(case: dict[str, Any]) -> dict[str, Any]:
    """Return the parts, and the layers of every rank with those that run twice in a forward and its backward."""
    names: dict[str, Any] = {}
    exec(case["module"], names)
    found: dict[str, Any] = {"ranks": []}
    for rank in range(case["ranks"]):
        with_ranks(case["ranks"], rank)
        layers = entries(case["entries"], functions=case["functions"])
        layers = names["staged"](layers, names["LAYERS"], names["RECOMPUTED"], head=case["head"], tail=case["tail"])
        module = PipelineModule(layers, **names["PIPELINE"])
        found["parts"] = [int(part) for part in module.parts]
        RAN.clear()
        inputs = torch.ones(1, 2, requires_grad=rank > 0)  # what a rank receives needs a gradient, and data does not
        outputs = module(inputs)
        once = list(RAN)
        if outputs.requires_grad:
            outputs.sum().backward()
        children = [(name, child) for name, child in module.named_children() if name.isdecimal()]
        moved = [name for name, child in children if child.number != int(name)]
        missing = [name for name, value in module.named_parameters() if value.grad is None]
        twice = sorted(RAN[len(once) :])
        found["ranks"].append({"layers": once, "twice": twice, "without_gradient": missing, "moved": moved})
    return found


class GPT2ModelPipe(PipelineModule):
    """GPT-NeoX's name for its model, which DeepSpeed knows."""


def neox(case: dict[str, Any]) -> dict[str, list[int]]:
    """Return the layers of every rank, and how many of them recompute, of a model with the entries of GPT-NeoX."""
    names = ["EmbeddingPipe", *["ParallelTransformerLayerPipe"] * case["layers"], "NormPipe", "ParallelLinearPipe"]
    made = {name: type(name, (Block,), {}) for name in set(names)}
    layers: list[Any] = [LayerSpec(made[name], number) for number, name in enumerate(names)]
    for place, name in ((1, "_pre_transformer_block"), (len(layers) - 1, "_post_transformer_block")):
        function = functools.partial(torch.exp)
        function.__name__ = name
        layers.insert(place, function)
    found: dict[str, list[int]] = {"layers": [], "recomputed": []}
    for rank in range(case["ranks"]):
        with_ranks(case["ranks"], rank)
        module = GPT2ModelPipe(
            layers, num_stages=case["ranks"], partition_method=case["method"], checkpointable_layers=[names[1]]
        )
        module.set_checkpoint_interval(case["interval"])
        here = [type(each).__name__ == names[1] for each in module.forward_funcs]
        found["layers"].append(sum(here))
        groups = [here[begin : begin + case["interval"]] for begin in range(0, len(here), case["interval"] or 1)]
        again = zip(groups, module.is_checkpointable_results, strict=True) if case["interval"] else ()
        found["recomputed"].append(sum(len(group) for group, is_again in again if is_again))
    return found


def order(num_ranks: int, num_microbatches: int) -> list[list[list[Any]]]:
    """Return the computing instructions of every rank of the train schedule, each with its microbatch."""
    ranks = []
    for rank in range(num_ranks):
        steps = schedule.TrainSchedule(micro_batches=num_microbatches, stages=num_ranks, stage_id=rank).steps()
        counts = {"ForwardPass": 0, "BackwardPass": 0}
        jobs = []
        for name in (command.name for commands in steps for command in commands if command.name in counts):
            jobs.append([name, counts[name]])
            counts[name] += 1
        ranks.append(jobs)
    return ranks


def main() -> None:
    """Build all cases."""
    folder = Path(sys.argv[1])
    cases = json.loads((folder / "cases.json").read_text("utf-8"))
    seen = {}
    for name, case in cases.items():
        try:
            seen[name] = neox(case) if "method" in case else build(case)
        except Exception as error:  # noqa: BLE001  # whatever it raises is its answer
            seen[name] = {"error": f"{type(error).__name__}: {error}"}
    orders = {f"{p}x{m}": order(p, m) for p in RANKS for m in MICROBATCHES}
    text = json.dumps({"version": deepspeed.__version__, "cases": seen, "orders": orders})
    (folder / "seen.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
