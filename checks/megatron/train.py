"""Trains a small GPT with Megatron-LM's pipeline on the CPU, as flags and a plan say: one process for each rank.

Run by `check.py` in the environment that has megatron-core. Messages go over gloo. What asks for a GPU gets the CPU.
Weights depend on the layer's number in the whole network alone, so that every cut starts from the same model.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import load
import torch
from megatron.core import parallel_state
from megatron.core.pipeline_parallel import get_forward_backward_func
from torch.overrides import TorchFunctionMode

from evenflow.adapters.megatron import plan_hook

STEPS, RATE = 4, 0.5


class OnCpu(TorchFunctionMode):
    """Makes tensors on the CPU that are asked for on a GPU."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function of torch."""
        options = dict(kwargs or {})
        if str(options.get("device", "")).startswith("cuda"):
            options["device"] = "cpu"
        return function(*args, **options)


def main(case_file: Path, rank: int, results_file: Path) -> None:
    """Train; the last rank writes the loss of every step."""
    case = json.loads(case_file.read_text("utf-8"))
    load.stand_in_for_gpu()
    config = load.configuration(case["flags"], batch_p2p_sync=False)
    ranks = config.pipeline_model_parallel_size
    torch.distributed.init_process_group("gloo", init_method=f"file://{case['meeting']}", rank=rank, world_size=ranks)
    parallel_state.initialize_model_parallel(
        pipeline_model_parallel_size=ranks,
        virtual_pipeline_model_parallel_size=config.virtual_pipeline_model_parallel_size,
        create_gloo_process_groups=False,
    )
    chunks = load.model_chunks(config)
    if case["plan_file"]:
        chunks = plan_hook(case["plan_file"])(chunks)
    for chunk in chunks:
        set_weights(chunk)
    parameters = [parameter for chunk in chunks for parameter in chunk.parameters()]
    losses = []
    with OnCpu():
        for _step in range(STEPS):
            batches = [microbatches(case["microbatches"]) for _chunk in chunks]
            reported = get_forward_backward_func()(
                forward_step_func=forward_step,
                data_iterator=batches if len(chunks) > 1 else batches[0],
                model=chunks if len(chunks) > 1 else chunks[0],
                num_microbatches=case["microbatches"],
                seq_length=load.SEQUENCE,
                micro_batch_size=load.BATCH,
            )
            losses.append(sum(each["loss"] for each in reported) / case["microbatches"] if reported else None)
            with torch.no_grad():
                for parameter in parameters:
                    if parameter.grad is not None:
                        parameter.add_(parameter.grad, alpha=-RATE)
                    parameter.grad = None
    if rank == ranks - 1:
        results_file.write_text(json.dumps(losses), "utf-8")
    torch.distributed.barrier()


def set_weights(chunk: Any) -> None:
    """Give every parameter values that its name in the whole network decides."""
    numbers = {f"decoder.layers.{index}.": layer.layer_number for index, layer in enumerate(chunk.decoder.layers)}
    with torch.no_grad():
        for name, parameter in chunk.named_parameters():
            place = next((start for start in numbers if name.startswith(start)), "")
            whole = f"layer {numbers[place]} {name.removeprefix(place)}" if place else name
            source = torch.Generator().manual_seed(sum(index * ord(letter) for index, letter in enumerate(whole, 1)))
            if parameter.dim() > 1:
                parameter.copy_(0.2 * torch.randn(parameter.shape, generator=source))


def microbatches(count: int) -> Iterator[torch.Tensor]:
    """Yield the words of every microbatch of a step, the same in each."""
    source = torch.Generator().manual_seed(1)
    for _number in range(count):
        yield torch.randint(load.WORDS, (load.BATCH, load.SEQUENCE), generator=source)


def forward_step(batches: Iterator[torch.Tensor], model: Any) -> Any:
    """Run one microbatch through a chunk, as a training script of Megatron-LM does."""
    words = next(batches)
    places = torch.arange(load.SEQUENCE)[None]
    output = model(words, places, load.causal_mask(), labels=words.roll(-1, 1))

    def loss_of(result: torch.Tensor) -> tuple[torch.Tensor, dict[str, float]]:
        loss = result.mean()
        return loss, {"loss": float(loss)}

    return output, loss_of


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
