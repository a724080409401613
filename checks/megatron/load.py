"""What megatron-core makes of flags: the layers of every cell, which of them recompute, and the order of the work.

Run by `check.py` in the environment that has megatron-core, on its own code. Models are built on torch's fake process
group, and each chunk runs a forward and a backward on the CPU. Without a GPU there are no CUDA random states: reading
and setting them does nothing, and buffers are on the CPU. Orders are those that its schedule functions run, with steps
and messages that do nothing but note their turn.
"""

import dataclasses
import json
import sys
import warnings
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

warnings.filterwarnings("ignore")

import megatron.core  # noqa: E402
import torch  # noqa: E402
from megatron.core import parallel_state, tensor_parallel  # noqa: E402
from megatron.core.models.gpt import GPTModel  # noqa: E402
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec  # noqa: E402
from megatron.core.pipeline_parallel import combined_1f1b, schedules, utils  # noqa: E402
from megatron.core.pipeline_parallel import fine_grained_activation_offload as offload  # noqa: E402
from megatron.core.process_groups_config import ProcessGroupCollection  # noqa: E402
from megatron.core.tensor_parallel import random  # noqa: E402
from megatron.core.transformer import MLATransformerConfig, TransformerConfig  # noqa: E402
from megatron.core.transformer.enums import LayerType  # noqa: E402
from megatron.core.transformer.pipeline_parallel_layer_layout import PipelineParallelLayerLayout  # noqa: E402
from megatron.core.transformer.transformer_block import get_num_layers_to_build  # noqa: E402
from torch.testing._internal.distributed.fake_pg import FakeStore  # noqa: E402

from evenflow.adapters.megatron import plan_hook  # noqa: E402

SEQUENCE, BATCH, HIDDEN, WORDS = 4, 1, 8, 16


def field_names() -> dict[str, str]:
    """Return the field of the configuration for every flag; some fields name their flag themselves."""
    names = {}
    for field in dataclasses.fields(TransformerConfig):
        flags = field.metadata.get("argparse_meta", {}).get("arg_names", [f"--{field.name.replace('_', '-')}"])
        names.update(dict.fromkeys(flags, field.name))
    return names


FIELDS = field_names()


def configuration(flags: dict[str, list[str]], **more: Any) -> TransformerConfig:
    """Return the configuration that flags ask for; a flag without a field ends the check."""
    return TransformerConfig(
        hidden_size=HIDDEN,
        num_attention_heads=2,
        pipeline_dtype=torch.float32,
        use_cpu_initialization=True,
        hidden_dropout=0.0,
        attention_dropout=0.0,
        **fields(flags),
        **more,
    )


def fields(flags: dict[str, list[str]]) -> dict[str, Any]:
    """Return the fields of the configuration that flags set."""
    lists = ("--recompute-modules", "--offload-modules")
    return {
        FIELDS[flag]: texts if flag in lists else number(texts[0]) if texts else True for flag, texts in flags.items()
    }


def module_set(flags: dict[str, list[str]]) -> dict[str, Any]:
    """Let Megatron-LM check flags of a set of modules, for a model that has all of them; return what it understood."""
    config = MLATransformerConfig(
        num_layers=2,
        hidden_size=HIDDEN,
        num_attention_heads=2,
        multi_latent_attention=True,
        num_moe_experts=2,
        moe_grouped_gemm=True,
        add_bias_linear=False,
        **fields(flags),
    )
    again = config.recompute_modules if config.recompute_granularity == "selective" else []
    moved = config.offload_modules if config.fine_grained_activation_offloading else []
    return {"modules": sorted([*again, *(f"offload_{module}" for module in moved)])}


def number(text: str) -> int | str:
    """Return a number where the text is one."""
    return int(text) if text.isdecimal() else text


def cells(case: dict[str, Any]) -> dict[str, Any]:
    """Return the layers of every cell ``[rank][chunk]``: their number, and how often they and their attention ran."""
    config = configuration(case["flags"])
    ranks = config.pipeline_model_parallel_size
    found = []
    for rank in range(ranks):
        torch.distributed.init_process_group("fake", store=FakeStore(), rank=rank, world_size=ranks)
        parallel_state.initialize_model_parallel(
            pipeline_model_parallel_size=ranks,
            virtual_pipeline_model_parallel_size=config.virtual_pipeline_model_parallel_size,
            create_gloo_process_groups=False,
        )
        try:
            chunks = model_chunks(config)
            if case["plan_file"]:
                chunks = plan_hook(case["plan_file"])(chunks)
            found.append([ran(chunk) for chunk in chunks])
        finally:
            parallel_state.destroy_model_parallel()
            torch.distributed.destroy_process_group()
    return {"cells": found, "group_size": config.microbatch_group_size_per_vp_stage}


