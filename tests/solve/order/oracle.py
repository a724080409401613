"""The shortest step of small work over every order there is: dynamic programming over what has been done.

A state counts, for every stage, forwards, gradients and what waits for its weight gradient; microbatches are identical,
so every stage takes them in turn. A label says when each rank is free and when each input that is still needed arrives.
Of two labels of a state the one that is nowhere later is enough. No rule of the search or of the bounds is used.
"""

from collections import defaultdict
from dataclasses import dataclass

State = tuple[tuple[int, int, int], ...]
"""By stage: forwards, gradients, gradients whose weight gradient has not run."""
Label = tuple[tuple[int, ...], tuple[tuple[int, ...], ...], tuple[tuple[int, ...], ...]]
"""Free times by rank; by stage, ends of forwards and of gradients that the neighbour has not used."""


@dataclass(frozen=True, kw_only=True)
class Small:
    """Work in plain numbers; lists are by stage."""

    stage_ranks: tuple[int, ...]
    num_microbatches: int
    forward: tuple[int, ...]
    backward: tuple[int, ...]
    weight: tuple[int, ...]
    activation: tuple[int, ...]
    waiting: tuple[int, ...]
    room: tuple[int, ...]
    """By rank."""
    may_split: bool
    message: int = 0
    saved: tuple[tuple[int, ...], ...] | None = None
    """By stage: what its forward saves beside a backward of each chunk of its rank; None: none may run beside one."""

    @property
    def num_stages(self) -> int:
        return len(self.stage_ranks)


def shortest(work: Small) -> int | None:
    """The makespan of the best order; None when every order exceeds the room or gets stuck."""
    stages = work.num_stages
    empty: Label = ((0,) * len(work.room), ((),) * stages, ((),) * stages)
    level: dict[State, list[Label]] = {((0, 0, 0),) * stages: [empty]}
    best: int | None = None
    total = work.num_microbatches
    while level:
        following: dict[State, list[Label]] = defaultdict(list)
        for state, labels in level.items():
            if all(forwards == gradients == total and not waits for forwards, gradients, waits in state):
                makespan = min(max(free) for free, _, _ in labels)
                best = makespan if best is None else min(best, makespan)
                continue
            for label in labels:
                for stage in range(stages):
                    for op in ("F", "B", "I", "W") if work.may_split else ("F", "B"):
                        step = _run(work, state, label, stage, op)
                        if step is not None:
                            _keep(following[step[0]], step[1])
                    for other in range(stages) if work.saved else ():
                        step = _run_pair(work, state, label, stage, other)
                        if step is not None:  # two actions: some states come again later, which loses nothing
                            _keep(following[step[0]], step[1])
        level = following
    return best


def _run(work: Small, state: State, label: Label, stage: int, op: str) -> tuple[State, Label] | None:
    """The state and label after one more action, or None where it cannot run."""
    free, forward_ends, gradient_ends = label
    forwards, gradients, waits = state[stage]
    rank, last = work.stage_ranks[stage], work.num_stages - 1
    forward_rows, gradient_rows = [list(row) for row in forward_ends], [list(row) for row in gradient_ends]
    arrival = 0
    if op == "F":
        if forwards == work.num_microbatches:
            return None
        if stage:
            if not forward_rows[stage - 1]:
                return None
            arrival = forward_rows[stage - 1].pop(0) + (work.message if work.stage_ranks[stage - 1] != rank else 0)
        duration, forwards = work.forward[stage], forwards + 1
    elif op == "W":
        if not waits:
            return None
        duration, waits = work.weight[stage], waits - 1
    else:
        rows, source = (forward_rows, stage) if stage == last else (gradient_rows, stage + 1)
        if not rows[source]:
            return None
        arrival = rows[source].pop(0) + (work.message if work.stage_ranks[source] != rank else 0)
        duration = work.backward[stage] - (work.weight[stage] if op == "I" else 0)
        gradients, waits = gradients + 1, waits + (op == "I")
    after = (*state[:stage], (forwards, gradients, waits), *state[stage + 1 :])
    held = sum(
        (done - back) * work.activation[own] + waiting * work.waiting[own]
        for own, (done, back, waiting) in enumerate(after)
        if work.stage_ranks[own] == rank
    )
    if held > work.room[rank]:
        return None
    end = max(free[rank], arrival) + duration
    if op == "F":
        forward_rows[stage].append(end)
    elif op != "W" and stage:
        gradient_rows[stage].append(end)
    frees = (*free[:rank], end, *free[rank + 1 :])
    return after, (frees, tuple(map(tuple, forward_rows)), tuple(map(tuple, gradient_rows)))


def _run_pair(work: Small, state: State, label: Label, ahead: int, back: int) -> tuple[State, Label] | None:
    """The state and label after a forward of one stage beside a backward of another, or None where they cannot run."""
    assert work.saved is not None
    rank, last = work.stage_ranks[ahead], work.num_stages - 1
    free, forward_ends, gradient_ends = label
    if work.stage_ranks[back] != rank:
        return None
    waiting = forward_ends[back] if back == last else gradient_ends[back + 1]
    first = _run(work, state, label, ahead, "F")
    second = first and _run(work, *first, back, "B")
    if not waiting or second is None:  # what the backward needs is there before both begin
        return None
    source = back if back == last else back + 1
    arrivals = [free[rank], waiting[0] + (work.message if work.stage_ranks[source] != rank else 0)]
    if ahead:
        arrivals.append(forward_ends[ahead - 1][0] + (work.message if work.stage_ranks[ahead - 1] != rank else 0))
    chunk = sum(own == rank for own in work.stage_ranks[:back])
    end = max(arrivals) + work.forward[ahead] + work.backward[back] - work.saved[ahead][chunk]
    after, (frees, forward_after, gradient_after) = second
    forward_rows, gradient_rows = list(forward_after), list(gradient_after)
    forward_rows[ahead] = (*forward_rows[ahead][:-1], end)
    if back:
        gradient_rows[back] = (*gradient_rows[back][:-1], end)
    return after, ((*frees[:rank], end, *frees[rank + 1 :]), tuple(forward_rows), tuple(gradient_rows))


def _keep(labels: list[Label], new: Label) -> None:
    flat = _flat(new)
    if any(all(mine <= theirs for mine, theirs in zip(_flat(old), flat, strict=True)) for old in labels):
        return
    labels[:] = [
        old for old in labels if not all(mine <= theirs for mine, theirs in zip(flat, _flat(old), strict=True))
    ]
    labels.append(new)


def _flat(label: Label) -> list[int]:
    free, forward_ends, gradient_ends = label
    return [*free, *(end for row in (*forward_ends, *gradient_ends) for end in row)]
