"""Time of the runtime beside the stages' own work, measured on small pipelines whose stages only wait.

    action    one rank:                 start to start of equal actions, less the stage alone
    send      two ranks, the second     the same of the first rank's forwards, less an action
    receive     the slower one          the same of the second's forwards, whose inputs are there early, less an action

On a CPU each stage waits as long as real work would: what follows then finds cold caches, as in training. On a GPU the
host is ahead of the device and messages have streams of their own, so there is no waiting and they cost nothing.
"""

import statistics
import time
from itertools import pairwise
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from evenflow.schedule import Op, f_then_b
from evenflow_torch.run.engine.runtime import make_runtime
from evenflow_torch.run.engine.runtime_stage import RuntimeStage
from evenflow_torch.run.measure.recorder import Recorder
from evenflow_torch.run.values.run_result import Overhead

_MICROBATCHES = 8
_PIPELINES = 6
_MOST_TURNS = 4
_WAIT_SECONDS = 2e-3


def measure_overhead(boundary: Tensor, device: torch.device) -> Overhead:
    """Return the overhead with messages like `boundary`: medians over the first few ranks, pair after pair.

    Every rank calls it.
    """
    rank, size = dist.get_rank(), dist.get_world_size()
    alone = [dist.new_group([first]) for first in range(size)]
    pairs = [dist.new_group([first, first + 1]) for first in range(0, size - 1, 2)]
    size_alike = boundary if device.type == "cpu" else torch.empty(1, 1, device="meta")
    boundary = size_alike.detach().requires_grad_(boundary.is_floating_point())  # also where nothing before is trained
    own: tuple[list[int], list[int], list[int]] = ([], [], [])  # action, with send, with receive
    for turn in range(min(_MOST_TURNS, (size + 1) // 2)):  # so that ranks do not wait for one another's cores
        dist.barrier()
        if rank // 2 == turn:
            own[0].extend(_beside_forwards_ns(boundary, device, alone[rank], _WAIT_SECONDS))
        if device.type == "cpu" and rank // 2 == turn < len(pairs):
            is_second = rank % 2
            own[1 + is_second].extend(
                _beside_forwards_ns(boundary, device, pairs[turn], _WAIT_SECONDS * (1 + is_second))
            )
    for group in (alone[rank], *pairs[rank // 2 : rank // 2 + 1]):  # their threads would stay
        dist.destroy_process_group(group)
    gathered: list[Any] = [None] * size
    dist.all_gather_object(gathered, own)
    action, send, receive = (
        round(statistics.median([time_ns for times in gathered for time_ns in times[which]] or [0]))
        for which in range(3)
    )
    return Overhead(action_ns=max(0, action), send_ns=max(0, send - action), receive_ns=max(0, receive - action))


def _beside_forwards_ns(boundary: Tensor, device: torch.device, group: dist.ProcessGroup, wait: float) -> list[int]:
    """Return times between the starts of forwards, less their work of `wait` seconds, in a pipeline over `group`."""
    recorder = Recorder(device)
    module = _Waiting(wait if device.type == "cpu" else 0.0, boundary.dtype).to(device)
    stage = RuntimeStage(
        module,
        index=dist.get_rank(group),
        num_stages=group.size(),
        device=device,
        example_input=boundary,
        example_output=boundary,
        weight_gradients=None,
        group=group,
    )
    stage.observer = recorder
    schedule = f_then_b(num_ranks=group.size(), num_microbatches=_MICROBATCHES)
    engine = make_runtime([stage], schedule, lambda output, _target: output.flatten()[0])
    microbatch = torch.zeros_like(boundary, device=device, requires_grad=False)
    batch = [microbatch] * _MICROBATCHES
    beside: list[int] = []
    for number in range(1 + _PIPELINES):
        module.worked_ns.clear()
        recorder.start_step()
        engine.run(batch if stage.is_first else None, batch if stage.is_last else None)
        starts = [start for op, _, _, start, _ in recorder.rows() if op == Op.F]
        periods = [later - start for start, later in pairwise(starts)]
        if number:  # the first one warms up
            beside += [period - worked for period, worked in zip(periods, module.worked_ns[:-1], strict=True)][1:]
    return beside


class _Waiting(nn.Module):
    """A stage that waits and has a parameter to train."""

    def __init__(self, seconds: float, dtype: torch.dtype) -> None:
        """`dtype` is that of its input, and so of its output."""
        super().__init__()
        self.factor = nn.Parameter(torch.ones(1, dtype=dtype))
        self.seconds = seconds
        self.worked_ns: list[int] = []
        self.microbatch = 0

    def forward(self, hidden: Tensor) -> Tensor:
        start = time.perf_counter_ns()
        if self.seconds:
            time.sleep(self.seconds)
        output = hidden * self.factor
        self.worked_ns.append(time.perf_counter_ns() - start if self.seconds else 0)
        return output
