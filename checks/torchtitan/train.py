"""Train torchtitan 0.3's Llama debug model on CPU, with the plan of a module or without a pipeline.

Started by `trained.py` with torch.distributed.run. torchtitan knows accelerators only, so the CPU is named as the
device before it is imported, and what it asks a device for is answered here. Its attention has no backward on CPU and
becomes PyTorch's. Its trainer, its pipeline and its schedules are its own. Weights are made from the names of the
parameters, so that they do not depend on the cut.
"""

import importlib.util
import json
import os
import sys
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from torch import _utils

STEPS, SEQUENCES, TOKENS, WORDS = 3, 8, 64, 2048

_utils._get_available_device_type = lambda: "cpu"
torch.cpu.current_device = lambda: 0
torch.cpu.get_device_name = lambda *_: "cpu"
torch.cpu.get_device_properties = lambda *_: SimpleNamespace(total_memory=2**34)
torch.cpu.reset_peak_memory_stats = torch.cpu.empty_cache = lambda *_: None
torch.cpu.memory_stats = lambda *_: {}

from torchtitan.components.dataloader import BaseDataLoader  # noqa: E402
from torchtitan.components.tokenizer import BaseTokenizer  # noqa: E402
from torchtitan.distributed import utils as dist_utils  # noqa: E402
from torchtitan.models.common.attention import FlexAttention, ScaledDotProductAttention  # noqa: E402
from torchtitan.models.llama3.config_registry import llama3_debugmodel  # noqa: E402

# Timeouts can be changed in newer releases of PyTorch only.
dist_utils.set_pg_timeouts = lambda **_: None


class RandomTokens(BaseDataLoader):
    """The same random sequences, in batches of any size."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseDataLoader.Config):
        """Nothing can be chosen."""

    def __init__(self, config: Any, *, seq_len: int, local_batch_size: int, **_others: Any) -> None:
        self.config, self.length, self.size = config, seq_len, local_batch_size
        self.sequences = 0

    def __iter__(self) -> Iterator[tuple[dict[str, torch.Tensor], torch.Tensor]]:
        """Yield inputs and targets, shape [batch, tokens]."""
        positions = torch.arange(self.length).expand(self.size, -1).contiguous()
        while True:
            numbers = range(self.sequences, self.sequences + self.size)
            rows = [torch.randint(WORDS, (self.length + 1,), generator=_seeded(number)) for number in numbers]
            batch = torch.stack(rows)
            self.sequences += self.size
            yield {"input": batch[:, :-1].contiguous(), "positions": positions}, batch[:, 1:].contiguous()

    def state_dict(self) -> dict[str, Any]:
        """Return how many sequences there were."""
        return {"sequences": self.sequences}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Go on behind those."""
        self.sequences = state_dict["sequences"]


def _seeded(number: int) -> torch.Generator:
    return torch.Generator().manual_seed(number)


class NoTokenizer(BaseTokenizer):
    """There is no text."""

    @dataclass(kw_only=True, slots=True)
    class Config(BaseTokenizer.Config):
        """Nothing can be chosen."""

    def __init__(self, config: Any, **_others: Any) -> None:
        super().__init__()
        self.config = config

    def encode(self, *_args: Any, **_others: Any) -> list[int]:
        """Return nothing."""
        return []

    def decode(self, *_args: Any, **_others: Any) -> str:
        """Return nothing."""
        return ""

    def get_vocab_size(self) -> int:
        """Return the number of words."""
        return WORDS


def settings() -> Any:
    """Return the configuration of a run without a pipeline."""
    config = llama3_debugmodel()
    for _name, _old, parent, field in config.model_spec.model.traverse(FlexAttention.Config):
        setattr(parent, field, ScaledDotProductAttention.Config())
    config.training.seq_len, config.training.steps, config.training.local_batch_size = TOKENS, STEPS, SEQUENCES
    config.training.mixed_precision_param, config.training.disable_cuda_graphs = "float32", True
    config.dataloader, config.tokenizer = RandomTokens.Config(), NoTokenizer.Config()
    config.activation_checkpoint, config.validator.enable = None, False
    return config


def set_weights(parts: list[Any]) -> None:
    """Give every parameter values that follow from its name."""
    for part in parts:
        for name, parameter in part.named_parameters():
            plain = name.replace("_checkpoint_wrapped_module.", "")
            generator = torch.Generator().manual_seed(zlib.crc32(plain.encode()))
            local = parameter.to_local()
            with torch.no_grad():
                local.copy_(torch.randn(local.shape, generator=generator) * 0.05 + (1.0 if "norm" in plain else 0.0))


def count_forwards(parts: list[Any], counts: dict[str, int]) -> None:
    """Count the forwards of attention and of the first norm of every layer."""
    for part in parts:
        for name, module in part.named_modules():
            plain = name.replace("._checkpoint_wrapped_module", "")
            if (
                plain.startswith("layers.")
                and plain.endswith((".attention", ".attention_norm"))
                and plain not in counts
            ):
                counts[plain] = 0
                inner = getattr(module, "_checkpoint_wrapped_module", module)
                inner.register_forward_pre_hook(lambda *_, plain=plain: counts.update({plain: counts[plain] + 1}))


def with_whole_batches(schedule: Any) -> None:
    """Let the schedule of torch 2.13 take microbatches that are cut already, as the trainer gives them."""
    step = schedule.step

    def whole(*, arg_mbs: Any, kwarg_mbs: Any, target_mbs: Any, **others: Any) -> Any:
        args = tuple(map(torch.cat, zip(*arg_mbs, strict=True))) if arg_mbs else ()
        kwargs = {key: torch.cat([each[key] for each in kwarg_mbs]) for key in kwarg_mbs[0]}
        return step(*args, target=torch.cat(target_mbs) if target_mbs else None, **others, **kwargs)

    schedule.step = whole


def main() -> None:
    """Train; write the losses and the numbers of forwards of this process."""
    config = settings()
    if len(sys.argv) > 2:
        spec = importlib.util.spec_from_file_location("evenflow_plan", sys.argv[2])
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        config = module.with_plan(config)
    config.dump_folder = sys.argv[1]
    trainer = config.build()
    set_weights(trainer.model_parts)
    if trainer.parallel_dims.pp_enabled:
        with_whole_batches(trainer.pp_schedule)
    losses: list[float] = []
    counts: dict[str, int] = {}
    count_forwards(trainer.model_parts, counts)
    forward_backward = trainer.forward_backward_step

    def noted(**values: Any) -> Any:
        loss = forward_backward(**values)
        losses.append(float(loss.detach()))
        if len(losses) == 1:  # the runtime has asked for shapes in the first step
            counts.update(dict.fromkeys(counts, 0))
        return loss

    trainer.forward_backward_step = noted
    trainer.train()
    trainer.close()
    seen = {"losses": losses, "forwards": counts}
    Path(sys.argv[1], f"rank{os.environ['RANK']}.json").write_text(json.dumps(seen), encoding="utf-8")
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
