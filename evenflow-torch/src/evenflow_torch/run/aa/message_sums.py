"""Checksums of messages: as they were handed over, and as they were used."""

import torch
import torch.distributed as dist
from torch import Tensor

from evenflow.aa import Direction
from evenflow_torch.run.aa.bits import checksum

_DIRECTIONS = list(Direction)
_SENT, _RECEIVED = range(2)


class MessageSums:
    """The checksums of all messages of a step, of which each rank knows those that it sends and receives.

    No message gets longer: after the step one sum over all ranks, of numbers that all but one leave at zero, tells
    every rank all of them.
    """

    def __init__(self, num_stages: int, num_microbatches: int, device: torch.device) -> None:
        self._sums = torch.zeros(len(_DIRECTIONS), 2, num_stages, num_microbatches, dtype=torch.int64, device=device)
        self.alarm = torch.zeros(1, dtype=torch.int64, device=device)
        """Mismatches of this rank; after `differing` those of all ranks."""

    def sent(self, direction: Direction, stage: int, microbatch: int, tensor: Tensor) -> None:
        """Note the tensor that `stage` is going to receive."""
        self._sums[_DIRECTIONS.index(direction), _SENT, stage, microbatch] = checksum(tensor)

    def received(self, direction: Direction, stage: int, microbatch: int, tensor: Tensor) -> None:
        """Note the tensor that `stage` has received."""
        self._sums[_DIRECTIONS.index(direction), _RECEIVED, stage, microbatch] = checksum(tensor)

    def differing(self) -> list[tuple[Direction, int, int]]:
        """Return the messages of the step that arrived differently, as direction, receiving stage and microbatch.

        Every rank calls it.
        """
        both = torch.cat([self._sums.flatten(), self.alarm])
        dist.all_reduce(both)
        sums, self.alarm = both[:-1].view_as(self._sums), both[-1:]
        self._sums = torch.zeros_like(self._sums)
        places = (sums[:, _SENT] != sums[:, _RECEIVED]).nonzero().tolist()
        return [(_DIRECTIONS[direction], stage, microbatch) for direction, stage, microbatch in places]
