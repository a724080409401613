"""Model FLOPs of a training step, to tell runs that keep their accelerators busy from those that wait for launches."""

from evenflow.profiles.measured.run import MeasuredRun

BUSY_TFLOPS = 15.0
"""Less model TFLOP/s a GPU: the host launches kernels more slowly than the accelerator runs them."""


def model_tflops_per_gpu(run: MeasuredRun) -> float | None:
    """Return TFLOP/s of a completed and timed run, None of any other.

    Counted are matrix products of forward and backward without recomputation; attention in full, as in
    [Megatron-LM, 2104.04473]; of experts only active ones.
    """
    if run.lacks or not run.step_s or not run.gpus or run.heads is None or run.kv_heads is None:
        return None
    width, seq = run.hidden or 0, run.seq or 0
    heads, kv_heads, head_dim = run.heads, run.kv_heads, run.head_dim or 0
    matrices = 3 if run.gated_mlp else 2
    if run.experts:
        mlp = matrices * width * (run.expert_ffn or 0) * ((run.active_experts or 0) + (run.shared_experts or 0))
    else:
        mlp = matrices * width * (run.ffn or 0)
    projections = width * head_dim * (2 * heads + 2 * kv_heads)
    attention = 2 * seq * heads * head_dim
    layers = (run.layers or 0) + (run.mtp_layers or 0)
    multiplications = layers * (projections + attention + mlp) + width * (run.vocab or 0)
    return 6 * multiplications * seq * (run.gbs or 0) / run.step_s / run.gpus / 1e12


def is_launch_bound(run: MeasuredRun) -> bool:
    """Whether a completed run does so little that launches of kernels decide its time."""
    tflops = model_tflops_per_gpu(run)
    return tflops is not None and tflops < BUSY_TFLOPS
