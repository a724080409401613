"""Prints what ColossalAI makes of plans; runs in its own environment and knows nothing of evenflow.

    python load.py FOLDER

reads plans.json (code, sizes and number of layers of each plan, and the nodes of its scheduler, if it has any) and
writes seen.json: the layers and checkpointed layers of every cell by the package's stage manager and checkpoint
configuration, and the order of work that its scheduler runs on every rank; or the error that it raises. Some plans are
trained for one step on as many processes as they have ranks; their gradients are compared with an unsplit run.
"""

import contextlib
import json
import os
import sys
import types
from pathlib import Path
from typing import Any

# Only type checks need it, and it must be there before the package is imported.
sys.modules["peft"] = types.ModuleType("peft")
for name in ("PeftModel", "PeftType"):
    setattr(sys.modules["peft"], name, type(name, (), {}))

import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
from colossalai.cluster.process_group_mesh import ProcessGroupMesh  # noqa: E402
from colossalai.pipeline import (  # noqa: E402
    InterleavedSchedule,
    OneForwardOneBackwardSchedule,
    PipelineStageManager,
    ZeroBubbleVPipeScheduler,
)
from colossalai.pipeline.schedule.v_schedule import ScheduledNode  # noqa: E402

WIDTH, ROWS = 4, 2


def checkpoint_config() -> Any:
    """Return the class of the checkpoint configuration, without the rest of shardformer, which needs transformers."""
    path = Path(sys.modules["colossalai"].__file__ or "").parent / "shardformer" / "shard" / "grad_ckpt_config.py"
    module = types.ModuleType("grad_ckpt_config")
    sys.modules[module.__name__] = module
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), module.__dict__)
    return module.PipelineGradientCheckpointConfig


class Mesh:
    """A process mesh of pipeline ranks alone, seen from one of them, without any process."""

    def __init__(self, size: int, rank: int) -> None:
        self.shape = (size,)
        self.rank = rank

    def coordinate(self, axis: int | None = None) -> Any:
        """Return the place of the rank, along an axis or along all."""
        return (self.rank,) if axis is None else self.rank

    def size(self, axis: int) -> int:
        """Return the number of ranks."""
        return self.shape[axis]

    def get_group_along_axis(self, axis: int) -> None:
        """Return no process group."""

    ravel = staticmethod(ProcessGroupMesh.ravel)


class Plugin:
    """The plugin as far as a plan goes: it hands its arguments to the package's own stage manager."""

    mesh: Any = None

    def __init__(
        self, *, tp_size: int, pp_size: int, pp_style: str, num_model_chunks: int, num_microbatches: int, **rest: Any
    ) -> None:
        self.style, self.num_microbatches = pp_style, num_microbatches
        self.nodes = rest.pop("scheduler_nodes", None)
        self.checkpoints = rest.pop("gradient_checkpoint_config", None)
        self.stage_manager = PipelineStageManager(
            type(self).mesh,
            0,
            enable_interleave=pp_style in ("interleaved", "zbv"),
            use_zbv=pp_style == "zbv",
            num_model_chunks=num_model_chunks,
            num_layers_per_stage=rest.pop("num_layers_per_stage", None),
        )
        assert not rest, rest


def plugin_of(plan: dict[str, Any], mesh: Any) -> Plugin:
    """Run the code of a plan."""
    Plugin.mesh = mesh
    provided = {
        "colossalai.booster.plugin": {"HybridParallelPlugin": Plugin},
        "colossalai.shardformer": {"PipelineGradientCheckpointConfig": CHECKPOINTS},
        "evenflow.adapters.colossalai": {"scheduler_nodes": lambda _path: plan["nodes"]},
    }
    for name, values in provided.items():
        module = types.ModuleType(name)
        module.__dict__.update(values)
        sys.modules[name] = module
    for parent in ("evenflow", "evenflow.adapters"):
        sys.modules.setdefault(parent, types.ModuleType(parent))
    scope: dict[str, Any] = {}
    exec(plan["code"], scope)
    return scope["plugin"]


CHECKPOINTS = checkpoint_config()


