"""Logs as the frameworks write them: each function follows the format string of the framework's own code."""

from collections.abc import Iterable, Mapping

LLAMA = {
    "bf16": True, "fp16": False, "fp8": None, "num_layers": 32, "hidden_size": 4096, "ffn_hidden_size": 14336,
    "num_attention_heads": 32, "group_query_attention": True, "num_query_groups": 8, "kv_channels": 128,
    "seq_length": 8192, "vocab_size": None, "swiglu": True, "untie_embeddings_and_output_weights": True,
    "num_experts": None, "tensor_model_parallel_size": 2, "pipeline_model_parallel_size": 2,
    "context_parallel_size": 1, "expert_model_parallel_size": 1, "virtual_pipeline_model_parallel_size": None,
    "data_parallel_size": 4, "world_size": 16, "micro_batch_size": 1, "global_batch_size": 128,
    "sequence_parallel": True, "use_distributed_optimizer": True, "recompute_granularity": None,
    "overlap_grad_reduce": True, "pipeline_model_parallel_layout": None,
}  # fmt: skip
"""Arguments of Megatron-LM for a Llama of 8 billion parameters on 16 devices."""


def arguments(values: Mapping[str, object]) -> list[str]:
    """Arguments as Megatron-LM's `_print_args` prints them."""
    lines = ["------------------------ arguments ------------------------"]
    lines += sorted(f"  {name} {'.' * (48 - len(name))} {value}" for name, value in values.items())
    return [*lines, "-------------------- end of arguments ---------------------"]


def iteration(number: int, time_ms: float, *, batch: int = 128, tflops: float | None = 400.0, total: int = 5000) -> str:
    """A line of progress as Megatron-LM's `training_log` writes it."""
    line = f" [2025-03-31 05:54:07] iteration {number:8d}/{total:8d} |"
    line += f" consumed samples: {number * batch:12d} |"
    line += f" elapsed time per iteration (ms): {time_ms:.1f} |"
    if tflops is not None:
        line += f" throughput per GPU (TFLOP/s/GPU): {tflops:.1f} |"
    line += (
        f" learning rate: {1.5e-4:.6E} | global batch size: {batch:5d} | lm loss: {9.5:.6E} | loss scale: {1.0:.1f} |"
    )
    return line + " grad norm: 1.520 | number of skipped iterations:   0 | number of nan iterations:   0 |"


def memory(rank: int, allocated: float, reserved: float) -> str:
    """Peaks in megabytes as Megatron-LM's `report_memory` prints them."""
    return (
        f"[Rank {rank}] (after 2 iterations) memory (MB) | allocated: 1.5 | max allocated: {allocated}"
        f" | reserved: 2.0 | max reserved: {reserved}"
    )


def bridge_memory(rank: int, allocated: float, reserved: float) -> str:
    """Peaks in 10^9 bytes as Megatron-Bridge prints them."""
    pairs = {
        "mem-allocated-gigabytes": 1.5, "mem-active-gigabytes": 1.5, "mem-inactive-gigabytes": 0.5,
        "mem-reserved-gigabytes": 2.0, "mem-max-allocated-gigabytes": allocated,
        "mem-max-active-gigabytes": allocated, "mem-max-inactive-gigabytes": 0.7,
        "mem-max-reserved-gigabytes": reserved, "mem-alloc-retires": 0, "mem-allocated-count": 507,
    }  # fmt: skip
    return f"[Rank {rank}] (after 2 iterations) memory (GB) | " + " | ".join(f"{k}: {v}" for k, v in pairs.items())


def titan_line(text: str, rank: int = 0) -> str:
    """A line of torchtitan's logger, with the prefix of torchrun."""
    return f"[rank{rank}]:[titan] 2025-12-14 05:43:30,311 - root - INFO - {text}"


def titan_step(number: int, tps: float, *, memory_gib: float = 47.25, rank: int = 0) -> str:
    """A line of progress as torchtitan's `MetricsProcessor.log` writes it, with its colours."""
    text = (
        f"\x1b[31mstep: {number:2}  \x1b[32mloss: {10.0371:7.4f}  \x1b[38;2;180;60;0mgrad_norm: {6.242:7.4f}  "
        f"\x1b[38;2;54;234;195mmemory: {memory_gib:5.2f}GiB(59.73%)  \x1b[34mtps: {round(tps):,}  "
        f"\x1b[36mtflops: {1407.91:,.2f}  \x1b[35mmfu: 41.24%\x1b[39m"
    )
    return titan_line(text, rank)


