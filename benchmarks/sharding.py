"""Time of operator sharding: trace, strategies and integer program, each case with nothing remembered."""

import time
from dataclasses import dataclass
from typing import Any

from benchmarks.table import aligned
from evenflow.cluster import accelerator_named
from evenflow_torch.auto import Mesh, MeshAxis, Training, shard

WIDTH, HEADS, FEED_FORWARD, VOCABULARY = 4096, 32, 11_008, 32_000
SEQUENCE = 4096
LAYERS = (1, 32, 80)
FAST, SLOW = 200 * 10**9, 25 * 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class ShardingSpeed:
    """The measurement of one case."""

    name: str
    mesh: tuple[int, ...]
    status: str
    seconds: float
    processor_seconds: float


def measure_all() -> list[ShardingSpeed]:
    """Measure a block alone, then whole models; a tiny model comes first and loads everything."""
    _measure("", _model(1, tiny=True), (1, 2))
    cases = [_measure("block", _block(), (4, 8))]
    return cases + [_measure(f"model, {layers} layers", _model(layers), (64, 8)) for layers in LAYERS]


def report(speeds: list[ShardingSpeed]) -> str:
    """Return a row for each case; the last column compares with the model of one layer."""
    one_layer = next(speed.seconds for speed in speeds if speed.name == "model, 1 layers")
    rows = [
        [
            speed.name,
            "x".join(map(str, speed.mesh)),
            speed.status,
            f"{speed.seconds:.1f}",
            f"{speed.processor_seconds:.1f}",
            f"{speed.seconds / one_layer:.2f}",
        ]
        for speed in speeds
    ]
    return aligned(["llama, width 4096", "mesh", "status", "s", "processor s", "of one layer"], rows)


def _measure(name: str, case: tuple[Any, Any], shape: tuple[int, int]) -> ShardingSpeed:
    mesh = Mesh(
        axes=(
            MeshAxis(size=shape[0], bandwidth_bytes_per_s=SLOW, latency_ns=20_000),
            MeshAxis(size=shape[1], bandwidth_bytes_per_s=FAST, latency_ns=5_000),
        ),
        accelerator=accelerator_named("a100"),
    )
    module, example = case
    start, processor = time.perf_counter(), time.process_time()
    plan = shard(module, example, mesh, training=Training(num_microbatches=8, optimizer_bytes_per_parameter=12))
    return ShardingSpeed(
        name=name,
        mesh=shape,
        status=plan.status.value,
        seconds=time.perf_counter() - start,
        processor_seconds=time.process_time() - processor,
    )


def _config(layers: int, *, tiny: bool = False) -> Any:
    from transformers import LlamaConfig

    return LlamaConfig(
        hidden_size=64 if tiny else WIDTH,
        intermediate_size=128 if tiny else FEED_FORWARD,
        num_attention_heads=4 if tiny else HEADS,
        num_hidden_layers=layers,
        vocab_size=128 if tiny else VOCABULARY,
        attn_implementation="sdpa",
        use_cache=False,
    )


def _model(layers: int, *, tiny: bool = False) -> tuple[Any, Any]:
    """Make a whole Llama with its loss, and 512 sequences for all devices."""
    import torch
    from transformers import LlamaForCausalLM

    with torch.device("meta"):
        model = LlamaForCausalLM(_config(layers, tiny=tiny)).to(torch.bfloat16)
        tokens = torch.zeros(512, SEQUENCE, dtype=torch.long)
    return model, {"input_ids": tokens, "labels": tokens}


def _block() -> tuple[Any, Any]:
    """Make one layer with its rotary embedding, and 32 sequences."""
    import torch
    from torch import nn
    from transformers.models.llama.modeling_llama import LlamaDecoderLayer, LlamaRotaryEmbedding

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            config = _config(1)
            self.layer, self.rotary = LlamaDecoderLayer(config, 0), LlamaRotaryEmbedding(config)

        def forward(self, hidden: Any) -> Any:
            positions = torch.arange(hidden.shape[1], device=hidden.device).unsqueeze(0)
            return self.layer(hidden, position_embeddings=self.rotary(hidden, positions))

    with torch.device("meta"):
        block = Block().to(torch.bfloat16)
        hidden = torch.empty(32, SEQUENCE, WIDTH, dtype=torch.bfloat16, requires_grad=True)
    return block, hidden