def cells_of(plan: dict[str, Any], rank: int) -> list[dict[str, int]]:
    """Return first layer, end and checkpointed layers of every chunk of a rank, as a sharded model asks for them."""
    plugin = plugin_of(plan, Mesh(plan["ranks"], rank))
    manager = plugin.stage_manager
    indices = manager.get_stage_index(manager.distribute_layers(plan["num_layers"]))
    chunks = [indices] if plan["chunks"] == 1 else indices
    return [
        {
            "first": int(first),
            "end": int(end),
            "full": plugin.checkpoints.get_num_ckpt_layers(
                stage=manager.stage,
                num_stages=manager.num_stages,
                num_layers=int(end - first),
                model_chunk_id=chunk,
                num_model_chunks=manager.num_model_chunks,
            )
            if plugin.checkpoints is not None
            else 0,
        }
        for chunk, (first, end) in enumerate(chunks)
    ]


def order_of(plan: dict[str, Any], rank: int) -> list[list[Any]]:
    """Return operation, chunk and microbatch of everything that the scheduler of a rank runs, without transfers."""
    plugin = plugin_of(plan, Mesh(plan["ranks"], rank))
    manager, done = plugin.stage_manager, []
    counts = {(op, chunk): 0 for op in "FBW" for chunk in range(plan["chunks"])}

    def run(op: str, chunk: int) -> None:
        done.append([op, chunk, counts[op, chunk]])
        counts[op, chunk] += 1

    manager.stage_indices = [(0, 1)] * plan["chunks"]
    common = {"microbatch_size": 1, "enable_metadata_cache": False}
    if plugin.style == "zbv":
        nodes = [[ScheduledNode(*node) for node in nodes] for nodes in plugin.nodes]
        scheduler: Any = ZeroBubbleVPipeScheduler(manager, nodes, 2, plugin.num_microbatches, **common)
        for op in "FBW":
            setattr(scheduler, f"schedule_{op.lower()}", lambda op=op, *, model_chunk_id, **_: run(op, model_chunk_id))
        scheduler.communication_map = dict.fromkeys(scheduler.communication_map, lambda _chunk: [])
    elif plugin.style == "interleaved":
        scheduler = InterleavedSchedule(manager, plan["chunks"], plugin.num_microbatches, overlap_p2p=False, **common)
        scheduler.forward_step = lambda _model, chunk, *_: run("F", chunk)
        # The chunk of a backward is what its number says; its own microbatches are taken in order.
        turns = iter(range(plan["chunks"] * plugin.num_microbatches))
        scheduler.backward_step = lambda *_: run("B", scheduler.get_model_chunk_id(next(turns), is_forward=False))
    else:
        scheduler = OneForwardOneBackwardSchedule(manager, plugin.num_microbatches, **common)
        scheduler.forward_step = lambda *_: run("F", 0)
        scheduler.backward_step = lambda *_: run("B", 0)
    for transfer in ("recv_forward", "recv_backward", "send_forward_recv_forward", "send_backward_recv_backward"):
        answer = (None, []) if plugin.style == "interleaved" else None
        setattr(scheduler, transfer, lambda *_, answer=answer, **__: answer)
    for transfer in ("send_forward", "send_backward"):
        setattr(scheduler, transfer, lambda *_, **__: [])
    if plugin.style == "1f1b":
        scheduler.send_forward_recv_backward = scheduler.send_backward_recv_forward = lambda *_, **__: None
    scheduler.forward_only = False
    batch = torch.zeros(plugin.num_microbatches, 1)
    scheduler.run_forward_backward(None, iter([batch]), None, None)
    return done


class Model(torch.nn.Module):
    """Layers of which every stage runs its own."""

    def __init__(self, num_layers: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(num_layers))

    def forward(self, x: Any, hidden: Any = None, stage_index: Any = (0, None), **_: Any) -> Any:
        """Run the layers of a stage, on a batch or on what another stage sent."""
        value = x if hidden is None else hidden
        for layer in self.layers[stage_index[0] : stage_index[1]]:
            value = layer(torch.tanh(value))  # the scheduler frees the outputs of a stage: no backward may need them
        return {"hidden": value}


