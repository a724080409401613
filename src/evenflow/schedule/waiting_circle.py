"""The reason why an order can never finish: the circle of actions in which each waits for the next."""

from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from evenflow.language import _
from evenflow.schedule.action import Action, Op
from evenflow.schedule.schedule import Schedule


@dataclass(frozen=True, slots=True, kw_only=True)
class Wait:
    """An action that cannot start before another."""

    action: Action
    rank: int
    needs: Action
    needs_rank: int
    by_order: bool
    """Whether `needs` merely comes first in the order of the rank; otherwise `needs` makes the input of `action`."""

    def __str__(self) -> str:
        if self.by_order:
            return _(
                "rank {rank} runs {action} only after {needs}", rank=self.rank, action=self.action, needs=self.needs
            )
        return _(
            "{action} on rank {rank} needs {needs} of rank {needs_rank}",
            action=self.action,
            rank=self.rank,
            needs=self.needs,
            needs_rank=self.needs_rank,
        )


def waiting_circle(schedule: Schedule) -> tuple[Wait, ...]:
    """Return one circle of waits, each for the action of the next and the last for the first; empty if all can run.

    `schedule` must be complete (see `check_complete`).
    """
    orders = [schedule.order(rank) for rank in range(schedule.num_ranks)]
    inputs = _inputs(orders)
    heads, done = _run(orders, inputs)
    rank_of = {action: rank for rank, order in enumerate(orders) for action in order}
    stuck = [rank for rank, order in enumerate(orders) if heads[rank] < len(order)]
    if not stuck:
        return ()
    waits: list[Wait] = []
    seen: dict[int, int] = {}
    rank = stuck[0]
    while rank not in seen:
        seen[rank] = len(waits)
        head = next(action for action in _together(orders[rank], heads[rank]) if inputs[action] not in done)
        needed = inputs[head]
        assert needed is not None  # what needs nothing is not stuck
        other = rank_of[needed]
        waits.append(Wait(action=head, rank=rank, needs=needed, needs_rank=other, by_order=False))
        first = orders[other][heads[other]]
        if needed not in _together(orders[other], heads[other]):
            waits.append(Wait(action=needed, rank=other, needs=first, needs_rank=other, by_order=True))
        rank = other
    return tuple(waits[seen[rank] :])


def _inputs(orders: list[list[Action]]) -> dict[Action, Action | None]:
    """Return for every action the action, on another stage or its own, that makes its input.

    A stage passes on the gradient in its first action on a microbatch that is not its forward.
    """
    gradients: dict[tuple[int, int], Action] = {}
    for order in orders:
        for action in order:
            if action.op != Op.F:
                gradients.setdefault((action.stage, action.microbatch), action)
    last = max(action.stage for order in orders for action in order)
    inputs: dict[Action, Action | None] = {}
    for order in orders:
        for action in order:
            stage, microbatch = action.stage, action.microbatch
            if action.op == Op.F:
                inputs[action] = None if stage == 0 else Action(stage - 1, Op.F, microbatch)
            elif gradients[stage, microbatch] != action:
                inputs[action] = gradients[stage, microbatch]
            elif stage == last:
                inputs[action] = Action(stage, Op.F, microbatch)
            else:
                inputs[action] = gradients[stage + 1, microbatch]
    return inputs


def _together(order: list[Action], place: int) -> list[Action]:
    """Return the action at a place of a rank's order, with the backward that it runs beside if it leads a pair."""
    return order[place : place + (2 if order[place].is_paired else 1)]


def _run(
    orders: list[list[Action]], inputs: dict[Action, Action | None]
) -> tuple[list[int], AbstractSet[Action | None]]:
    """Return the number of actions of each rank that can run, and all that can."""
    heads = [0] * len(orders)
    done: set[Action | None] = {None}
    moved = True
    while moved:
        moved = False
        for rank, order in enumerate(orders):
            while heads[rank] < len(order):
                actions = _together(order, heads[rank])
                if any(inputs[action] not in done for action in actions):
                    break
                done.update(actions)
                heads[rank] += len(actions)
                moved = True
    return heads, done
