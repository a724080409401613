"""The ranks of a training under torchrun watch each other, so that each says which one failed first, and why.

    heartbeat       a thread of every rank counts on, in the store of torchrun, and looks at the next rank
    silence         the next rank has said nothing, and on this machine computed nothing, for the time allowed
    death           its process is gone; ranks on one machine know each other's process ids
    exception       the rank says it itself, before its process ends

The first of these that is written into the store is the cause for all. A rank that waits for others in a step then
ends: by an error where its messages fail, else by the thread, because nothing wakes a wait for a message.

Nothing is seen where torchrun does not hold the store, as when other launchers start the processes: the store would be
in rank 0. A thread needs the interpreter's lock: a call that keeps it longer than the time allowed looks like a stop to
ranks on other machines, which cannot see that it computes.
"""

import atexit
import json
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass

import torch.distributed as dist

from evenflow.errors import RunError
from evenflow.language import _
from evenflow_torch.run.engine.position import Position
from evenflow_torch.run.engine.torch_names import default_store
from evenflow_torch.run.watch.process_state import end_stopped, is_gone, machine_name, processor_ticks

PATIENCE_SECONDS = 5.0
"""Time that a rank leaves to the one that failed, whose exception is to be read last, and to torchrun, to end it."""

_AGENT_STORE = "TORCHELASTIC_USE_AGENT_STORE"
"""Set by torchrun where it holds the store, which then outlives every rank."""
_CONNECTION_WORDS = ("gloo", "nccl", "connection closed", "connection reset", "broken pipe")
"""An error has one of them where a message between ranks has failed."""
_LOOK_SECONDS = 0.05
_FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class RankFailure:
    """The first failure of a training."""

    rank: int
    what: str
    """A sentence that names the rank."""
    is_raised: bool = False
    """Whether the rank lives and shows an exception."""
    is_silent: bool = False
    """Whether the rank was given up because it gave no sign of life."""


@dataclass(slots=True)
class _Neighbour:
    """The next rank, as it was last heard of."""

    beat: bytes = b""
    ticks: int = 0
    heard_at: float = 0.0