class Optimizer:
    """What a scheduler asks of an optimizer."""

    no_sync = staticmethod(contextlib.nullcontext)

    @staticmethod
    def backward(loss: Any) -> None:
        """Run the backward of a loss."""
        loss.backward()

    @staticmethod
    def backward_by_grad(tensor: Any, grad: Any, **_: Any) -> None:
        """Run the backward of outputs with their gradients."""
        torch.autograd.backward(tensor, grad)


def loss_of(output: Any, _batch: Any) -> Any:
    """Return the loss of a microbatch."""
    return output["hidden"].square().mean()


def train(plan: dict[str, Any], rank: int, port: int, folder: str) -> None:
    """Train one step on one of the plan's ranks, and note how far its gradients are from an unsplit run."""
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    dist.init_process_group("gloo", rank=rank, world_size=plan["ranks"])
    torch.set_num_threads(1)
    dist.is_hccl_available = lambda: False  # PyTorch for Ascend has it, and the package asks for it without NCCL
    plugin = plugin_of(plan, ProcessGroupMesh(plan["ranks"]))
    manager, count = plugin.stage_manager, plugin.num_microbatches
    manager.stage_indices = manager.get_stage_index(manager.distribute_layers(plan["num_layers"]))
    nodes = [[ScheduledNode(*node) for node in nodes] for nodes in plugin.nodes]
    scheduler = ZeroBubbleVPipeScheduler(manager, nodes, 2, count, ROWS, overlap_p2p=True)
    model, alone = Model(plan["num_layers"]), Model(plan["num_layers"])
    batch = {"x": torch.randn(count * ROWS, WIDTH, generator=torch.Generator().manual_seed(1))}
    scheduler.forward_backward_step(model, iter([batch]), loss_of, Optimizer(), return_loss=True)
    for part in batch["x"].split(ROWS):
        (loss_of(alone(part), None) / count).backward()
    held = [layer for first, end in manager.stage_indices for layer in range(first, end)]
    worst = 0.0
    for layer, (mine, other) in enumerate(zip(model.layers, alone.layers, strict=True)):
        for name in ("weight", "bias"):
            grad, right = getattr(mine, name).grad, getattr(other, name).grad
            if layer in held:
                worst = max(worst, (grad - right).abs().max().item() if grad is not None else float("inf"))
    Path(folder, f"trained-{port}-{rank}.json").write_text(json.dumps(worst))
    dist.barrier()
    dist.destroy_process_group()


def trained(plan: dict[str, Any], port: int, folder: str) -> float:
    """Return the largest difference of a gradient from that of an unsplit run."""
    context = torch.multiprocessing.get_context("spawn")
    processes = [context.Process(target=train, args=(plan, rank, port, folder)) for rank in range(plan["ranks"])]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)
    stuck = [process for process in processes if process.exitcode != 0]
    for process in processes:
        if process.is_alive():
            process.terminate()
    if stuck:
        raise RuntimeError(f"{len(stuck)} of {len(processes)} ranks did not finish")
    return max(json.loads(path.read_text()) for path in Path(folder).glob(f"trained-{port}-*.json"))


def main() -> None:
    """Read the plans and write what ColossalAI sees."""
    folder = sys.argv[1]
    plans = json.loads(Path(folder, "plans.json").read_text(encoding="utf-8"))
    seen: dict[str, Any] = {}
    for index, (name, plan) in enumerate(plans.items()):
        try:
            by_rank = [cells_of(plan, rank) for rank in range(plan["ranks"])]
            answer: dict[str, Any] = {"cells": by_rank}
            answer["order"] = [order_of(plan, rank) for rank in range(plan["ranks"])]
            if plan["trains"]:
                answer["gradient"] = trained(plan, 29500 + index, folder)
        except Exception as error:  # noqa: BLE001  # whatever it raises is its answer
            answer = {"error": f"{type(error).__name__}: {error}"}
        seen[name] = answer
    try:
        PipelineStageManager(Mesh(2, 0), 0, enable_interleave=True, num_model_chunks=2, num_layers_per_stage=[1] * 4)
        takes_chunks = True
    except AssertionError:
        takes_chunks = False
    installed = {"the plugin takes a list of layers for one chunk only": not takes_chunks}
    Path(folder, "seen.json").write_text(json.dumps({"plans": seen, "installed": installed}), encoding="utf-8")


if __name__ == "__main__":
    main()
