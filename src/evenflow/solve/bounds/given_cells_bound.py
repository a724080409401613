"""Lower bounds on the step over all orders of the same work.

Microbatches are identical, so in some best order every stage takes them in turn; its n-th forward, gradient and weight
gradient are then jobs of one machine, the rank. A job's head is a time before which it cannot begin, its tail the
least time from its end to the end of the step. Three arguments make them:

1. paths: the input of the n-th job comes from the n-th of the stage before; the jobs of a stage follow one another;
2. work: before its n-th gradient a rank has run n forwards of all its stages, and likewise for other jobs;
3. memory: when K microbatches fill a rank, the forward after them waits for the end of the first of their backwards.

Head, work and tail of a rank together are bounded by Jackson's preemptive schedule, which is optimal for one machine
with heads and tails if jobs may be interrupted (Carlier, European Journal of Operational Research 11, 1982). A last
bound spends memory as if it were work: microbatches times bytes times the least time that they are held are at most
the room times the time in which the rank holds anything.
"""

import heapq
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evenflow.schedule import Op
from evenflow.solve.work import Work

Times = NDArray[np.int64]


@dataclass(frozen=True, slots=True, kw_only=True)
class GivenCellsBound:
    """A lower bound over all orders of some work, with the arguments it comes from; times in ns."""

    path_ns: int
    """Time of the longest chain of jobs that must follow one another."""
    rank_ns: int
    """Largest time over ranks of their work between heads and tails."""
    memory_ns: int
    """Largest time over ranks for which their activations fill their room; 0 without a limit."""

    @property
    def lower_bound_ns(self) -> int:
        """Largest of the three bounds: no order is shorter."""
        return max(self.path_ns, self.rank_ns, self.memory_ns)


