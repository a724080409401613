"""What really crosses between stages: found by running them on tensors without values, as they will run.

A plan of the boundaries is made when a pipeline is built. But what a stage hands over also depends on the state in
which it runs: under autocast a product of float32 tensors is in 16 bits, and a message received with another type than
it was sent with is garbage. So the first step of every shape begins with a probe of every stage in that very state, and
the result is made known to the stage before and behind.
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.distributed.fsdp import FSDPModule

from evenflow_torch.run.engine.packing import Boundary, boundary_of, tensors_in
from evenflow_torch.run.engine.runtime_stage import Crossing, RuntimeStage
from evenflow_torch.run.engine.stages import StageModule, tensors_of
from evenflow_torch.run.engine.torch_names import tree_map_only

_Told = tuple[list[tuple[tuple[int, ...], torch.dtype]], bool]
"""Shapes and types of what a stage hands over for one microbatch, and whether it gets a gradient."""


def agree_on_boundaries(
    stages: Sequence[RuntimeStage],
    stage_ranks: Sequence[int],
    example: Tensor,
    pipeline: dist.ProcessGroup,
    *,
    microbatch: int = 0,
) -> dict[int, Crossing]:
    """Return what every stage of this rank will receive and hand over in the state of now; every rank calls it.

    `stages` are those of this rank, `example` is the first one's input of one microbatch, `stage_ranks` has the rank of
    every stage, and `pipeline` the processes of all ranks, in order. Parts take what they take of the batch of
    `microbatch`.
    """
    own = {stage.stage_index: stage for stage in stages}
    incoming = boundary_of([example], is_trained=False)
    result: dict[int, Crossing] = {}
    for index, rank in enumerate(stage_ranks[:-1]):
        crossings: list[_Told | None] = [None]
        if index in own:
            planned = own[index].handed_over
            outgoing = probed_output(own[index].submod, incoming, own[index].device, microbatch) or tensors_in(planned)
            crossings = [([(tuple(tensor.shape), tensor.dtype) for tensor in outgoing], planned.tensor.requires_grad)]
        device = stages[0].device if _on_gpu(stages) else None
        dist.broadcast_object_list(crossings, group=pipeline, group_src=rank, device=device)
        assert crossings[0] is not None
        shapes, is_trained = crossings[0]
        tensors = [torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in shapes]
        crossing = boundary_of(tensors, is_trained=is_trained)
        result[index] = incoming, crossing
        incoming = crossing
    last = len(stage_ranks) - 1
    if last in own:
        result[last] = incoming, own[last].handed_over
    return {index: result[index] for index in own}


def probed_output(
    module: StageModule, example: Boundary, device: torch.device, microbatch: int = 0
) -> tuple[Tensor, ...] | None:
    """Return the output of a stage for an input like `example`, without values; None where it does not run so."""

    def stand_in(value: Tensor) -> Tensor:
        return torch.empty(value.shape, dtype=value.dtype, device=device)

    try:
        with FakeTensorMode(allow_non_fake_inputs=True), torch.no_grad():
            values = tuple(map(stand_in, tensors_in(example)))
            for part in module.parts:
                if not part.keeps_shape:
                    called = _Ungathered(part.module) if isinstance(part.module, FSDPModule) else part.module
                    state = {
                        name: stand_in(value) for name, value in (*called.named_parameters(), *called.named_buffers())
                    }
                    named = tree_map_only(Tensor, stand_in, module.arguments(part, values[0], microbatch))
                    values = tensors_of(torch.func.functional_call(called, state, values, named), part)
    except Exception:  # noqa: BLE001  what a module raises on such tensors is anything; the real output is checked
        return None
    return tuple(torch.empty(value.shape, dtype=value.dtype, device="meta") for value in values)


class _Ungathered(nn.Module):
    """A module whose parameters replicas share, without the hooks that gather them."""

    def __init__(self, module: nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module.forward(*args, **kwargs)


def _on_gpu(stages: Sequence[RuntimeStage]) -> bool:
    return bool(stages[0].device.type == "cuda")