class RankWatch:
    """Watches the other ranks of a training. `rank_watch` returns the one of this process."""

    def __init__(self, store: dist.Store, *, rank: int, num_ranks: int, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._store = store
        self._rank, self._num_ranks = rank, num_ranks
        self._machine = machine_name()
        self._position = Position()
        self._depth = 0
        """How many blocks of `at_work` are open."""
        self._has_failed = self._is_over = False
        """Whether this rank has an exception to show; whether it has come to its end."""
        self._failure: RankFailure | None = None
        self._processes: dict[int, int] = {}
        """Process ids of the ranks that have begun; 0 on another machine."""
        self._lock = threading.Lock()
        store.set(f"who/{rank}", json.dumps({"machine": self._machine, "pid": os.getpid()}))
        atexit.register(self._end)
        threading.Thread(target=self._watch, name="evenflow-rank-watch", daemon=True).start()

    @contextmanager
    def at_work(self, position: Position) -> Iterator[None]:
        """Name the rank that failed first where the messages of this block fail; tell the others what this one raises.

        Raises:
            RunError: another rank has failed or died.
        """
        self._depth, self._position = self._depth + 1, position
        try:
            yield
        except RunError:
            raise
        except Exception as error:
            self._has_failed = True
            other = self._cause_of(error)
            if other is not None:
                raise other from None
            raise
        finally:
            self._depth -= 1

    def _cause_of(self, error: Exception) -> RunError | None:
        """Return the failure of another rank that has caused `error`; None where this rank's own is the first."""
        if not _is_lost_connection(error):
            self._tell(
                self._raised(_("rank {rank} failed {place}", rank=self._rank, place=self._position.text()), error)
            )
            return None
        ends_at = time.monotonic() + self.timeout_s + PATIENCE_SECONDS
        failure = self._first_failure(has_lost=True)
        while failure is None and time.monotonic() < ends_at:
            time.sleep(_LOOK_SECONDS)
            failure = self._first_failure(has_lost=True)
        if failure is None or failure.rank == self._rank:
            return None
        if failure.is_raised:
            time.sleep(PATIENCE_SECONDS)
        return RunError(self._sentence(failure))

    def _sentence(self, failure: RankFailure) -> str:
        return _("{what}; rank {rank} stood {place}", what=failure.what, rank=self._rank, place=self._position.text())

    def _raised(self, what: str, error: BaseException) -> RankFailure:
        """Return the failure of this rank by an exception, which it shows."""
        lines = str(error).strip().splitlines() or [""]
        return RankFailure(rank=self._rank, what=f"{what}: {type(error).__name__}: {lines[0]}", is_raised=True)

    def _tell(self, failure: RankFailure) -> None:
        """Write a failure into the store, unless there is an earlier one."""
        with suppress(RuntimeError), self._lock:
            self._store.compare_set(_FAILED, "", json.dumps(asdict(failure)))

    def _first_failure(self, *, has_lost: bool = False) -> RankFailure | None:
        """Return the first failure; a process of this machine that is gone is one, where it has not come to its end.

        With `has_lost`, after a message has failed, one that has come to its end is one too.
        """
        try:
            with self._lock:
                if self._failure is None and self._store.check([_FAILED]):
                    self._failure = RankFailure(**json.loads(self._store.get(_FAILED)))
                if self._failure is None:
                    self._learn_processes()
                    self._look_for_dead(has_lost=has_lost)
        except RuntimeError:  # the store has gone with torchrun
            return None
        return self._failure

    def _learn_processes(self) -> None:
        for rank in range(self._num_ranks):
            if rank not in self._processes and self._store.check([f"who/{rank}"]):
                who = json.loads(self._store.get(f"who/{rank}"))
                self._processes[rank] = who["pid"] if who["machine"] == self._machine != "" else 0

    def _look_for_dead(self, *, has_lost: bool) -> None:
        """Write the first process that is gone into the store, where the next look finds whose was the first."""
        for rank, pid in self._processes.items():
            if rank == self._rank or not pid or not is_gone(pid):
                continue
            has_ended = self._store.check([f"ended/{rank}"])
            if has_lost or not has_ended:
                what = _("rank {rank} (process {pid}) died", rank=rank, pid=pid)
                if has_ended:
                    what = _("rank {rank} (process {pid}) ended before the others", rank=rank, pid=pid)
                failure = RankFailure(rank=rank, what=what, is_raised=False)
                self._store.compare_set(_FAILED, "", json.dumps(asdict(failure)))
                return

    def _watch(self) -> None:
        """Show life, and look at the next rank and for failures, until the process or its group of ranks ends."""
        neighbour, period = _Neighbour(heard_at=time.monotonic()), min(1.0, self.timeout_s / 4)
        group = default_store()
        beat, looked_at, known_since = 0, time.monotonic(), 0.0
        while not self._is_over and dist.is_initialized() and default_store() is group:
            beat += 1
            now = time.monotonic()
            if now > looked_at + 3 * period:  # this process itself was stopped, maybe all were
                neighbour.heard_at = now
            looked_at = now
            try:
                with self._lock:
                    self._store.set(f"beat/{self._rank}", str(beat))
                    self._learn_processes()
                    is_silent = self._is_silent(neighbour, now)
            except RuntimeError:
                return
            other = (self._rank + 1) % self._num_ranks
            if is_silent:
                self._tell(_silence(other, self._processes.get(other, 0), self.timeout_s))
            failure = self._first_failure() if self._depth else None
            if failure is not None and failure.rank != self._rank and not self._has_failed:
                known_since = known_since or now
                if failure.is_silent or now > known_since + PATIENCE_SECONDS:
                    self._leave(failure)
            time.sleep(period)

    def _is_silent(self, neighbour: _Neighbour, now: float) -> bool:
        """Hear what the next rank says; return whether it has said and computed nothing for too long."""
        other = (self._rank + 1) % self._num_ranks
        if not self._store.check([f"beat/{other}"]) or self._store.check([f"ended/{other}"]):
            neighbour.heard_at = now
            return False
        beat, ticks = self._store.get(f"beat/{other}"), processor_ticks(self._processes.get(other, 0))
        if (beat, ticks) != (neighbour.beat, neighbour.ticks):
            neighbour.beat, neighbour.ticks, neighbour.heard_at = beat, ticks, now
        return now > neighbour.heard_at + self.timeout_s

    def _leave(self, failure: RankFailure) -> None:
        """End this process, which waits for a message that will not come.

        One that was stopped is ended too, where it is on this machine: torchrun would wait for it.
        """
        os.write(2, f"{self._sentence(failure)}\n".encode(errors="replace"))
        pid = self._processes.get(failure.rank, 0)
        if failure.is_silent and pid:
            end_stopped(pid)
        os._exit(1)

    def _end(self) -> None:
        """Say that this rank has come to its end, or what it ends by."""
        self._is_over = True
        error = getattr(sys, "last_value", None)
        if error is not None:
            self._tell(self._raised(_("rank {rank} failed", rank=self._rank), error))
            return
        with suppress(RuntimeError), self._lock:
            self._store.set(f"ended/{self._rank}", "")


def _is_lost_connection(error: Exception) -> bool:
    """Return whether an error says that messages between ranks fail, and is not of a model's or a user's making."""
    return isinstance(error, RuntimeError) and any(word in str(error).lower() for word in _CONNECTION_WORDS)


def _silence(rank: int, pid: int, seconds: float) -> RankFailure:
    what = _(
        "rank {rank}{process} gave no sign of life for {seconds:g} seconds: it was stopped, or its machine is too busy "
        "to run it",
        rank=rank,
        process=_(" (process {pid})", pid=pid) if pid else "",
        seconds=seconds,
    )
    return RankFailure(rank=rank, what=what, is_silent=True)


_watches: list[tuple[dist.Store, RankWatch]] = []
"""The watches of this process, each with the store of the group of ranks that it watches."""


def rank_watch(timeout_s: float) -> RankWatch | None:
    """Return the watch over the ranks of this process's group; None where no store outlives them.

    All ranks make their watches in the same order.
    """
    if os.environ.get(_AGENT_STORE) != "True" or dist.get_world_size() == 1:
        return None
    group = default_store()
    for watched, watch in _watches:
        if watched is group:
            watch.timeout_s = timeout_s
            return watch
    # A connection of its own: the group's may wait for long, and one waits for the other.
    store = dist.PrefixStore(f"evenflow/{len(_watches)}", group.clone())
    watch = RankWatch(store, rank=dist.get_rank(), num_ranks=dist.get_world_size(), timeout_s=timeout_s)
    _watches.append((group, watch))
    return watch
