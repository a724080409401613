"""Builds what PaddlePaddle makes of written plans; runs in its own environment and knows nothing of evenflow.

    python build.py FOLDER

reads cases.json: for each case the text of the written module and the sizes of a list of layers. It writes seen.json:
the package's version, the cuts of every case, the layers of each chunk of each rank and those that ran twice; and the
orders of work that its dynamic graph runs, or the error that the package raises.
"""

import functools
import itertools
import json
import logging
import sys
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import paddle
import paddle.distributed as dist
from paddle.distributed import fleet
from paddle.distributed.fleet.meta_parallel import LayerDesc, PipelineLayer, pipeline_parallel
from paddle.distributed.fleet.meta_parallel.parallel_layers.pp_layers import SegmentLayers
from paddle.distributed.fleet.utils.log_util import logger

RANKS, CHUNKS, MICROBATCHES = range(2, 7), range(1, 4), range(1, 21)
RAN: list[int] = []
"""The layers that ran, by their number."""
ATTENDED: list[int] = []
"""The layers whose attention ran, by their number."""


class Attention(paddle.nn.Layer):
    """The attention of a layer, which notes each of its forwards."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.linear = paddle.nn.Linear(2, 2)

    def forward(self, inputs: paddle.Tensor) -> paddle.Tensor:
        """Note the run."""
        ATTENDED.append(self.number)
        return self.linear(inputs)


class Block(paddle.nn.Layer):
    """A layer that knows its number and notes each of its forwards."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.self_attn = Attention(number)
        self.linear = paddle.nn.Linear(2, 2)

    def forward(self, inputs: paddle.Tensor) -> paddle.Tensor:
        """Note the run."""
        RAN.append(self.number)
        return self.linear(self.self_attn(inputs))


class Function:
    """A layer that is no layer of the package."""

    def __init__(self, number: int) -> None:
        self.number = number

    def __call__(self, inputs: paddle.Tensor) -> paddle.Tensor:
        """Note the run."""
        RAN.append(self.number)
        return paddle.exp(inputs)


def entries(count: int, *, functions: bool) -> list[Any]:
    """Return descriptions, layers and, where asked for, functions in turn."""
    makers: list[Any] = [functools.partial(LayerDesc, Block), Block] + [Function] * functions
    return [makers[number % len(makers)](number) for number in range(count)]


def build(case: dict[str, Any]) -> dict[str, Any]:
    """Return the cuts, and the layers of every cell with those that run twice in a forward and its backward."""
    names: dict[str, Any] = {}
    exec(case["module"], names)
    chunks = names["CHUNKS"]
    topology = fleet.CommunicateTopology(["data", "pipe", "model"], [1, case["ranks"], 1])
    found: dict[str, Any] = {"cells": []}
    for rank in range(case["ranks"]):
        dist.get_rank = lambda group=None, rank=rank: rank
        layers, method = names["staged"](
            entries(case["entries"], functions=case["functions"]),
            names["LAYERS"],
            names["RECOMPUTED"],
            names.get("ATTENTION"),
            chunks=chunks,
            head=case["head"],
            tail=case["tail"],
        )
        if case["method"]:
            method = case["method"]
        model = PipelineLayer(
            layers, topology=topology, num_virtual_pipeline_stages=chunks, seg_method=method, recompute_interval=0
        )
        found["cuts"] = model.segment_parts
        for chunk in range(chunks):
            RAN.clear()
            ATTENDED.clear()
            inputs = paddle.ones([1, 2])
            inputs.stop_gradient = rank == chunk == 0  # what a rank receives needs a gradient, and data does not
            outputs = model(inputs, chunk_id=chunk if chunks > 1 else None)
            once, attended = list(RAN), len(ATTENDED)
            if not outputs.stop_gradient:
                outputs.sum().backward()
            cell = {"rank": rank, "chunk": chunk, "layers": once, "twice": sorted(RAN[len(once) :])}
            if not case["functions"]:
                cell["attended twice"] = sorted(ATTENDED[attended:])
            found["cells"].append(cell)
        found.setdefault("without_gradient", []).extend(
            name for name, value in model.named_parameters() if value.grad is None
        )
    return found