def model_chunks(config: TransformerConfig) -> list[GPTModel]:
    """Return the model chunks of this rank, as Megatron-LM's `get_model` builds them."""
    group = parallel_state.get_pipeline_model_parallel_group()
    count = config.virtual_pipeline_model_parallel_size
    return [
        GPTModel(
            config=config,
            transformer_layer_spec=get_gpt_layer_local_spec(),
            vocab_size=WORDS,
            max_sequence_length=SEQUENCE,
            pre_process=utils.is_pp_first_stage(group) and utils.is_vp_first_stage(chunk, count),
            post_process=utils.is_pp_last_stage(group) and utils.is_vp_last_stage(chunk, count),
            vp_stage=chunk if count else None,
        )
        for chunk in range(count or 1)
    ]


def ran(model: GPTModel) -> dict[str, Any]:
    """Run a forward and a backward; return number, forwards and attention forwards of every layer, and checkpoints."""
    layers = list(model.decoder.layers)
    forwards = dict.fromkeys((module for layer in layers for module in (layer, layer.self_attention.core_attention)), 0)

    def count(module: Any, _inputs: Any) -> None:
        forwards[module] += 1

    for module in forwards:
        module.register_forward_pre_hook(count)
    words = torch.zeros(BATCH, SEQUENCE, dtype=torch.long)
    if not model.pre_process:
        model.set_input_tensor(torch.randn(SEQUENCE, BATCH, HIDDEN, requires_grad=True))
    with patch.object(tensor_parallel, "checkpoint", wraps=tensor_parallel.checkpoint) as checkpoint:
        model(words, words, causal_mask()).sum().backward()
    numbers = [[layer.layer_number, forwards[layer], forwards[layer.self_attention.core_attention]] for layer in layers]
    return {"layers": numbers, "checkpoints": checkpoint.call_count}


def moved(case: dict[str, Any]) -> dict[str, Any]:
    """Return the bytes that Megatron-LM moves of every backward of a rank, given names and bytes of their groups."""
    chunks = [SimpleNamespace(offload_groups=[group_of(*each) for each in groups]) for groups in case["backwards"]]
    for chunk in chunks:
        names = {group._name for group in chunk.offload_groups}
        chunk.get_max_deduplicated_groups = partial(len, names)
    manager = object.__new__(offload.PipelineOffloadManager)
    manager._cached_chunks_forward = manager._cached_chunks_backward = chunks
    manager._offload_margin = 0
    manager._pp_rank = case["rank"]
    manager._delta_offload_bytes_across_pp_ranks = case["delta"]
    manager._activation_offload_fraction = case["fraction"]
    with patch.object(offload, "print_offload_summary_table"):
        manager.post_warmup_callback()
    return {
        "moved": [sum(group.total_offload_bytes for group in chunk.offload_groups if group.offload) for chunk in chunks]
    }


def group_of(name: str, size: int) -> offload.OffloadTensorGroup:
    """Return a group of tensors that move, without the events of a GPU."""
    with patch.object(torch.cuda, "Event"):
        group = offload.OffloadTensorGroup(name)
    group.total_offload_bytes = size
    return group


def even_cut(case: dict[str, Any]) -> dict[str, Any]:
    """Return the layers of every cell ``[chunk][rank]`` that Megatron-LM deals out without a layout."""
    config = TransformerConfig(hidden_size=HIDDEN, num_attention_heads=2, pipeline_dtype=torch.float32, **case)
    ranks, chunks = config.pipeline_model_parallel_size, config.virtual_pipeline_model_parallel_size
    return {
        "layers": [
            [get_num_layers_to_build(config, chunk if chunks else None, rank) for rank in range(ranks)]
            for chunk in range(chunks or 1)
        ]
    }


