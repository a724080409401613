"""The orders that torch.distributed.pipelining makes itself, by the names of its schedules.

    1F1B, GPipe             families of evenflow with one stage on each rank
    Interleaved1F1B         interleaved, in m / max(1, m // p) groups of equal size
    DualPipeV               dualpipe-v; what it overlaps stands one after the other
    LoopedBFS               all forwards of a stage, then of the next; backwards in the opposite order of everything
    InterleavedZeroBubble   interleaved with half its warm-up and split backwards; weight gradients lag r behind
    ZBVZeroBubble           ZB-V with each weight gradient at once, except at the end

The last three are no families of evenflow: they are orders of the plan's own.
"""

from collections.abc import Iterator

from evenflow.errors import InputError
from evenflow.fields import nearest
from evenflow.language import _
from evenflow.model import Sizes, v_shaped
from evenflow.schedule import Action, Op, Schedule, make_schedule, usual_group_size

SINGLE = {"1F1B": "1f1b", "GPipe": "f-then-b"}
"""Schedules with one stage on each rank, and their families."""
ON_A_V = ("ZBVZeroBubble", "DualPipeV")
LOOPED = ("Interleaved1F1B", "LoopedBFS", "InterleavedZeroBubble")
NAMES = (*SINGLE, *LOOPED, *ON_A_V)


def schedule_name(name: object, *, place: str) -> str:
    """Return the one of `NAMES` that `name` stands for in any case; raises InputError for another."""
    by_lower = {each.lower(): each for each in NAMES}
    if not isinstance(name, str) or name.lower() not in by_lower:
        near = nearest(name, NAMES) if isinstance(name, str) else ""
        raise InputError(
            value=name,
            rule=_("must be one of {names}", names=", ".join(NAMES)),
            place=place,
            remedy=_("did you mean {near}?", near=near) if near else "",
        )
    return by_lower[name.lower()]


def named_schedule(name: str, sizes: Sizes, *, place: str) -> Schedule:
    """Return the order that PyTorch makes for one of `NAMES`; raises InputError for sizes that it refuses."""
    ranks, chunks, count = sizes.num_ranks, sizes.num_chunks, sizes.num_microbatches
    if name in SINGLE:
        _check(
            chunks, is_right=chunks == 1, rule=_("must be one stage on each rank for {name}", name=name), place=place
        )
        return _family(SINGLE[name], sizes)
    if name in ON_A_V:
        _check(
            chunks, is_right=chunks == 2, rule=_("must be two stages on each rank for {name}", name=name), place=place
        )
    else:
        rule = _("must be at least two stages on each rank for {name}", name=name)
        _check(chunks, is_right=chunks > 1, rule=rule, place=place)
    if name == "DualPipeV":
        rule = _("must be at least {stages} microbatches, as many as stages, for {name}", stages=2 * ranks, name=name)
        _check(count, is_right=count >= 2 * ranks, rule=rule, place=place)
        return _family("dualpipe-v", sizes)
    if name == "ZBVZeroBubble":
        return _own(name, sizes, [_zbv_order(rank, ranks, count) for rank in range(ranks)])
    if name == "LoopedBFS":
        return _own(name, sizes, [_breadth_first_order(rank, sizes) for rank in range(ranks)])
    rounds = max(1, count // ranks)
    rule = _("must be a multiple of {rounds}, the number of groups, for {name}", rounds=rounds, name=name)
    _check(count, is_right=count % rounds == 0, rule=rule, place=place)
    group = count // rounds
    if name == "Interleaved1F1B":
        # The usual groups where these would be smaller: fewer microbatches than ranks are one group in any case.
        return _family("interleaved", sizes, group_size=group if group > usual_group_size(sizes) else None)
    return _own(name, sizes, [_interleaved_zero_bubble_order(rank, sizes, group) for rank in range(ranks)])


def _check(value: int, *, is_right: bool, rule: str, place: str) -> None:
    if not is_right:
        raise InputError(value=value, rule=rule, place=place)


def _family(name: str, sizes: Sizes, group_size: int | None = None) -> Schedule:
    return make_schedule(
        name,
        num_ranks=sizes.num_ranks,
        num_chunks=sizes.num_chunks,
        num_microbatches=sizes.num_microbatches,
        group_size=group_size,
    )


def _own(name: str, sizes: Sizes, orders: list[list[Action]]) -> Schedule:
    return Schedule.from_actions(
        name=name,
        num_stages=sizes.num_ranks * sizes.num_chunks,
        num_microbatches=sizes.num_microbatches,
        stage_ranks=v_shaped(num_ranks=sizes.num_ranks) if name in ON_A_V else None,
        orders=orders,
    )


def _breadth_first_order(rank: int, sizes: Sizes) -> list[Action]:
    stages = range(rank, sizes.num_ranks * sizes.num_chunks, sizes.num_ranks)
    microbatches = range(sizes.num_microbatches)
    forwards = [Action(stage, Op.F, microbatch) for stage in stages for microbatch in microbatches]
    return forwards + [Action(each.stage, Op.B, each.microbatch) for each in reversed(forwards)]


def _interleaved_zero_bubble_order(rank: int, sizes: Sizes, group: int) -> list[Action]:
    ranks, chunks = sizes.num_ranks, sizes.num_chunks
    cells = [
        (chunk, first + index)
        for first in range(0, sizes.num_microbatches, group)
        for chunk in range(chunks)
        for index in range(group)
    ]
    forwards = [Action(chunk * ranks + rank, Op.F, microbatch) for chunk, microbatch in cells]
    backwards = [((chunks - 1 - chunk) * ranks + rank, microbatch) for chunk, microbatch in cells]
    warm_up = min((chunks - 1) * group + ranks - 1 - rank, len(cells))
    order = forwards[:warm_up]
    for index, (stage, microbatch) in enumerate(backwards):
        order += forwards[warm_up + index : warm_up + index + 1]
        order.append(Action(stage, Op.I, microbatch))
        if index >= rank:
            order.append(Action(backwards[index - rank][0], Op.W, backwards[index - rank][1]))
    return order + [Action(stage, Op.W, microbatch) for stage, microbatch in backwards[max(0, len(cells) - rank) :]]


def _zbv_order(rank: int, num_ranks: int, num_microbatches: int) -> list[Action]:
    # As for enough microbatches to fill the pipeline; those beyond the number asked for are left out.
    most = max(2 * num_ranks - 1, num_microbatches)
    ends = (rank, 2 * num_ranks - 1 - rank)
    counters: dict[tuple[int, Op], Iterator[int]] = {
        (stage, op): iter(range(most)) for stage in ends for op in (Op.F, Op.I, Op.W)
    }
    order: list[Action] = []

    def add(chunk: int, ops: tuple[Op, ...]) -> None:
        for op in ops:
            microbatch = next(counters[ends[chunk], op], most)
            if microbatch < num_microbatches:
                order.append(Action(ends[chunk], op, microbatch))

    at_once = (Op.I, Op.W)
    lead = 2 * (num_ranks - rank) - 1
    for _index in range(lead):
        add(0, (Op.F,))
    for _index in range(rank):
        add(1, (Op.F,))
        add(0, (Op.F,))
    for _index in range(num_ranks - rank):
        add(1, (Op.F, *at_once))
    for _index in range(most - num_ranks):
        add(0, (Op.F, *at_once))
        add(1, (Op.F, *at_once))
    for _index in range(rank):
        add(0, (Op.I,))
        add(1, (Op.I,))
    for _index in range(num_ranks - rank):
        add(0, at_once)
    for chunk in (1, 0):
        for _index in range(most):
            add(chunk, (Op.W,))
    return order