def segment(case: dict[str, Any]) -> list[int]:
    """Return how many decoder layers every stage has, of the entries of PaddleFormers cut by its method."""
    names = ["EmbeddingPipe", *["DecoderLayerPipe"] * case["layers"], *["EmptyLayer"] * case["empty"]]
    names += ["RMSNormPipe", "LMHeadPipe"]
    made = {name: type(name, (paddle.nn.Layer,), {}) for name in set(names)}
    cutter = SegmentLayers(
        [LayerDesc(made[name]) for name in names],
        num_parts=case["ranks"],
        method=case["segment"],
        num_virtual_pipeline_stage=case["chunks"] if case["chunks"] > 1 else None,
    )
    cuts = cutter.do_segment()
    return [names[begin:end].count("DecoderLayerPipe") for begin, end in itertools.pairwise(cuts)]


def order(num_ranks: int, num_chunks: int, num_microbatches: int, rank: int) -> str:
    """Return the order of one rank as the package itself writes it: `f` and `b`, microbatch, and chunk of several."""
    kind = pipeline_parallel.PipelineParallel
    if num_chunks > 1:
        kind = pipeline_parallel.PipelineParallelWithInterleave
        if num_microbatches < 2 * num_ranks:  # as `fleet.distributed_model` chooses
            return f_then_b(num_ranks, num_chunks, num_microbatches)
    engine = MagicMock(
        num_stages=num_ranks,
        stage_id=rank,
        num_model_chunks=num_chunks,
        accumulate_steps=num_microbatches,
        processed_steps=sys.maxsize,
        _profiling=False,
        _overlap_p2p_comm=False,
        _best_unbalanced_scheduler=False,
        _forward_micro_step_counter=dict.fromkeys(range(num_chunks), 0),
        _backward_micro_step_counter=dict.fromkeys(range(num_chunks), 0),
    )
    engine._strategy.hybrid_configs = {"pp_configs": MagicMock(forward_backward_overlap_scheduler=False)}
    if num_chunks > 1:
        kind._check_sanity(engine)
        engine._get_virtual_pp_rank = functools.partial(kind._get_virtual_pp_rank, engine)
    return kind.forward_backward_pipeline(engine, None, None, static_scheduler=True)


def f_then_b(num_ranks: int, num_chunks: int, num_microbatches: int) -> str:
    """Return the order of fewer than two microbatches for each rank, which is all forwards and then all backwards."""
    kind = pipeline_parallel.PipelineParallelWithInterleaveFthenB
    engine = MagicMock(num_stages=num_ranks, num_model_chunks=num_chunks, accumulate_steps=num_microbatches)
    kind._check_sanity(engine)
    assert num_microbatches % num_ranks == 0, "accumulate_steps % num_stages, as its forward_backward_pipeline says"
    jobs = []
    for letter in "fb":
        counts = dict.fromkeys(range(num_chunks), 0)
        for step in range(num_chunks * num_microbatches):
            chunk = kind._get_virtual_pp_rank(engine, step, forward=letter == "f")
            jobs.append(f"{letter}{counts[chunk]}_vp{chunk};")
            counts[chunk] += 1
    return "".join(jobs)


def answer(function: Any, *arguments: Any) -> Any:
    """Return what a function returns, or the error that it raises."""
    try:
        return function(*arguments)
    except Exception as error:  # noqa: BLE001  # whatever it raises is its answer
        return {"error": f"{type(error).__name__}: {error}"}


def main() -> None:
    """Build all cases."""
    logger.setLevel(logging.ERROR)
    logging.disable(logging.WARNING)
    # A build for CPU has no device of its own, and no group of processes is made here.
    dist.ParallelEnv.device_id = 0
    fleet.fleet._user_defined_strategy = fleet.DistributedStrategy()
    folder = Path(sys.argv[1])
    cases = json.loads((folder / "cases.json").read_text("utf-8"))
    orders = [
        {"sizes": (p, v, m), "ranks": answer(lambda p, v, m: [order(p, v, m, rank) for rank in range(p)], p, v, m)}
        for p in RANKS
        for v in CHUNKS
        for m in MICROBATCHES
    ]
    seen = {name: answer(segment if "segment" in case else build, case) for name, case in cases.items()}
    text = json.dumps({"version": paddle.__version__, "cases": seen, "orders": orders})
    (folder / "seen.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