def causal_mask() -> torch.Tensor:
    """Return what no word may look at."""
    return torch.ones(1, 1, SEQUENCE, SEQUENCE).triu(1).bool()


PAIRS = {
    "overlap_moe_expert_parallel_comm": True,
    "num_moe_experts": 2,
    "expert_model_parallel_size": 2,
    "moe_token_dispatcher_type": "alltoall",
    "bf16": True,
    "params_dtype": torch.bfloat16,
    "add_bias_linear": False,
}
"""What runs forwards beside backwards."""


class Communicator:
    """Stands for messages between ranks: there are none."""

    def __init__(self, config: TransformerConfig, rank: int) -> None:
        self.config = config
        self.pp_group = SimpleNamespace(size=lambda: config.pipeline_model_parallel_size, rank=lambda: rank)
        self.virtual_pipeline_model_parallel_size = config.virtual_pipeline_model_parallel_size
        self.total_stages, self.current_stage = config.pipeline_model_parallel_size, rank

    def send_forward_backward_recv_forward_backward(self, *_tensors: Any, **_options: Any) -> tuple[str, str]:
        """Return the tensors of both neighbours."""
        return "tensor", "tensor"

    def __getattr__(self, name: str) -> Any:
        return lambda *_tensors, **options: ("tensor", None) if options.get("overlap_p2p_comm") else "tensor"


class OnCpu:
    """Stands for torch where a count of tokens is made on a GPU."""

    def __getattr__(self, name: str) -> Any:
        return getattr(torch, name)

    def zeros(self, *sizes: Any, **options: Any) -> torch.Tensor:
        """Return zeros on the CPU."""
        return torch.zeros(*sizes, **{**options, "device": "cpu"})


def order(case: dict[str, Any]) -> dict[str, Any]:
    """Return the turns of every rank, as ``[kind, chunk, microbatch]``, or why the sizes are refused."""
    chunks = case["chunks"]
    sizes = {"pipeline_model_parallel_size": case["ranks"]}
    if chunks > 1:
        sizes["virtual_pipeline_model_parallel_size"] = chunks
        sizes["microbatch_group_size_per_vp_stage"] = case["group_size"]
    if case["in_pairs"]:
        sizes |= PAIRS
    config = TransformerConfig(
        num_layers=case["ranks"] * chunks,
        hidden_size=HIDDEN,
        num_attention_heads=2,
        pipeline_dtype=torch.bfloat16 if case["in_pairs"] else torch.float32,
        batch_p2p_comm=not case["overlaps"],
        overlap_p2p_comm=case["overlaps"],
        **sizes,
    )
    run = (
        schedules.forward_backward_pipelining_with_interleaving
        if chunks > 1
        else schedules.forward_backward_no_pipelining
        if case["in_pairs"]
        else schedules.forward_backward_pipelining_without_interleaving
    )
    turns: list[list[list[Any]]] = []
    warmups = []
    for rank in range(case["ranks"]):
        turns.append([])
        note(turns[-1])
        communicator = Communicator(config, rank)
        models = [model_stub(config) for _chunk in range(chunks)]
        alone = SimpleNamespace(size=lambda: 1, rank=lambda: 0)
        try:
            run(
                forward_step_func=None,
                data_iterator=[None] * chunks if chunks > 1 else None,
                model=models if chunks > 1 else models[0],
                num_microbatches=case["microbatches"],
                seq_length=SEQUENCE,
                micro_batch_size=BATCH,
                p2p_communicator=communicator,
                pg_collection=ProcessGroupCollection(
                    tp=alone, cp=alone, embd=None, pos_embd=None, pp=communicator.pp_group, dp_cp=alone
                ),
            )
        except (ValueError, RuntimeError) as error:
            return {"refused": str(error)}
        warmups.append(
            schedules.get_pp_rank_microbatches(
                case["microbatches"],
                chunks,
                config.microbatch_group_size_per_vp_stage,
                overlap_moe_expert_parallel_comm=case["in_pairs"],
                p2p_communicator=communicator,
            )[2]
        )
    table = schedules.get_schedule_table(case["microbatches"], chunks, config.microbatch_group_size_per_vp_stage)
    return {"turns": turns, "warmups": warmups, "table": table}


