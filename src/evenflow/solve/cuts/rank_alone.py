"""How long a step takes at least with what one rank holds, wherever the layers before, between and behind it are cut.

Between two actions of a microbatch on a rank, other ranks run all layers that lie between them in the network, forward
or backward, and these take the same time however they are cut. So each rank has an order with known waits in it,
in which only its own layers count::

    start --layers before--> F of chunk 0 --layers between--> F of chunk 1 --layers behind, forward and backward-->
        B of chunk 1 --layers between--> B of chunk 0 --layers before--> end

With one chunk that is about its work and its ramps. With two it also is what a rank waits for in the middle of a step.
Where something moves to the host, the rank has its copies too, and waits for them.
"""

from functools import lru_cache
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import Op
from evenflow.simulate import CopyTurns, Integers, StageCosts, away, turns_of
from evenflow.simulate.compiled import compiled
from evenflow.solve.master.matrix import Floats
from evenflow.solve.problem import Problem

Places = Integers | NDArray[np.int32]
_NOWHERE = -1
_TOGETHER = 32
"""Contents that go through an order together."""


class _Order(NamedTuple):
    """The actions of a rank in their order, shape [num_actions] each."""

    slots: Integers
    """Which of the rank's durations each takes: its chunk, then its operation among those of the schedule."""
    inputs: Integers
    """The rank's own action that the microbatch comes from, or -1."""
    waits: Integers
    """Which wait is before it, or -1 (see `RankAlone`)."""
    end: int
    """The last action whose gradients go on to the layers before the rank; -1 where there is none."""
    turns: CopyTurns
    copy_chunks: Integers
    """Chunk of each copy by its number, [1 + num_copies]."""
    one_engine: bool


class RankAlone:
    """One rank; its waits are that before the forward of each chunk, those before each gradient, and that at the end.

    Gradients of the last chunk come first.
    """

    def __init__(self, problem: Problem, rank: int, ends: StageCosts) -> None:
        """Look at a rank of a problem whose stages without body layers cost as much as `ends`."""
        schedule, layers = problem.schedule, problem.network.layers
        self._order = _order(problem, rank)
        split = int(schedule.splits_backward)
        forward = [layer.forward_ns for layer in layers]
        gradient = [layer.backward_ns - split * layer.weight_ns for layer in layers]
        self._forward, self._gradient = np.cumsum([0, *forward]), np.cumsum([0, *gradient])
        """Least time of all layers before each place, [num_layers + 1]."""
        crosses = [sender != receiver for sender, receiver in pairwise(schedule.stage_ranks)]
        messages = problem.shortest_sent_ns[:-1] * np.array(crosses, dtype=np.int64)
        gaps = list(pairwise([_NOWHERE, *schedule.stage_table[:, rank].tolist(), problem.num_cells]))
        self._messages = np.array([messages[max(before, 0) : behind].sum() for before, behind in gaps])
        """Time of messages in each gap: before the first chunk, between the chunks, behind the last."""
        times = ends.forward_ns, ends.backward_ns - split * ends.weight_ns
        self._ends = np.array([[of[before + 1 : behind].sum() for before, behind in gaps] for of in times])
        """Forward and gradient of head or tail in each gap."""

    def exceeds(
        self,
        durations: Floats,
        begins: Places,
        ends: Places,
        target_ns: int,
        *,
        gradients: Floats | None = None,
        copies: Integers | None = None,
    ) -> NDArray[np.bool_]:
        """Return which contents take longer than the target, shape [num_contents].

        `durations` are by slot, [num_contents, num_slots]; `begins` and `ends` are the places between which each chunk
        holds the layers, [num_chunks, num_contents]. `gradients` is a bound on the gradients of the other ranks in each
        gap, from the start to the end of the network, [num_gaps, num_contents]; left out, that without recomputation.
        `copies` are the times of each chunk's copies to the host, [num_chunks, num_contents]; left out, they take none.
        """
        start = np.zeros_like(ends[:1])
        befores, behinds = np.concatenate((start, ends)), np.concatenate((begins, start + len(self._forward) - 1))
        forwards = self._forward[behinds] - self._forward[befores] + self._ends[0, :, np.newaxis]
        if gradients is None:
            gradients = self._gradient[behinds] - self._gradient[befores] + self._ends[1, :, np.newaxis]
        messages = self._messages[:, np.newaxis]
        forwards, gradients = forwards + messages, gradients + messages
        waits = np.stack([*forwards[:-1], forwards[-1] + gradients[-1], *gradients[-2::-1]])
        result = np.empty(len(durations), dtype=np.bool_)
        if copies is None:
            copies = np.zeros((len(ends), len(durations)), dtype=np.int64)
        compiled(_exceeds)(
            self._order, durations.T, waits.astype(np.float64), copies.astype(np.float64), target_ns, result
        )
        return result


@lru_cache(maxsize=1)
def ranks_alone(problem: Problem) -> tuple[RankAlone, ...]:
    """Return all ranks of a problem; those of the last one are kept, as a proof asks for them at every target."""
    ends = problem.costs(np.zeros((problem.num_cells, len(problem.kinds)), dtype=np.int64))
    return tuple(RankAlone(problem, rank, ends) for rank in range(problem.num_ranks))


