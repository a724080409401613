"""Which microbatch and chunk an action was, counted where its name does not say it.

With one chunk the n-th forward of a rank is that of microbatch n, and the n-th backward too, whatever the order. With
several, orders differ; so the forwards and backwards of all ranks must follow each other just as in a schedule that is
known, and that tells all others:

    rank 0   F F F F F B F B …    that of `interleaved` with 2 chunks, and of no other

"""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from evenflow.errors import InputError
from evenflow.language import _
from evenflow.profiles.steps.action_names import PATTERN_OPTION
from evenflow.schedule import Op, Schedule, make_schedule

_ONE_CHUNK = ("1f1b", "f-then-b", "eager-1f1b", "zb-h1", "zb-h2")
_MORE_CHUNKS = ("interleaved", "interleaved-remainder-last")
_MOST_CHUNKS = 16
_BACKWARDS = (Op.B, Op.I)


class CountedCells(NamedTuple):
    """Chunk and microbatch of every action of every rank."""

    cells: list[list[tuple[int, int]]]
    schedule: str
    """The schedule in whose order they are; empty: in that of none."""
    num_chunks: int


def numbered(ranks: Sequence[Sequence[Op]], *, place: str) -> CountedCells:
    """Return what the actions of ranks were, of which only the operations are known, in the order in which they ran.

    Raises:
        InputError: ranks with different numbers of forwards, or an order that is that of no schedule.
    """
    counts = [sorted({list(ops).count(op) for op in (Op.F, *_backwards(ops))}) for ops in ranks]
    if len({count for own in counts for count in own}) != 1:
        raise InputError(
            value=[[list(ops).count(Op.F), sum(op in _BACKWARDS for op in ops)] for ops in ranks][:8],
            rule=_("must have equally many forwards and backwards on every rank"),
            place=place,
            remedy=_remedy(),
        )
    num_forwards = counts[0][0]
    for family in _ONE_CHUNK:
        schedule = _made(family, len(ranks), 1, num_forwards)
        if schedule is not None and _has_order(schedule, ranks):
            return CountedCells(counted_cells(ranks), family, 1)
    fitting: list[tuple[str, int, list[list[tuple[int, int]]]]] = []
    for num_chunks in range(2, min(_MOST_CHUNKS, num_forwards) + 1 if len(ranks) > 1 else 2):
        if num_forwards % num_chunks:
            continue
        for family in _MORE_CHUNKS:
            schedule = _made(family, len(ranks), num_chunks, num_forwards // num_chunks)
            if schedule is not None and _has_order(schedule, ranks):
                cells = [
                    [(int(schedule.stage_chunks[action.stage]), action.microbatch) for action in schedule.order(rank)]
                    for rank in range(len(ranks))
                ]
                if cells not in [other for _name, _chunks, other in fitting]:
                    fitting.append((family, num_chunks, cells))
    if len(fitting) == 1:
        family, num_chunks, cells = fitting[0]
        return CountedCells(cells, family, num_chunks)
    if len(ranks) == 1:
        return CountedCells(counted_cells(ranks), "", 1)
    raise InputError(
        value=", ".join(_("{name} of {chunks} chunks", name=name, chunks=chunks) for name, chunks, _cells in fitting)
        or " ".join(op.name for op in ranks[0][:24]),
        rule=_("must have forwards and backwards in the order of one schedule that tells which microbatch each is of"),
        place=place,
        remedy=_remedy(),
    )


def counted_cells(ranks: Sequence[Sequence[Op]]) -> list[list[tuple[int, int]]]:
    """Return chunk 0 and the place among the same operations for every action.

    >>> counted_cells([[Op.F, Op.F, Op.B, Op.B]])
    [[(0, 0), (0, 1), (0, 0), (0, 1)]]
    """
    cells: list[list[tuple[int, int]]] = []
    for ops in ranks:
        counts: Counter[Op] = Counter()
        cells.append([])
        for op in ops:
            cells[-1].append((0, counts[op]))
            counts[op] += 1
    return cells


def _remedy() -> str:
    return _(
        'name the actions in the trace (record_function("PP:2F3")), or say with {option} REGEX how they are named',
        option=PATTERN_OPTION,
    )


def _backwards(ops: Sequence[Op]) -> list[Op]:
    """Return which operations of backwards there are."""
    return [op for op in Op if op != Op.F and op in ops]


def _made(family: str, num_ranks: int, num_chunks: int, num_microbatches: int) -> Schedule | None:
    try:
        return make_schedule(family, num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=num_microbatches)
    except InputError:  # sizes that the family has no order for
        return None


def _has_order(schedule: Schedule, ranks: Sequence[Sequence[Op]]) -> bool:
    """Return whether all ranks run the operations of a schedule in its order."""
    return all([action.op for action in schedule.order(rank)] == list(ops) for rank, ops in enumerate(ranks))