def model_stub(config: TransformerConfig) -> torch.nn.Module:
    """Return a model without layers, of which the schedule functions ask the configuration and the type."""
    model = torch.nn.Module()
    model.config = config
    model.model_type = None
    return model


def note(turns: list[list[Any]]) -> None:
    """Let the schedule functions' steps note their turn."""

    def forward(*_arguments: Any, current_microbatch: int, vp_stage: int | None = None, **_options: Any) -> Any:
        turns.append(["F", vp_stage or 0, current_microbatch])
        return [(vp_stage or 0, current_microbatch)], 0

    def backward(_input: Any, output: Any, *_arguments: Any) -> str:
        turns.append(["B", *output[0]])
        return "tensor"

    def pair(*arguments: Any, f_model_chunk_id: int | None = None, **options: Any) -> tuple[Any, int, Any]:
        """Stand for a step of a forward, a backward, or both, with what goes before and behind each of them."""
        f_model, b_model, output = arguments[2], arguments[6], arguments[8]
        forwards = [] if f_model is None else [[f_model_chunk_id or 0, options["current_microbatch"]]]
        backwards = [] if b_model is None else [list(output[0])]
        turns.extend(["P" if backwards else "F", *forward] for forward in forwards)
        turns.extend(["B", *backward] for backward in backwards)
        made = [[tuple(forward)] for forward in forwards]
        for name, steps, result in (("forward", forwards, made), ("backward", backwards, ["tensor"])):
            for chunk, _microbatch in steps:
                for hook, given in ((options.get(f"pre_{name}"), ()), (options.get(f"post_{name}"), result)):
                    if hook is not None:
                        hook(*given, chunk)
        return made[0] if made else None, 0, "tensor" if backwards else None

    schedules.forward_step, schedules.backward_step = forward, backward
    combined_1f1b.combined_forward_backward_step, combined_1f1b.set_streams = pair, lambda **_options: None


def layout(case: dict[str, Any]) -> dict[str, Any]:
    """Return the transformer layers of every stage of a layout, and those of multi-token prediction."""
    stages = PipelineParallelLayerLayout.get_num_stages_from_str(case["layout"])
    parsed = PipelineParallelLayerLayout(case["layout"], case["ranks"])
    counts = {
        kind: [parsed.layout[stage % case["ranks"]][stage // case["ranks"]].count(kind) for stage in range(stages)]
        for kind in (LayerType.decoder, LayerType.mtp)
    }
    parsed.validate_layer_layout(sum(counts[LayerType.decoder]), sum(counts[LayerType.mtp]))
    return {"layers": counts[LayerType.decoder], "mtp_layers": counts[LayerType.mtp]}


def attempted(function: Any, case: dict[str, Any]) -> dict[str, Any]:
    """Return what a function makes of a case, or its error: spoiled cases may be refused."""
    try:
        return function(case)
    except Exception as error:  # noqa: BLE001
        return {"error": f"{type(error).__name__}: {error}"}


def stand_in_for_gpu() -> None:
    """Let random states and buffers of a GPU be nothing and on the CPU."""
    torch.set_num_threads(1)
    torch.cuda.current_device = lambda: "cpu"
    random._get_cuda_rng_state = lambda *_options, **_more: torch.zeros(0)
    random._set_cuda_rng_state = lambda *_options, **_more: None
    random.CudaRNGStatesTracker.fork = lambda *_options, **_more: nullcontext()


def main(cases_file: Path, results_file: Path) -> None:
    """Read cases, write what becomes of them."""
    stand_in_for_gpu()
    cases = json.loads(cases_file.read_text("utf-8"))
    layouts = [attempted(layout, case) for case in cases["layouts"]]
    cuts = [attempted(even_cut, case) for case in cases["cuts"]]
    sets = [attempted(module_set, case) for case in cases["sets"]]
    has_shares = "activation_offload_fraction" in FIELDS.values()
    shares = [attempted(moved, case) for case in cases["shares"]] if has_shares else []
    models = [attempted(cells, case) for case in cases["models"]]
    schedules.torch = OnCpu()
    orders = [attempted(order, case) for case in cases["orders"]]
    results = {
        "version": megatron.core.__version__,
        "layouts": layouts,
        "cuts": cuts,
        "models": models,
        "sets": sets,
        "shares": shares,
        "orders": orders,
    }
    results_file.write_text(json.dumps(results), "utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
