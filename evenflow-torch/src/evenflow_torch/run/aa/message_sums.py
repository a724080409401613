"""Checksums of messages: as they were handed over, and as they were used."""

from collections.abc import Sequence

import torch
import torch.distributed as dist
from torch import Tensor

from evenflow.aa import Direction
from evenflow_torch.run.aa.bits import checksum

_DIRECTIONS = list(Direction)
_SENT, _RECEIVED = range(2)

Message = tuple[Direction, int, int, int]
"""Direction, receiving stage, microbatch, and number among those that carry the same."""


class MessageSums:
    """The checksums of all messages of a step, of which each rank knows those that it sends and receives.

    No message gets longer: after the step one sum over the ranks of a pipeline, of numbers that all but one leave at
    zero, tells every rank all of them. It runs beside what comes next, such as the optimizer. Another one, over all
    pipelines, tells whether somebody has seen a mismatch.
    """

    def __init__(
        self,
        num_stages: int,
        num_microbatches: int,
        device: torch.device,
        pipeline: dist.ProcessGroup,
        *,
        num_messages: int = 1,
    ) -> None:
        """At most `num_messages` carry what an action takes: several, where stages lie on several devices."""
        self._pipeline = pipeline
        shape = len(_DIRECTIONS), 2, num_stages, num_microbatches, num_messages
        self._sums = torch.zeros(shape, dtype=torch.int64, device=device)
        self._flying: tuple[Sequence[dist.Work], Tensor, Tensor] | None = None

    def sent(self, message: Message, tensor: Tensor) -> None:
        """Note the tensor that a stage is going to receive."""
        direction, *place = message
        self._sums[(_DIRECTIONS.index(direction), _SENT, *place)] += checksum(tensor)

    def received(self, message: Message, tensor: Tensor) -> None:
        """Note the tensor that a stage has received."""
        direction, *place = message
        self._sums[(_DIRECTIONS.index(direction), _RECEIVED, *place)] += checksum(tensor)

    def start(self, num_mismatches: int) -> None:
        """Begin to tell all ranks the sums of the step, and what this one has seen; every rank calls it."""
        seen = self._sums.new_full((1,), num_mismatches)
        works = dist.all_reduce(self._sums, group=self._pipeline, async_op=True), dist.all_reduce(seen, async_op=True)
        self._flying = works, self._sums, seen
        self._sums = torch.zeros_like(self._sums)

    def finish(self) -> tuple[list[Message], int]:
        """Return the messages that arrived differently, and how many mismatches all ranks had seen.

        There are none where nothing was started.
        """
        if self._flying is None:
            return [], 0
        (works, sums, seen), self._flying = self._flying, None
        for work in works:
            work.wait()
        places = (sums[:, _SENT] != sums[:, _RECEIVED]).nonzero().tolist()
        return [(_DIRECTIONS[direction], *place) for direction, *place in places], int(seen)
