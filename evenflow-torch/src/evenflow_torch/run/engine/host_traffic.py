"""What stages keep on the host, moved when the plan says: as `evenflow.simulate.copies` runs it on paper.

    F0        behind the forward all that its layers keep of it begins to leave, as storages, not layer by layer
    F1
    .         it has left: its memory is free before the action behind that
    F2 … B1
    .         it begins to come back behind the action before the one that is `ahead` of its backward
    B0        which waits for it

Passes that would be away during no action stay, and buffers make fetches begin later, both as `HostLink` says. Copies
run beside the computation: on streams of their own, from and to pinned memory, or in threads on a CPU.
"""

import weakref
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import Any, Protocol

import torch
from torch import Tensor

from evenflow.model import HostLink
from evenflow.schedule import Action, Schedule
from evenflow.simulate import away
from evenflow_torch.run.engine.spread_tensors import local_part, spreading, storage_address


class Line(Protocol):
    """A queue of copies that run one after the other beside the computation; `done` values are its own."""

    def run(self, work: Callable[[], None], *, after: Any = None) -> Any:
        """Begin `work` behind what the device has been given so far, and behind `after`; return when it is done."""

    def wait(self, done: Any) -> None:
        """Let the computation that follows wait until `done`."""


class _ThreadLine:
    """Copies in a thread, whose results no meter of this thread's memory sees."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1)

    def run(self, work: Callable[[], None], *, after: "Future[None] | None" = None) -> "Future[None]":
        def behind() -> None:
            if after is not None:
                after.result()
            work()

        return self._thread.submit(behind)

    def wait(self, done: "Future[None]") -> None:
        done.result()


class _StreamLine:
    """Copies on a stream.

    The memory that they read or fill belongs to the stream that computes: it is taken before `run`, and given back
    behind `wait`.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def run(self, work: Callable[[], None], *, after: "torch.cuda.Event | None" = None) -> "torch.cuda.Event":
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        if after is not None:
            self._stream.wait_event(after)
        with torch.cuda.stream(self._stream):
            work()
            return self._stream.record_event()

    def wait(self, done: "torch.cuda.Event") -> None:
        torch.cuda.current_stream(self._device).wait_event(done)


class HostLines:
    """The copy engines of a device: one for each direction, or one for both."""

    def __init__(self, device: torch.device, *, one_engine: bool) -> None:
        def line() -> Line:
            return _StreamLine(device) if device.type == "cuda" else _ThreadLine()

        self.out = line()
        self.back = self.out if one_engine else line()


class Moved:
    """What the layers of a stage keep of one microbatch, on its way to the host and back."""

    def __init__(self, lines: HostLines, *, empties_input: bool) -> None:
        self._lines = lines
        self._empties_input = empties_input
        self._input: Tensor | None = None
        self._stays: set[int] = set()
        self._copied: dict[int, _Storage] = {}
        """By address; only while they are made or under way, since else the graph alone decides how long they live."""
        self._away: list[weakref.ref[_Storage]] = []
        self._left: Any = None
        self._came: Any = None

    def begins_with(self, hidden: Tensor, *, is_kept: bool) -> None:
        """Note the input of the stage; `is_kept` is whether layers keep it that do not move what they keep.

        The graph holds it as a leaf, whose values nothing reads but what these layers keep.
        """
        if self._empties_input and not is_kept and type(hidden) is Tensor and hidden.requires_grad and hidden.is_leaf:
            self._input = hidden
        else:
            self._stays.add(storage_address(hidden))

    def send(self, tensor: Tensor) -> Any:
        """Return what stands for a tensor that leaves; the tensor itself where it cannot, or stays anyhow."""
        local = local_part(tensor.detach())
        if type(local) is not Tensor or local.layout != torch.strided or local.is_conj() or local.is_neg():
            return tensor.detach()
        address = local.untyped_storage().data_ptr()
        if address in self._stays or not address:
            return tensor.detach()
        storage = self._copied.get(address)
        if storage is None:
            storage = self._copied[address] = _Storage(local)
        return View(storage, local, spreading(tensor))

    def leave(self) -> None:
        """Begin to copy everything to the host."""
        storages = list(self._copied.values())
        self._left = self._lines.out.run(lambda: _each(_Storage.send, storages))

    def has_left(self) -> None:
        """Wait until everything is on the host, and free its memory on the device."""
        self._lines.out.wait(self._left)
        for storage in self._copied.values():
            storage.free()
        self._away = [weakref.ref(storage) for storage in self._copied.values()]
        self._copied = {}
        if self._input is not None:
            # Of its shape, which its gradient must have, without its memory.
            self._input.data = self._input.new_empty(1).expand(self._input.shape)
            self._input = None

    def fetch(self) -> None:
        """Begin to copy everything back, into memory that is taken now."""
        storages = [storage for storage in (reference() for reference in self._away) if storage is not None]
        for storage in storages:
            storage.take()
            self._copied[id(storage)] = storage
        self._came = self._lines.back.run(lambda: _each(_Storage.fetch, storages), after=self._left)

    def is_back(self) -> None:
        """Let the backward wait until everything is on the device."""
        self._lines.back.wait(self._came)
        for storage in self._copied.values():
            storage.host = None
        self._copied = {}


