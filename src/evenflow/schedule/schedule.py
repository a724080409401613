"""A schedule as a value: for every rank, the order in which it runs its actions."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from evenflow.model import Sizes, stage_table
from evenflow.schedule.action import NUM_OPS, Action, Op

Codes = NDArray[np.int32]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, eq=False, kw_only=True)
class Schedule:
    """An ordered list of actions for every rank; the time when each action runs follows from the costs.

    The actions of all ranks stand one rank after the other in three arrays, so that long schedules stay cheap.
    With a split sequence, a microbatch index counts its parts: part j of sequence b is ``b * sequence_splits + j``.
    """

    name: str
    num_ranks: int
    stage_ranks: tuple[int, ...]
    """The rank of every stage (see `evenflow.model.stage_ranks`)."""
    num_microbatches: int
    """Microbatches of the step, before any split of their sequences."""
    sequence_splits: int = 1
    group_size: int | None = None
    """Microbatches of a group, where an interleaved order has groups of another size than the usual one."""
    ops: Codes
    """Codes of `Op`, shape [num_actions]."""
    stages: Codes
    """Global stage index, shape [num_actions]."""
    units: Codes
    """Microbatch (part) index, shape [num_actions]."""
    pairs: Flags | None = None
    """Which forwards run beside the backward that follows them on their rank, shape [num_actions]; None: none does."""
    rank_starts: tuple[int, ...]
    """Index in the arrays at which each rank's actions begin, and the number of all actions: num_ranks + 1 numbers."""

    @classmethod
    def from_orders(
        cls,
        *,
        name: str,
        num_stages: int,
        num_microbatches: int,
        sequence_splits: int = 1,
        stage_ranks: Sequence[int] | None = None,
        orders: Iterable[Codes],
    ) -> "Schedule":
        """Return a schedule from codes of each rank's actions, shape [3, num_actions of the rank].

        They are ops, stages and units and, with a fourth row, whether an action runs beside the one behind it (see
        `pairs`). Stage s runs on ``stage_ranks[s]``, by default on rank s mod the number of ranks.
        """
        tables = list(orders)
        codes = np.concatenate(tables, axis=1)
        codes.setflags(write=False)
        ops, stages, units, *paired = codes
        return cls(
            name=name,
            num_ranks=len(tables),
            stage_ranks=_placement(stage_ranks, num_stages, len(tables)),
            num_microbatches=num_microbatches,
            sequence_splits=sequence_splits,
            ops=ops,
            stages=stages,
            units=units,
            pairs=_flags(paired[0]) if paired else None,
            rank_starts=(0, *accumulate(table.shape[1] for table in tables)),
        )

    @classmethod
    def from_table(
        cls,
        *,
        name: str,
        num_stages: int,
        num_microbatches: int,
        sequence_splits: int = 1,
        group_size: int | None = None,
        stage_ranks: Sequence[int] | None = None,
        codes: Codes,
    ) -> "Schedule":
        """Return a schedule whose ranks have equally many actions, from codes of shape [3, num_ranks, num_actions].

        A fourth row, and the places of stages, are as in `from_orders`.
        """
        rows, num_ranks, length = codes.shape
        flat = codes.reshape(rows, -1)
        flat.setflags(write=False)
        return cls(
            name=name,
            num_ranks=num_ranks,
            stage_ranks=_placement(stage_ranks, num_stages, num_ranks),
            num_microbatches=num_microbatches,
            sequence_splits=sequence_splits,
            group_size=group_size,
            ops=flat[0],
            stages=flat[1],
            units=flat[2],
            pairs=_flags(flat[3]) if rows > 3 else None,
            rank_starts=tuple(range(0, (num_ranks + 1) * length, length)) if length else (0,) * (num_ranks + 1),
        )

    @classmethod
    def from_actions(
        cls,
        *,
        name: str,
        num_stages: int,
        num_microbatches: int,
        sequence_splits: int = 1,
        stage_ranks: Sequence[int] | None = None,
        orders: Iterable[Iterable[Action]],
    ) -> "Schedule":
        """Return a schedule from one list of actions per rank; stages are placed as in `from_orders`."""
        arrays = []
        for order in orders:
            rows = [(int(action.op), action.stage, action.microbatch, action.is_paired) for action in order]
            arrays.append(np.array(rows, dtype=np.int32).reshape(len(rows), 4).T)
        return cls.from_orders(
            name=name,
            num_stages=num_stages,
            num_microbatches=num_microbatches,
            sequence_splits=sequence_splits,
            stage_ranks=stage_ranks,
            orders=arrays,
        )

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return (
            self._shape == other._shape
            and all(
                np.array_equal(mine, theirs)
                for mine, theirs in ((self.ops, other.ops), (self.stages, other.stages), (self.units, other.units))
            )
            and _same_flags(self.pairs, other.pairs)
        )

    def __hash__(self) -> int:
        return hash((self._shape, self.units.tobytes()))

    @property
    def _shape(self) -> tuple[object, ...]:
        return (self.name, self.stage_ranks, self.num_microbatches, self.sequence_splits, self.rank_starts)

    def same_order(self, other: "Schedule") -> bool:
        """Return whether every rank does the same in the same order as in `other`, whatever the two names are."""
        return (
            self.stage_ranks == other.stage_ranks
            and self.rank_starts == other.rank_starts
            and self.sequence_splits == other.sequence_splits
            and np.array_equal(self.ops, other.ops)
            and np.array_equal(self.stages, other.stages)
            and np.array_equal(self.units, other.units)
            and _same_flags(self.pairs, other.pairs)
        )

    @property
    def num_stages(self) -> int:
        """Number of stages of all ranks."""
        return len(self.stage_ranks)

    @property
    def num_chunks(self) -> int:
        """Number of model chunks of each rank."""
        return self.num_stages // self.num_ranks

    @property
    def num_units(self) -> int:
        """Number of microbatch parts that every stage runs: microbatches times sequence splits."""
        return self.num_microbatches * self.sequence_splits

    @property
    def sizes(self) -> Sizes:
        """The sizes of the pipeline."""
        return Sizes(
            num_ranks=self.num_ranks,
            num_chunks=self.num_chunks,
            num_microbatches=self.num_microbatches,
            sequence_splits=self.sequence_splits,
        )

    @property
    def num_actions(self) -> int:
        """Number of actions of all ranks."""
        return len(self.ops)

    @cached_property
    def ranks(self) -> Codes:
        """The rank of every action, shape [num_actions]."""
        lengths = np.diff(self.rank_starts)
        return np.repeat(np.arange(self.num_ranks, dtype=np.int32), lengths)

    @cached_property
    def stage_table(self) -> NDArray[np.int64]:
        """The stage of every cell, shape [num_chunks, num_ranks]."""
        return stage_table(self.stage_ranks, num_ranks=self.num_ranks)

    @cached_property
    def stage_chunks(self) -> Codes:
        """The chunk of every stage, shape [num_stages]."""
        chunks = np.empty(self.num_stages, dtype=np.int32)
        chunks[self.stage_table] = np.arange(self.num_chunks)[:, np.newaxis]
        return chunks

    @cached_property
    def used_ops(self) -> tuple[Op, ...]:
        """The operations that occur in the schedule."""
        return tuple(Op(op) for op in np.flatnonzero(np.bincount(self.ops, minlength=NUM_OPS)).tolist())

    @property
    def splits_backward(self) -> bool:
        """Whether any backward is split into input and weight gradient."""
        return Op.W in self.used_ops

    @cached_property
    def paired(self) -> Codes:
        """The forwards that run beside the backward behind them, shape [num_pairs]."""
        forwards = np.zeros(0, dtype=np.int32) if self.pairs is None else np.flatnonzero(self.pairs)
        return forwards.astype(np.int32)

    @property
    def has_pairs(self) -> bool:
        """Whether any forward runs beside a backward."""
        return len(self.paired) > 0

    def in_turn(self) -> "Schedule":
        """Return the same order with one action after the other."""
        return replace(self, pairs=None)

    @property
    def is_forward_only(self) -> bool:
        """Whether the schedule has no backward at all, as in inference."""
        return self.used_ops == (Op.F,)

    def order(self, rank: int) -> list[Action]:
        """Return the actions of one rank in their order."""
        span = slice(self.rank_starts[rank], self.rank_starts[rank + 1])
        columns = (self.ops[span].tolist(), self.stages[span].tolist(), self.units[span].tolist())
        ops = tuple(Op)  # an enumeration looks up a value in ten times the time of a tuple
        if self.pairs is None:
            return [Action(stage, ops[op], unit) for op, stage, unit in zip(*columns, strict=True)]
        with_pairs = zip(*columns, self.pairs[span].tolist(), strict=True)
        return [Action(stage, ops[op], unit, is_paired) for op, stage, unit, is_paired in with_pairs]


def _flags(row: Codes) -> Flags | None:
    """Return a row of codes as flags; None where none is set."""
    return row.astype(bool) if row.any() else None


def _same_flags(first: Flags | None, second: Flags | None) -> bool:
    if first is None or second is None:
        return first is second
    return np.array_equal(first, second)


def _placement(stage_ranks: Sequence[int] | None, num_stages: int, num_ranks: int) -> tuple[int, ...]:
    return tuple(stage_ranks) if stage_ranks is not None else tuple(stage % num_ranks for stage in range(num_stages))


def check_sizes(*, num_ranks: int, num_chunks: int = 1, num_microbatches: int, sequence_splits: int = 1) -> None:
    """Raise InputError for sizes that no pipeline can have."""
    Sizes(
        num_ranks=num_ranks,
        num_chunks=num_chunks,
        num_microbatches=num_microbatches,
        sequence_splits=sequence_splits,
    )