@dataclass(frozen=True, eq=False, kw_only=True)
class _Jobs:
    """The jobs of some work: a gradient is the input gradient where backwards may be split, else the whole backward."""

    work: Work
    forward: list[int]
    gradient: list[int]
    weight: list[int]
    """Weight gradient of each stage; 0 where backwards may not be split."""
    own: list[list[int]]
    """Stages of each rank, ascending."""
    rules: list["_Precedence"]
    """Pairs of actions of a rank, one of which memory forces before the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Precedence:
    """A rule of precedence between the jobs of two stages.

    The n-th `after` of one begins at the earliest `extra_ns` after the end of the (n - lag)-th `before` of the other.
    """

    before: Op
    """Kind of the earlier job: F, or B for the gradient."""
    before_stage: int
    after: Op
    after_stage: int
    lag: int
    extra_ns: int = 0


@dataclass(frozen=True, eq=False, kw_only=True)
class _Table:
    """A time for each job, ``[stage][n]`` for the n-th of its kind or the n-th from the last."""

    forward: list[list[int]]
    gradient: list[list[int]]


def given_cells_bound(work: Work) -> GivenCellsBound:
    """Return a bound on the step for any order of `work`: any interleaving and any choice of backwards to split.

    Where forwards may run beside backwards, each backward counts as if it saved the most that it can.
    """
    work = work.at_best()
    jobs = _jobs(work)
    heads, tails = _heads(jobs), _tails(jobs)
    last = work.num_units - 1
    path = max(
        length[stage] + head[stage][unit] + tail[stage][last - unit]
        for length, head, tail in (
            (jobs.forward, heads.forward, tails.forward),
            (jobs.gradient, heads.gradient, tails.gradient),
        )
        for stage in range(work.num_stages)
        for unit in range(work.num_units)
    )
    return GivenCellsBound(
        path_ns=path,
        rank_ns=max(_one_machine(jobs, heads, tails, rank) for rank in range(work.num_ranks)),
        memory_ns=max(_memory(jobs, heads, tails, rank) for rank in range(work.num_ranks)),
    )


def _jobs(work: Work) -> _Jobs:
    """Return the jobs of `work` with the rules that memory forces on them."""
    costs = work.costs
    weight = costs.weight_ns if work.may_split else np.zeros_like(costs.weight_ns)
    own = [sorted(stages) for stages in work.stage_table.T.tolist()]
    return _Jobs(
        work=work,
        forward=costs.forward_ns.tolist(),
        gradient=(costs.backward_ns - weight).tolist(),
        weight=weight.tolist(),
        own=own,
        rules=[
            rule
            for rank, stages in enumerate(own)
            for rule in _rules(work, stages, int(work.room_bytes[rank]), weight)
            if rule.lag < work.num_units
        ],
    )


def _rules(work: Work, stages: list[int], room: int, weight_ns: Times) -> Iterator[_Precedence]:
    """Yield the rules of a rank with these stages, ascending.

    Between its forward and its gradient on chunk c a microbatch holds the activations of the chunks 0…c.

    When chunk d > c takes the forward of microbatch u, it holds 0…d, and all up to the newest forward k of chunk c hold
    0…c beside it. This must fit, now or later, so d has taken all but the last few of them. Gradients likewise, read
    backwards in time.
    """
    activation = work.costs.activation_bytes
    waiting = work.costs.until_weight_bytes
    for place, stage in enumerate(stages):
        up_to = sum(int(activation[other]) for other in stages[: place + 1])
        if up_to > 0:
            yield _Precedence(before=Op.B, before_stage=stage, after=Op.F, after_stage=stage, lag=max(1, room // up_to))
        if work.may_split:
            held = min(int(activation[stage]), int(waiting[stage]))
            if held > 0:
                yield _Precedence(
                    before=Op.B,
                    before_stage=stage,
                    after=Op.F,
                    after_stage=stage,
                    lag=max(1, room // held),
                    extra_ns=int(weight_ns[stage]),
                )
        for later in range(place + 1, len(stages)):
            whole = sum(int(activation[other]) for other in stages[: later + 1])
            if up_to > 0:
                lag = (room - whole) // up_to + 1
                yield _Precedence(
                    before=Op.F, before_stage=stages[later], after=Op.F, after_stage=stage, lag=max(1, lag)
                )
                yield _Precedence(
                    before=Op.B, before_stage=stage, after=Op.B, after_stage=stages[later], lag=max(1, lag)
                )


def _heads(jobs: _Jobs) -> _Table:
    """Return the earliest start of each job; ``[stage][n]`` for the n-th."""
    work = jobs.work
    stages, units = range(work.num_stages), range(work.num_units)
    forward = [[0] * work.num_units for _ in stages]
    gradient = [[0] * work.num_units for _ in stages]
    first = _first_arrivals(jobs)
    ranks = work.stage_ranks
    tables, lengths = {Op.F: forward, Op.B: gradient}, {Op.F: jobs.forward, Op.B: jobs.gradient}
    rules: dict[tuple[Op, int], list[_Precedence]] = defaultdict(list)
    for rule in jobs.rules:
        rules[rule.after, rule.after_stage].append(rule)

    def ruled(op: Op, stage: int, unit: int) -> Iterator[int]:
        for rule in rules[op, stage]:
            if unit >= rule.lag:
                before = tables[rule.before][rule.before_stage][unit - rule.lag]
                yield before + lengths[rule.before][rule.before_stage] + rule.extra_ns

    for unit in units:
        for stage in stages:
            rank = ranks[stage]
            bounds = [first[rank] + unit * jobs.forward[stage]]
            bounds[0] += sum((unit + 1) * jobs.forward[other] for other in jobs.own[rank] if other < stage)
            if stage:
                bounds.append(forward[stage - 1][unit] + jobs.forward[stage - 1] + _message(work, stage - 1, stage))
            if unit:
                bounds.append(forward[stage][unit - 1] + jobs.forward[stage])
            forward[stage][unit] = max([*bounds, *ruled(Op.F, stage, unit)])
        for stage in reversed(stages):
            rank = ranks[stage]
            bounds = [first[rank] + unit * jobs.gradient[stage]]
            bounds[0] += sum((unit + 1) * jobs.forward[other] for other in jobs.own[rank])
            bounds[0] += sum((unit + 1) * jobs.gradient[other] for other in jobs.own[rank] if other > stage)
            if stage == work.num_stages - 1:
                bounds.append(forward[stage][unit] + jobs.forward[stage])
            else:
                bounds.append(gradient[stage + 1][unit] + jobs.gradient[stage + 1] + _message(work, stage + 1, stage))
            if unit:
                bounds.append(gradient[stage][unit - 1] + jobs.gradient[stage])
            gradient[stage][unit] = max([*bounds, *ruled(Op.B, stage, unit)])
    return _Table(forward=forward, gradient=gradient)


def _tails(jobs: _Jobs) -> _Table:
    """Return the least time from the end of each job to that of the step; ``[stage][n]`` for the n-th from the last."""
    work = jobs.work
    stages, units = range(work.num_stages), range(work.num_units)
    forward = [[0] * work.num_units for _ in stages]
    gradient = [[0] * work.num_units for _ in stages]
    departures = _last_departures(jobs)
    tables, lengths = {Op.F: forward, Op.B: gradient}, {Op.F: jobs.forward, Op.B: jobs.gradient}
    rules: dict[tuple[Op, int], list[_Precedence]] = defaultdict(list)
    for rule in jobs.rules:
        rules[rule.before, rule.before_stage].append(rule)

    def ruled(op: Op, stage: int, unit: int) -> Iterator[int]:
        for rule in rules[op, stage]:
            if unit >= rule.lag:
                after = tables[rule.after][rule.after_stage][unit - rule.lag]
                yield rule.extra_ns + lengths[rule.after][rule.after_stage] + after

    for unit in units:
        for stage in stages:
            own = jobs.own[work.stage_ranks[stage]]
            left = unit * jobs.gradient[stage] + sum(
                (unit + 1) * jobs.gradient[other] for other in own if other < stage
            )
            weights = sum((unit + 1) * jobs.weight[other] for other in own if other <= stage)
            bounds = [left + weights, left + departures[work.stage_ranks[stage]]]
            if stage:
                bounds.append(_message(work, stage, stage - 1) + jobs.gradient[stage - 1] + gradient[stage - 1][unit])
            if unit:
                bounds.append(jobs.gradient[stage] + gradient[stage][unit - 1])
            gradient[stage][unit] = max([*bounds, *ruled(Op.B, stage, unit)])
        for stage in reversed(stages):
            own = jobs.own[work.stage_ranks[stage]]
            left = unit * jobs.forward[stage]
            left += sum((unit + 1) * jobs.forward[other] for other in own if other > stage)
            left += sum((unit + 1) * jobs.gradient[other] for other in own)
            weights = sum((unit + 1) * jobs.weight[other] for other in own)
            bounds = [left + weights, left + departures[work.stage_ranks[stage]]]
            if stage == work.num_stages - 1:
                bounds.append(jobs.gradient[stage] + gradient[stage][unit])
            else:
                bounds.append(_message(work, stage, stage + 1) + jobs.forward[stage + 1] + forward[stage + 1][unit])
            if unit:
                bounds.append(jobs.forward[stage] + forward[stage][unit - 1])
            forward[stage][unit] = max([*bounds, *ruled(Op.F, stage, unit)])
    return _Table(forward=forward, gradient=gradient)


def _message(work: Work, source: int, target: int) -> int:
    """Return the time in ns of a message between two stages; 0 on one rank."""
    return int(work.sent_ns[min(source, target)]) if work.stage_ranks[source] != work.stage_ranks[target] else 0


def _first_arrivals(jobs: _Jobs) -> list[int]:
    """Return the earliest time at which the first forward can reach each rank."""
    arrivals: dict[int, int] = {}
    when = 0
    for stage, rank in enumerate(jobs.work.stage_ranks):
        when += _message(jobs.work, stage - 1, stage) if stage else 0
        arrivals.setdefault(rank, when)
        when += jobs.forward[stage]
    return [arrivals[rank] for rank in range(jobs.work.num_ranks)]


def _last_departures(jobs: _Jobs) -> list[int]:
    """Return the least time from each rank's last gradient to the end of the step."""
    departures: dict[int, int] = {}
    when = 0
    for stage, rank in enumerate(jobs.work.stage_ranks):
        when += _message(jobs.work, stage, stage - 1) if stage else 0
        departures.setdefault(rank, when)
        when += jobs.gradient[stage]
    return [departures[rank] for rank in range(jobs.work.num_ranks)]


