"""Stages whose parameters replicas share, in work that is no action of the schedule: a check in a bubble.

Such work needs the parameters whole, and must not reduce gradients, which it sets apart. All replicas do it at the same
place of their orders, as it gathers where the runtime has let go of the parameters already.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from torch.distributed.fsdp import FSDPModule

from evenflow_torch.run.engine.runtime_stage import RuntimeStage
from evenflow_torch.run.engine.torch_names import TorchRuntime, is_gathered, reduce_nothing


@contextmanager
def whole(stage: RuntimeStage, runtime: TorchRuntime) -> Iterator[None]:
    """Have the parameters of a stage whole inside, where replicas share them, and reduce no gradients."""
    module: Any = stage.submod
    if not isinstance(module, FSDPModule):
        yield
        return
    was_gathered = is_gathered(runtime, stage)
    reduce_nothing(module)
    sharded = gather(stage)
    try:
        yield
    finally:
        if not was_gathered:
            for inner in sharded:
                inner.reshard()


def gather(stage: RuntimeStage) -> list[FSDPModule]:
    """Wait until the parameters of a stage are whole; return the modules whose parameters replicas share."""
    sharded = [inner for inner in stage.submod.modules() if isinstance(inner, FSDPModule)]
    for inner in sharded:
        inner.unshard()
    return sharded
