"""Start and end of every action of a rank, on a clock that all ranks share."""

import time

import torch
import torch.distributed as dist

from evenflow.schedule import Op
from evenflow_torch.run.values.run_result import ActionRow

_EXCHANGES = 50


class Recorder:
    """An `Observer` that writes down begin and end of every action.

    On a GPU the times are those of the device: events are put into its stream, and read after the step.
    """

    def __init__(self, device: torch.device, *, clock_offset_ns: int = 0) -> None:
        self._on_gpu = device.type == "cuda"
        self._offset_ns = clock_offset_ns
        self._actions: list[tuple[Op, int, int]] = []
        self._marks: list[list[int | torch.cuda.Event]] = []
        self._base: tuple[int, torch.cuda.Event] | None = None

    def start_step(self) -> None:
        """Forget what was recorded; on a GPU, wait for it and tie its clock to that of the host."""
        self._actions.clear()
        self._marks.clear()
        if self._on_gpu:
            torch.cuda.synchronize()
            event = torch.cuda.Event(enable_timing=True)
            event.record()
            event.synchronize()
            self._base = (time.perf_counter_ns(), event)

    def begin(self, op: Op, stage: int, microbatch: int) -> None:
        """Note when an action begins; see `Observer`."""
        self._actions.append((op, stage, microbatch))
        self._marks.append([self._now(), 0])

    def end(self) -> None:
        """Note when the action ends; see `Observer`."""
        self._marks[-1][1] = self._now()

    def rows(self) -> list[ActionRow]:
        """Return the actions since `start_step`, in the order in which they ran."""
        if self._on_gpu:
            torch.cuda.synchronize()
        return [
            (int(op), stage, microbatch, self._shared(start), self._shared(end))
            for (op, stage, microbatch), (start, end) in zip(self._actions, self._marks, strict=True)
        ]

    def _now(self) -> "int | torch.cuda.Event":
        if not self._on_gpu:
            return time.perf_counter_ns()
        event = torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def _shared(self, mark: "int | torch.cuda.Event") -> int:
        if isinstance(mark, int):
            return mark - self._offset_ns
        assert self._base is not None
        host_ns, event = self._base
        return host_ns + round(event.elapsed_time(mark) * 1e6) - self._offset_ns


def synchronize(device: torch.device) -> None:
    """Wait until a device has done what it was given, so that the clock of the host tells how long that took."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def clock_offset_ns(device: torch.device) -> int:
    """Return how far this rank's clock is ahead of rank 0's; every rank calls it.

    The quickest of several exchanges with rank 0 bounds the error by half its time. An offset within that error is
    taken as none: ranks of one machine read one clock, and half an exchange of a busy machine is longer than an action.
    """
    rank, offset = dist.get_rank(), 0
    buffer = torch.zeros(1, dtype=torch.int64, device=device)
    for other in range(1, dist.get_world_size()):
        if rank == 0:
            for _ in range(_EXCHANGES):
                dist.recv(buffer, src=other)
                buffer.fill_(time.perf_counter_ns())
                dist.send(buffer, dst=other)
        elif rank == other:
            quickest = None
            for _ in range(_EXCHANGES):
                sent_ns = time.perf_counter_ns()
                dist.send(buffer, dst=0)
                dist.recv(buffer, src=0)
                there_ns = int(buffer.item())
                back_ns = time.perf_counter_ns()
                if quickest is None or back_ns - sent_ns < quickest:
                    quickest = back_ns - sent_ns
                    offset = (sent_ns + back_ns) // 2 - there_ns
            assert quickest is not None
            if 2 * abs(offset) <= quickest:
                offset = 0
    return offset