def _one_machine(jobs: _Jobs, heads: _Table, tails: _Table, rank: int) -> int:
    """Return the makespan of Jackson's preemptive schedule: of the jobs there, the one with the longest tail runs."""
    last = jobs.work.num_units - 1
    rows: list[tuple[int, int, int]] = []  # head, duration, tail
    for stage in jobs.own[rank]:
        for unit in range(jobs.work.num_units):
            rows.append((heads.forward[stage][unit], jobs.forward[stage], tails.forward[stage][last - unit]))
            ready = heads.gradient[stage][unit]
            rows.append((ready, jobs.gradient[stage], tails.gradient[stage][last - unit]))
            if jobs.weight[stage]:
                rows.append((ready + jobs.gradient[stage], jobs.weight[stage], (last - unit) * jobs.weight[stage]))
    rows.sort()
    rows.append((sum(duration for _, duration, _ in rows) + rows[-1][0], 0, 0))  # after all else
    waiting: list[tuple[int, int]] = []  # minus the tail, what is left
    now = bound = 0
    for head, duration, tail in rows:
        while waiting and now < head:
            minus_tail, left = waiting[0]
            step = min(left, head - now)
            now += step
            if step == left:
                heapq.heappop(waiting)
                bound = max(bound, now - minus_tail)
            else:
                heapq.heapreplace(waiting, (minus_tail, left - step))
        now = max(now, head)
        heapq.heappush(waiting, (-tail, duration))
    return bound


def _memory(jobs: _Jobs, heads: _Table, tails: _Table, rank: int) -> int:
    """Return a bound from the bytes times time that the rank's microbatches take, divided by its room.

    It is the larger of those with and without waiting weight gradients.
    """
    work, costs = jobs.work, jobs.work.costs
    room, units = int(work.room_bytes[rank]), work.num_units
    held = waits = 0
    for stage in jobs.own[rank]:
        trip = jobs.forward[stage] + jobs.gradient[stage]
        for other in range(stage + 1, work.num_stages):
            trip += jobs.forward[other] + jobs.gradient[other]
            trip += _message(work, other - 1, other) + _message(work, other, other - 1)
        activation, waiting = int(costs.activation_bytes[stage]), int(costs.until_weight_bytes[stage])
        held += trip * activation
        waits += jobs.weight[stage] * min(activation, waiting)
    if room <= 0:
        return 0
    head = min(heads.forward[stage][0] for stage in jobs.own[rank])
    tail = min(tails.gradient[stage][0] for stage in jobs.own[rank])
    return head + max(tail + -(-held * units // room), -(-(held + waits) * units // room))
