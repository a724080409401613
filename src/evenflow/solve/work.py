"""The work that an order is made for: stage durations, placement and memory as arrays.

Microbatches are identical, so on each stage they can be taken in turn: an order is a row of (operation, stage) for each
rank, whose microbatches follow by counting. With split sequences gradients take the parts of a sequence in reverse.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.model import Communication, stage_cells, stage_table
from evenflow.schedule import NUM_OPS, Op, Schedule
from evenflow.simulate import Integers, InTurn, StageCosts, build_graph, message_table, peak_bytes, run, with_copies
from evenflow.units import megabytes

UNLIMITED = np.iinfo(np.int64).max // 4
"""Room of a rank without a memory limit: bytes that nothing reaches."""


@dataclass(frozen=True, eq=False, kw_only=True)
class Work:
    """The work of one step, without its order."""

    stage_ranks: tuple[int, ...]
    num_ranks: int
    num_microbatches: int
    sequence_splits: int
    costs: StageCosts
    may_split: bool
    """Whether backwards may be split into input and weight gradient."""
    communication: Communication | None
    room_bytes: Integers
    """Bytes that each rank may hold beside its static and working memory, shape [num_ranks]."""

    @property
    def in_pairs(self) -> bool:
        """Whether forwards may run beside backwards."""
        return self.costs.saved_ns is not None

    @property
    def has_copies(self) -> bool:
        """Whether anything moves to the host."""
        return self.costs.host_link is not None and bool(np.any(self.costs.offloaded_bytes))

    def at_best(self) -> "Work":
        """Return the work with backwards that take as much less as any forward beside them saves, and without pairs.

        Its shortest order is no longer than that of this work: where a pair runs, forward and backward fit.
        """
        costs = self.costs
        if costs.saved_ns is None:
            return self
        backward_ns = costs.backward_ns.copy()
        for own in self.stage_table.T:
            backward_ns[own] -= costs.saved_ns[own].max(axis=0)
        weight_ns = np.minimum(costs.weight_ns, backward_ns)
        return replace(self, costs=replace(costs, backward_ns=backward_ns, weight_ns=weight_ns, saved_ns=None))

    @cached_property
    def messages(self) -> Integers:
        """Time that the input of actions from another rank travels by class of `Graph`, [NUM_OPS * num_stages].

        Of messages that are sent in turn it is the time of one that need not wait.
        """
        messages = self.costs.messages(self.communication)
        if isinstance(messages, np.ndarray):
            return messages
        if isinstance(messages, InTurn):
            return messages.times_ns
        return message_table(np.full(self.num_stages, messages.message_ns if messages else 0, dtype=np.int64))

    @property
    def sent_ns(self) -> Integers:
        """Time of what each stage sends on to another rank, and of what comes back, shape [num_stages]."""
        return self.messages.reshape(-1, NUM_OPS)[:, Op.B]

    @property
    def num_stages(self) -> int:
        """Number of stages of all ranks."""
        return len(self.stage_ranks)

    @property
    def num_units(self) -> int:
        """Number of microbatch parts that each stage runs."""
        return self.num_microbatches * self.sequence_splits

    @cached_property
    def stage_table(self) -> NDArray[np.int64]:
        """Stage of each cell, shape [num_chunks, num_ranks]."""
        return stage_table(self.stage_ranks, num_ranks=self.num_ranks)

    @cached_property
    def stage_chunks(self) -> NDArray[np.int64]:
        """Chunk of each stage on its rank, shape [num_stages]."""
        return np.array([chunk for chunk, _rank in stage_cells(self.stage_table)], dtype=np.int64)

    @cached_property
    def gradient_units(self) -> NDArray[np.int64]:
        """Microbatch part of the n-th gradient of a stage, shape [num_units]."""
        units = np.arange(self.num_units, dtype=np.int64)
        return np.ascontiguousarray(units.reshape(-1, self.sequence_splits)[:, ::-1].reshape(-1))

    def split_choices(self) -> list[NDArray[np.bool_]]:
        """Return sets of stages, each [num_stages], whose backwards may well be split together; the first is empty."""
        none = np.zeros(self.num_stages, dtype=bool)
        choices = [none]
        if self.may_split:
            # A stage that recomputes, split, holds more while it waits for its weight gradient.
            choices += [self.costs.recompute_ns == 0, ~none]
        return [
            choice
            for index, choice in enumerate(choices)
            if self.can_split(choice) and not any((choice == other).all() for other in choices[:index])
        ]

    def can_split(self, splits: NDArray[np.bool_]) -> bool:
        """Return whether one microbatch at a time fits where the stages of `splits` split their backwards."""
        return bool((self.alone_bytes(splits) <= self.room_bytes).all())

    def rank_starts(self, splits: NDArray[np.bool_]) -> Integers:
        """Return where the actions of each rank begin, and the number of all, [num_ranks + 1] (see `Schedule`)."""
        of_rank = (2 + splits)[self.stage_table].sum(axis=0) * self.num_units
        return np.concatenate(([0], np.cumsum(of_rank)))

    def schedule(self, codes: NDArray[np.int32], rank_starts: Integers, *, name: str) -> Schedule:
        """Return the order whose ops, stages and units, and perhaps pairs, are `codes` [3 or 4, num_actions]."""
        return Schedule.from_orders(
            name=name,
            num_stages=self.num_stages,
            num_microbatches=self.num_microbatches,
            sequence_splits=self.sequence_splits,
            stage_ranks=self.stage_ranks,
            orders=np.split(codes, rank_starts[1:-1], axis=1),
        )

    def fits(self, schedule: Schedule) -> bool:
        """Return whether every rank stays within its room under an order."""
        costs = self.costs
        live = peak_bytes(schedule, costs) - costs.static_bytes - costs.working_bytes
        return bool((live <= self.room_bytes).all())

    def makespan_ns(self, schedule: Schedule) -> int:
        """Return how long a step takes under an order, as the simulator says."""
        graph, link = build_graph(schedule), self.costs.host_link
        if self.has_copies and link is not None:
            graph = with_copies(graph, link, first_moved=self.costs.first_moved)
        return run(graph, self.costs.durations, self.costs.messages(self.communication)).makespan_ns

    def alone_bytes(self, splits: NDArray[np.bool_]) -> Integers:
        """Return the bytes that each rank holds beside its static memory with one microbatch at a time, [num_ranks].

        No order holds less, since all stages hold a microbatch when its first gradient begins. What moves to the host
        counts for nothing.
        """
        costs = self.costs
        own = self.sequence_splits * costs.activation_bytes[self.stage_table]
        more = np.where(splits, np.maximum(costs.until_weight_bytes - costs.activation_bytes, 0), 0)[self.stage_table]
        # Gradients run from the last chunk to the first: chunk c's begin when 0…c are held.
        return np.asarray((np.cumsum(own, axis=0) + more).max(axis=0, initial=0))

    def check_memory(self, memory_limit_bytes: int | None) -> None:
        """Raise InputError when not even one microbatch at a time fits."""
        needed = self.alone_bytes(np.zeros(self.num_stages, dtype=bool))
        over = needed - self.room_bytes
        if (over > 0).any() and memory_limit_bytes is not None:
            rank = int(np.argmax(over))
            raise InputError(
                value=f"{megabytes(memory_limit_bytes):,.1f} MB",
                rule=_(
                    "must be at least the {megabytes:,.1f} MB that rank {rank} "
                    "holds with one microbatch at a time: no order of work needs less",
                    megabytes=megabytes(int(memory_limit_bytes + over[rank])),
                    rank=rank,
                ),
                place=_("memory limit"),
                remedy=_("recompute more, or raise the limit"),
            )


def make_work(
    costs: StageCosts,
    schedule: Schedule,
    *,
    memory_limit_bytes: int | None,
    communication: Communication | None,
    split_backward: bool,
) -> Work:
    """Return the work of stages that cost `costs`, with the placement and sizes of `schedule`."""
    if schedule.is_forward_only:
        raise InputError(
            value=schedule.name, rule=_("must have backwards, for whose order the search looks"), place="schedule"
        )
    room = np.full(schedule.num_ranks, UNLIMITED, dtype=np.int64)
    if memory_limit_bytes is not None:
        room = memory_limit_bytes - costs.static_bytes - costs.working_bytes
    work = Work(
        stage_ranks=schedule.stage_ranks,
        num_ranks=schedule.num_ranks,
        num_microbatches=schedule.num_microbatches,
        sequence_splits=schedule.sequence_splits,
        costs=costs,
        may_split=split_backward,
        communication=communication,
        room_bytes=room,
    )
    work.check_memory(memory_limit_bytes)
    return work


def unit_work(schedule: Schedule) -> Work:
    """Return the work of equal stages in units, without a limit, with the placement and sizes of `schedule`."""
    ones, zeros = np.ones(schedule.num_stages, dtype=np.int64), np.zeros(schedule.num_stages, dtype=np.int64)
    costs = StageCosts(
        num_ranks=schedule.num_ranks,
        forward_ns=ones,
        backward_ns=2 * ones,
        weight_ns=ones,
        recompute_ns=zeros,
        activation_bytes=ones,
        until_weight_bytes=ones,
        static_bytes=np.zeros(schedule.num_ranks, dtype=np.int64),
        working_bytes=np.zeros(schedule.num_ranks, dtype=np.int64),
    )
    return make_work(
        costs, schedule, memory_limit_bytes=None, communication=None, split_backward=schedule.splits_backward
    )


def splits_of(schedule: Schedule) -> NDArray[np.bool_] | None:
    """Return which stages split their backwards, shape [num_stages]; None where a stage splits only some of them."""
    split, whole = (
        np.bincount(schedule.stages[schedule.ops == op], minlength=schedule.num_stages) > 0 for op in (Op.W, Op.B)
    )
    return None if (split & whole).any() else split