class _Storage:
    """The memory of tensors: on the device, on the host, or on both while it is copied."""

    def __init__(self, tensor: Tensor) -> None:
        memory = tensor.untyped_storage()
        self.device = tensor.device
        self.size = memory.nbytes()
        self.here: Tensor | None = torch.empty(0, dtype=torch.uint8, device=self.device).set_(memory)
        self.host: Tensor | None = None

    def send(self) -> None:
        assert self.here is not None
        on_gpu = self.device.type == "cuda"
        self.host = torch.empty(self.size, dtype=torch.uint8, pin_memory=on_gpu)
        self.host.copy_(self.here, non_blocking=on_gpu)

    def free(self) -> None:
        self.here = None

    def take(self) -> None:
        self.here = torch.empty(self.size, dtype=torch.uint8, device=self.device)

    def fetch(self) -> None:
        assert self.here is not None
        assert self.host is not None
        self.here.copy_(self.host, non_blocking=self.device.type == "cuda")


class View:
    """A tensor whose memory moves."""

    def __init__(self, storage: _Storage, local: Tensor, spread: Callable[[Tensor], Tensor]) -> None:
        self._storage = storage
        self._dtype, self._place = local.dtype, (local.storage_offset(), local.size(), local.stride())
        self._spread = spread

    def tensor(self) -> Tensor:
        """Return the tensor, whose memory is on the device."""
        here = self._storage.here
        assert here is not None, "it has come back"
        local = torch.empty(0, dtype=self._dtype, device=here.device)
        return self._spread(local.set_(here.untyped_storage(), *self._place))


def _each(work: Callable[[_Storage], None], storages: Sequence[_Storage]) -> None:
    for storage in storages:
        work(storage)


class HostTraffic:
    """What a rank moves to the host and back in a step, and when.

    `stages` are those of its stages that have something to move. `keeps_inputs` says whether somebody reads the inputs
    of stages while their microbatches live.
    """

    def __init__(
        self,
        schedule: Schedule,
        rank: int,
        host_link: HostLink,
        *,
        stages: Collection[int],
        device: torch.device,
        keeps_inputs: Callable[[], bool],
    ) -> None:
        self._keeps_inputs = keeps_inputs
        self._lines = HostLines(device, one_engine=host_link.one_engine)
        self._order = tuple(schedule.order(rank))
        moves = away(schedule, host_link, rank)
        keys = [(action.stage, action.microbatch) for action in self._order]
        self._leaving = frozenset(key for key in (keys[place] for place in moves.forwards) if key[0] in stages)
        self._gone: dict[int, list[tuple[int, int]]] = defaultdict(list)
        self._fetched: dict[int, list[tuple[int, int]]] = defaultdict(list)
        for place, last in zip(moves.forwards, moves.lasts, strict=True):
            if keys[place] in self._leaving:
                self._gone[int(last) + 1].append(keys[place])
        for place, first in sorted(zip(moves.backwards.tolist(), moves.firsts.tolist(), strict=True)):
            if keys[place] in self._leaving:
                self._fetched[first].append(keys[place])
        self._under_way: dict[tuple[int, int], Moved] = {}

    def moved(self) -> Moved:
        """Return a place for what a forward keeps, all of which moves."""
        return Moved(self._lines, empties_input=not self._keeps_inputs())

    def begin_step(self) -> None:
        """Forget what a step that failed has left."""
        self._under_way.clear()

    @contextmanager
    def forward(self, stage: int, microbatch: int) -> Iterator[Moved | None]:
        """Give a forward the place for what it keeps, which then begins to leave; None where that stays."""
        moved = self.moved() if (stage, microbatch) in self._leaving else None
        yield moved
        if moved is not None:
            self._under_way[stage, microbatch] = moved
            moved.leave()

    def backward_begins(self, stage: int, microbatch: int) -> None:
        """Let a backward wait for what comes back."""
        moved = self._under_way.pop((stage, microbatch), None)
        if moved is not None:
            moved.is_back()

    def calls(self) -> list[tuple[Action, Callable[[object], None]]]:
        """Return what is to be called between actions, each with the action behind which it is."""
        places = sorted(self._gone.keys() | self._fetched.keys())
        return [(self._order[place - 1], partial(self._before, place)) for place in places]

    def _before(self, place: int, _runtime: object) -> None:
        for key in self._gone.get(place, ()):
            self._under_way[key].has_left()
        for key in self._fetched.get(place, ()):
            self._under_way[key].fetch()