def _order(problem: Problem, rank: int) -> _Order:
    schedule, last = problem.schedule, problem.num_chunks - 1
    span = slice(int(schedule.rank_starts[rank]), int(schedule.rank_starts[rank + 1]))
    ops, units = schedule.ops[span].tolist(), schedule.units[span].tolist()
    chunks = schedule.stage_chunks[schedule.stages[span]].tolist()
    slots, inputs, waits = [], [], []
    at: dict[tuple[int, int], int] = {}
    """Where each microbatch meets each wait."""
    for place, (op, chunk, unit) in enumerate(zip(ops, chunks, units, strict=True)):
        wait = _NOWHERE
        if op != Op.W:
            wait = chunk if op == Op.F else last + 1 + last - chunk
            at[wait, unit] = place
        slots.append(chunk * len(schedule.used_ops) + schedule.used_ops.index(Op(op)))
        waits.append(wait)
        inputs.append(at[wait - 1, unit] if wait > 0 else _NOWHERE)
    end = max((place for (wait, _unit), place in at.items() if wait == 2 * last + 1), default=_NOWHERE)
    link = problem.host_link
    leaves = away(schedule, link, rank) if link is not None and not link.takes_no_time else None
    places = (
        (np.zeros(0, dtype=np.int64),) * 4
        if leaves is None
        else (leaves.forwards, leaves.backwards, leaves.lasts, leaves.firsts)
    )
    return _Order(
        slots=np.array(slots),
        inputs=np.array(inputs),
        waits=np.array(waits),
        end=end,
        turns=turns_of(*places, num_actions=len(slots)),
        copy_chunks=np.concatenate(([0], np.array(chunks)[places[0]])),
        one_engine=link is not None and link.one_engine,
    )


def _exceeds(order: Any, durations: Any, waits: Any, copies: Any, target_ns: int, result: Any) -> None:
    """Fill `result` [num_contents] with whether the order takes longer than the target, for `RankAlone.exceeds`.

    `durations` are [num_slots, num_contents], `waits` [num_waits, num_contents] and `copies` [num_chunks,
    num_contents]. So many contents go through the order together that the processor adds several at once: their loops
    are plain ones, without calls or branches.
    """
    slots, inputs, own_waits = order.slots, order.inputs, order.waits
    last, turns, num_copies = len(waits) - 1, order.turns, len(order.copy_chunks)
    copy_times, copied = np.zeros((len(copies), _TOGETHER)), np.zeros((2, num_copies, _TOGETHER))
    engines = np.zeros((2, _TOGETHER))
    inward = 0 if order.one_engine else 1
    times, gaps = np.zeros((len(durations), _TOGETHER)), np.zeros((len(waits), _TOGETHER))
    done = np.empty((len(slots), _TOGETHER))
    now, behind = np.empty(_TOGETHER), np.empty(_TOGETHER)
    for begin in range(0, durations.shape[1], _TOGETHER):
        number = min(_TOGETHER, durations.shape[1] - begin)
        for slot in range(len(durations)):
            for place in range(number):
                times[slot, place] = durations[slot, begin + place]
        for wait in range(len(waits)):
            for place in range(number):
                gaps[wait, place] = waits[wait, begin + place]
        if num_copies > 1:
            for chunk in range(len(copies)):
                for place in range(number):
                    copy_times[chunk, place] = copies[chunk, begin + place]
        now[:], behind[:], engines[:] = 0.0, 0.0, 0.0
        for action in range(len(slots)):
            slot, wait, before = slots[action], own_waits[action], inputs[action]
            for index in range(turns.gone_starts[action], turns.gone_starts[action + 1]):
                copy = turns.gone[index]
                for place in range(_TOGETHER):
                    ended = copied[0, copy, place]
                    now[place] = ended if ended > now[place] else now[place]
            for index in range(turns.fetched_starts[action], turns.fetched_starts[action + 1]):
                copy = turns.fetched[index]
                chunk = order.copy_chunks[copy]
                for place in range(_TOGETHER):
                    free = engines[inward, place]
                    free = (now[place] if now[place] > free else free) + copy_times[chunk, place]
                    engines[inward, place] = free
                    copied[1, copy, place] = free
            if turns.returning[action] > 0:
                copy = turns.returning[action]
                for place in range(_TOGETHER):
                    ended = copied[1, copy, place]
                    now[place] = ended if ended > now[place] else now[place]
            if wait == 0:
                for place in range(_TOGETHER):
                    ready = gaps[0, place]
                    now[place] = ready if ready > now[place] else now[place]
            elif wait > 0:
                for place in range(_TOGETHER):
                    ready = done[before, place] + gaps[wait, place]
                    now[place] = ready if ready > now[place] else now[place]
            for place in range(_TOGETHER):
                now[place] += times[slot, place]
                done[action, place] = now[place]
            if turns.leaving[action] > 0:
                copy = turns.leaving[action]
                chunk = order.copy_chunks[copy]
                for place in range(_TOGETHER):
                    free = engines[0, place]
                    free = (now[place] if now[place] > free else free) + copy_times[chunk, place]
                    engines[0, place] = free
                    copied[0, copy, place] = free
            if action == order.end:
                for place in range(_TOGETHER):
                    behind[place] = now[place] + gaps[last, place]
        for place in range(number):
            result[begin + place] = max(now[place], behind[place]) > target_ns
