"""Megatron-LM's own pipeline, optimizer and checkpoints with a plan: its flags, and the adapter for what they lack.

evenflow plan layers.json --target megatron-adapter … --json plan.json
evenflow export plan.json --to megatron-adapter            (prints PIPELINE_ARGS)
torchrun --nproc-per-node RANKS examples/training/with_megatron.py plan.json STEPS "${PIPELINE_ARGS[@]}"

The loop is the smallest that megatron-core allows; with Megatron-LM's pretrain_gpt.py, `evenflow apply plan.json
train.sh` puts in the flags, and `with_plan` goes around its model_provider. A training that stopped goes on, also under
another plan.
"""

import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from megatron.core import dist_checkpointing, parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel import get_forward_backward_func, utils
from megatron.core.tensor_parallel import model_parallel_cuda_manual_seed
from megatron.core.transformer import TransformerConfig
from torch import Tensor

from evenflow import read_plan_file
from evenflow.adapters.megatron import plan_hook

LENGTH, VOCABULARY, SAMPLES = 16, 64, 2
CHECKPOINTS = Path("checkpoints")


def fields(arguments: list[str]) -> dict[str, Any]:
    """The fields of Megatron-LM's configuration that its flags set."""
    names = {}
    for field in dataclasses.fields(TransformerConfig):
        own = field.metadata.get("argparse_meta", {}).get("arg_names", [f"--{field.name.replace('_', '-')}"])
        names.update(dict.fromkeys(own, field.name))
    values: dict[str, Any] = {}
    for argument in arguments:
        if argument.startswith("--"):
            name = names[argument]
            values[name] = True
        else:
            values[name] = int(argument) if argument.isdecimal() else argument
    return values


def chunks_of(config: TransformerConfig, plan: str) -> list[Any]:
    """The model chunks of this rank, as Megatron-LM's get_model builds them."""
    group, count = parallel_state.get_pipeline_model_parallel_group(), config.virtual_pipeline_model_parallel_size
    chunks = [
        GPTModel(
            config=config,
            transformer_layer_spec=get_gpt_layer_local_spec(),
            vocab_size=VOCABULARY,
            max_sequence_length=LENGTH,
            pre_process=utils.is_pp_first_stage(group) and utils.is_vp_first_stage(chunk, count),
            post_process=utils.is_pp_last_stage(group) and utils.is_vp_last_stage(chunk, count),
            vp_stage=chunk if count else None,
        )
        for chunk in range(count or 1)
    ]
    plan_hook(plan)(chunks)
    reduction = DistributedDataParallelConfig(overlap_grad_reduce=False, use_distributed_optimizer=False)
    return [
        DistributedDataParallel(config, reduction, chunk.to(torch.cuda.current_device()), disable_bucketing=place > 0)
        for place, chunk in enumerate(chunks)
    ]


def microbatches(step: int, number: int) -> Iterator[Tensor]:
    """Sequences that count up."""
    random = torch.Generator().manual_seed(step)
    for _ in range(number):
        first = torch.randint(VOCABULARY, (SAMPLES, 1), generator=random)
        yield ((first + torch.arange(LENGTH + 1)) % VOCABULARY).to(torch.cuda.current_device())


def mean_loss(losses: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
    loss = losses.mean()
    return loss, {"loss": loss.detach().clone()}  # Megatron-LM divides it in place


def forward_step(batches: Iterator[Tensor], model: Any) -> tuple[Tensor, Any]:
    tokens = next(batches)
    places = torch.arange(LENGTH, device=tokens.device)[None]
    hidden = torch.ones(1, 1, LENGTH, LENGTH, dtype=torch.bool, device=tokens.device).triu(1)
    return model(tokens[:, :-1], places, hidden, labels=tokens[:, 1:]), mean_loss


def state_of(chunks: list[Any], optimizer: Any, step: int, *, is_loading: bool) -> dict[str, Any]:
    """What a checkpoint has, by the numbers of the layers in the whole network."""
    state: dict[str, Any] = {"step": step}
    for place, chunk in enumerate(chunks):
        state[f"model{place}"] = chunk.module.sharded_state_dict()
    state["optimizer"] = optimizer.sharded_state_dict(state, is_loading=is_loading)
    return state


def main() -> None:
    plan, steps = sys.argv[1], int(sys.argv[2])
    number = read_plan_file(plan).num_microbatches
    dist.init_process_group()
    config = TransformerConfig(
        hidden_size=32, num_attention_heads=4, pipeline_dtype=torch.float32, use_cpu_initialization=True,
        hidden_dropout=0.0, attention_dropout=0.0, batch_p2p_sync=False, **fields(sys.argv[3:]),
    )  # fmt: skip
    parallel_state.initialize_model_parallel(
        pipeline_model_parallel_size=config.pipeline_model_parallel_size,
        virtual_pipeline_model_parallel_size=config.virtual_pipeline_model_parallel_size,
    )
    model_parallel_cuda_manual_seed(0)
    torch.manual_seed(0)
    chunks = chunks_of(config, plan)
    optimizer = get_megatron_optimizer(OptimizerConfig(optimizer="adam", lr=1e-2, weight_decay=0.0), chunks)
    config.finalize_model_grads_func = finalize_model_grads
    config.grad_scale_func = optimizer.scale_loss
    first = 0
    if CHECKPOINTS.exists():
        folder = max(CHECKPOINTS.iterdir())
        state = dist_checkpointing.load(state_of(chunks, optimizer, 0, is_loading=True), str(folder))
        for place, chunk in enumerate(chunks):
            chunk.module.load_state_dict(state.get(f"model{place}", {}))  # a stage may have no layers
        optimizer.load_state_dict(state["optimizer"])
        first = state["step"]
    run = get_forward_backward_func()
    for step in range(first, steps):
        for chunk in chunks:
            chunk.zero_grad_buffer()
        optimizer.zero_grad()
        batches = [microbatches(step, number) for _chunk in chunks]
        told = run(
            forward_step_func=forward_step,
            data_iterator=batches if len(chunks) > 1 else batches[0],
            model=chunks if len(chunks) > 1 else chunks[0],
            num_microbatches=number,
            seq_length=LENGTH,
            micro_batch_size=SAMPLES,
        )
        optimizer.step()
        if told:  # on the rank of the last stage
            print(f"step {step}: loss {sum(float(each['loss']) for each in told) / number:.6f}", flush=True)
    folder = CHECKPOINTS / f"step-{steps:06}"
    folder.mkdir(parents=True, exist_ok=True)
    dist_checkpointing.save(state_of(chunks, optimizer, steps, is_loading=False), str(folder))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