def titan_head(
    *, mesh: str = "pp=1, dp_replicate=1, dp_shard=64, cp=1, tp=1, ep=1, etp=1", batch: int = 64
) -> list[str]:
    """What torchtitan says before its first step."""
    arguments = {
        "job": {"dump_folder": "./outputs"},
        "training": {"local_batch_size": 1, "global_batch_size": -1, "seq_len": 8192},
        "mixed_precision": {"mixed_precision_param": "bfloat16"},
        "parallelism": {"data_parallel_shard_degree": -1, "tensor_parallel_degree": 1},
    }  # fmt: skip
    model = (
        "TransformerModelArgs(_enforced='This field is used to enforce all fields have defaults.', dim=4096, "
        "n_layers=32, n_heads=32, n_kv_heads=8, vocab_size=128256, multiple_of=1024, ffn_dim_multiplier=1.3, "
        "norm_eps=1e-05, rope_theta=500000, max_seq_len=8192)"
    )
    texts = (
        "Starting job: Llama 3 8B training",
        f"Running with args: {arguments}",
        f"Building device mesh with parallelism: {mesh}",
        f"Building llama3 8B with {model}",
        "CUDA capacity: NVIDIA H100 80GB HBM3 with 79.10GiB memory",
        "\x1b[34mModel llama3 8B \x1b[31msize: 8,030,261,248 total parameters\x1b[39m",
        "Applied selective activation checkpointing to the model",
        "Compiling each TransformerBlock with torch.compile",
        f"Trainer is initialized with local batch size 1, global batch size {batch}, gradient accumulation steps 1, "
        "sequence length 8192, total steps 1000 (warmup 200)",
    )
    return [titan_line(text) for text in texts]


def nemo_step(number: int, time_s: float, *, batch: int = 512) -> str:
    """A line of progress of NeMo's `ProgressPrinter`."""
    return (
        f"Training epoch 0, iteration {number}/99 | lr: 1.96e-06 | global_batch_size: {batch} | global_step: {number} "
        f"| reduced_train_loss: 11.03 | train_step_timing in s: {time_s:.4} | consumed_samples: {batch * (number + 1)}"
    )


def nemo_bar(number: int, time_s: float) -> str:
    """The progress bar of Lightning with NeMo's metrics, which writes over itself."""
    return (
        f"\rEpoch 0: : {number}%|▍         | {number}/100 [00:31<12:00, reduced_train_loss=11.0, "
        f"global_step={number:.3f}, consumed_samples={512.0 * number}, train_step_timing in s={time_s:.3f}]"
    )


def mindformers_step(number: int, time_ms: int, *, epoch: int = 1, steps: int = 100) -> str:
    """A line of progress of MindFormers' `MFLossMonitor`."""
    return (
        "2025-01-01 00:00:00,000 - mindformers[mindformers/core/callback/callback.py:537] - INFO - "
        f"{{ Epoch:[{epoch:3d}/  2], step:[{number:5d}/{steps:5d}], loss: 11.123, per_step_time: {time_ms}ms, "
        "lr: 1e-06, overflow cond: False, loss_scale: 1.0, global_norm: [18.36], train_throughput_per_npu: 171.176T"
    )


def pynative_step(number: int, time_ms: int) -> str:
    """A line of progress of MindFormers' trainer for PyNative mode."""
    return (
        f"INFO - {{ step:[{number:5d}/  100], loss: {10.5:10.6f}, per_step_time: {time_ms:6d}ms, lr: {1e-6:10.6e}, "
        f"grad_norm: {1.5:10.6f}, throughput: {171.18:6.2f}T }}"
    )


def deepspeed_step(number: int, rate: float, memory_gb: float = 38.49) -> str:
    """A line of progress of DeepSpeed's throughput timer."""
    return (
        f"[2023-11-07 01:55:23,714] [INFO] [timer.py:260:stop] epoch=0/micro_step={number * 4}/global_step={number}, "
        f"RunningAvgSamplesPerSec={rate + 0.1}, CurrSamplesPerSec={rate}, MemAllocated=4.32GB, "
        f"MaxMemAllocated={memory_gb}GB"
    )


def steps(times_ms: Iterable[float], *, first: int = 1) -> list[str]:
    """Lines of progress of Megatron-LM."""
    return [iteration(number, time_ms) for number, time_ms in enumerate(times_ms, start=first)]
