"""Runs examples/training/with_megatron.py on the CPU: messages go over gloo, and what asks for a GPU gets the CPU."""

import runpy
import sys
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import MagicMock

import load
import torch
from torch import Tensor
from train import OnCpu


class AsOnGpu(OnCpu):
    """Lets tensors say that they are on a GPU where Megatron-LM insists, as it does before it clips gradients."""

    def __torch_function__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function of torch."""
        if function is Tensor.type and len(args) == 1 and not kwargs:
            return Tensor.type(args[0]).replace("torch.", "torch.cuda.")
        return super().__torch_function__(function, types, args, kwargs)


def main(example: Path, arguments: list[str]) -> None:
    """Run the example."""
    load.stand_in_for_gpu()
    torch.cuda.get_rng_state = lambda *_options, **_more: torch.zeros(0)
    torch.cuda.manual_seed = torch.cuda.set_rng_state = torch.cuda.synchronize = lambda *_options, **_more: None
    torch.cuda.current_stream, torch.cuda.stream = lambda *_options: MagicMock(), lambda *_options: nullcontext()
    torch.distributed.init_process_group = partial(torch.distributed.init_process_group, "gloo")
    sys.argv = [str(example), *arguments]
    with AsOnGpu():
        runpy.run_path(str(example), run_name="__main__")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
