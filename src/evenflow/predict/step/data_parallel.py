"""What the copies of a stage exchange once a step, under the pipeline or after it, and the optimizer.

A rank's exchanges go one after the other. Gradients of a stage are ready, bucket by bucket, during its last backward,
so with several chunks those of the last chunk are reduced while the others still compute; the last bucket is never
hidden. Parameters that the optimizer has changed are gathered in the order of the first forwards; where one is not
there in time, the step begins later by as much.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.cluster import Collective
from evenflow.cluster.collectives import collective_ns
from evenflow.cluster.topology import Group, Topology
from evenflow.predict.layer_work import SINGLE
from evenflow.predict.parameters import Parameters, padded_vocabulary, shares
from evenflow.predict.pricing import slowed_by_ns
from evenflow.predict.step.optimizer import optimizer_bytes
from evenflow.predict.step.stage_sums import StageSum
from evenflow.predict.training import Sharding, Training
from evenflow.schedule import Op, Schedule
from evenflow.simulate import Integers, Timeline

_BUCKET = 40_000_000
_BUCKET_OF_DEVICE = 1_000_000
"""Parameters whose gradients are reduced together, at least and for each device of the group, so that rings of many
devices have enough to send. [Megatron-LM, `DistributedDataParallelConfig.bucket_size`]"""
_OPTIMIZER_CALLS = 10


@dataclass(frozen=True, slots=True, kw_only=True)
class RankExchanges:
    """What a rank exchanges once a step, and its optimizer."""

    wait_ns: float
    """How much later the step must begin, so that none of this rank's first forwards waits for parameters."""
    gathered_ns: float
    """Time of all gathers, waited for or not."""
    reduced_ns: float
    """When all gradients are reduced, from the start of the first forward of the pipeline."""
    hidden_ns: float
    """Time of reductions that run under the pipeline."""
    busy_share: float
    """How much of its time until its last backward the rank computes."""
    optimizer_ns: float

    def hidden_after(self, wait_ns: float) -> float:
        """Return the time of exchanges that run under the pipeline in a step that begins `wait_ns` later."""
        return self.hidden_ns + max(0.0, self.gathered_ns - wait_ns)

    def end_ns(self, wait_ns: float) -> float:
        """Return when all gradients are reduced, with computation slowed down by what runs under it."""
        return self.reduced_ns + slowed_by_ns(self.hidden_after(wait_ns)) * self.busy_share


@dataclass(frozen=True, slots=True)
class _Window:
    """A stage on a rank: the times of its first forward and of its last backward."""

    first_forward: tuple[float, float]
    last_backward: tuple[float, float]
    parameters: Parameters


def rank_exchanges(
    training: Training, topology: Topology, timeline: Timeline, stages: Sequence[StageSum], durations: Integers
) -> list[RankExchanges]:
    """Return the exchanges of every rank. `durations` are those of `Timeline`, shape [num_stages, NUM_OPS]."""
    schedule = timeline.schedule
    forward_starts = np.full(schedule.num_stages, np.iinfo(np.int64).max)
    backward_ends = np.zeros(schedule.num_stages, dtype=np.int64)
    forwards = schedule.ops == Op.F
    np.minimum.at(forward_starts, schedule.stages[forwards], timeline.start_ns[forwards])
    np.maximum.at(backward_ends, schedule.stages[~forwards], timeline.end_ns[~forwards])
    found = []
    for rank in range(schedule.num_ranks):
        windows = []
        for stage in schedule.stage_table[:, rank].tolist():
            begin, end = float(forward_starts[stage]), float(backward_ends[stage])
            forward_ns, backward_ns = float(durations[stage, Op.F]), float(durations[stage, Op.B])
            windows.append(_Window((begin, begin + forward_ns), (end - backward_ns, end), stages[stage].parameters))
        rank_end = max(window.last_backward[1] for window in windows)
        busy = float(timeline.busy_ns[rank]) / rank_end if rank_end else 0.0
        found.append(_of_rank(training, topology, windows, busy_share=busy, ties=_ties(training, schedule, rank)))
    return found


def after_one_stage_ns(
    training: Training, topology: Topology, parameters: Parameters, *, computed_ns: float, forward_ns: float
) -> float:
    """Return what a step without a pipeline takes beside its computation: gradients, parameters and the optimizer.

    All microbatches take as long, `computed_ns` together. More recomputation hides more of the exchanges, but never as
    much as it adds to the step.
    """
    backward_ns = computed_ns / training.microbatches - forward_ns
    window = _Window((0.0, forward_ns), (computed_ns - backward_ns, computed_ns), parameters)
    found = _of_rank(training, topology, [window], busy_share=1.0, ties=False)
    return found.wait_ns + found.end_ns(found.wait_ns) - computed_ns + found.optimizer_ns


def _ties(training: Training, schedule: Schedule, rank: int) -> bool:
    """Whether a rank holds one of two copies of the embedding's table."""
    ranks = schedule.stage_ranks
    return training.model.tied and ranks[0] != ranks[-1] and rank in (ranks[0], ranks[-1])


def _of_rank(
    training: Training, topology: Topology, windows: Sequence[_Window], *, busy_share: float, ties: bool
) -> RankExchanges:
    software = training.software
    rank_end = max(window.last_backward[1] for window in windows)
    gathers = [
        Buckets(*window.first_forward, count, each_ns)
        for window in sorted(windows, key=lambda each: each.first_forward)
        for count, each_ns in _gathers(training, topology, window.parameters)
    ]
    gathered = sum(each.total_ns for each in gathers)
    wait = longest_wait_ns(gathers) if software.overlaps_parameters else gathered
    reductions = [
        Buckets(*window.last_backward, count, each_ns)
        for window in sorted(windows, key=lambda each: each.last_backward[1])
        for count, each_ns in _reductions(training, topology, window.parameters)
    ]
    reduced = sum(each.total_ns for each in reductions)
    finish = max(rank_end, last_reduced_ns(reductions)) if software.overlaps_gradients else rank_end + reduced
    hidden = max(0.0, reduced - (finish - rank_end))
    return RankExchanges(
        wait_ns=wait,
        gathered_ns=gathered,
        reduced_ns=finish + (_tie_ns(training, topology) if ties else 0.0),
        hidden_ns=hidden,
        busy_share=busy_share,
        optimizer_ns=_optimizer_ns(training, topology, windows),
    )


@dataclass(frozen=True, slots=True)
class Buckets:
    """Equal exchanges, each of an equal part of a pass."""

    begin_ns: float
    """When the pass begins."""
    end_ns: float
    count: int
    each_ns: float
    """Time of one exchange."""

    @property
    def total_ns(self) -> float:
        """Time of all of them."""
        return self.count * self.each_ns

    @property
    def part_ns(self) -> float:
        """Time of the part of the pass that an exchange belongs to."""
        return (self.end_ns - self.begin_ns) / self.count


def last_reduced_ns(every: Iterable[Buckets]) -> float:
    """Return when the last exchange ends, where each begins behind its part of the pass and the exchange before it.

    Of equal exchanges one after the other either the first decides when the last one ends, or the last one itself.
    """
    end_ns = 0.0
    for buckets in every:
        end_ns = max(end_ns, buckets.begin_ns + buckets.part_ns) + buckets.total_ns
        end_ns = max(end_ns, buckets.end_ns + buckets.each_ns)
    return end_ns


def longest_wait_ns(every: Iterable[Buckets]) -> float:
    """Return how long a pass waits at most, where exchanges run from time 0 on and each part needs its own to be done.

    Of equal exchanges the first or the last one is waited for longest.
    """
    done_ns = wait_ns = 0.0
    for buckets in every:
        wait_ns = max(wait_ns, done_ns + buckets.each_ns - buckets.begin_ns)
        done_ns += buckets.total_ns
        wait_ns = max(wait_ns, done_ns - (buckets.end_ns - buckets.part_ns))
    return wait_ns


def _in_buckets(
    training: Training,
    topology: Topology,
    parameters: Parameters,
    collective: Collective,
    item_bytes: int,
) -> Iterator[tuple[int, float]]:
    """Return numbers of equal buckets, and the time of the collective of one."""
    for group, count in shares(training, parameters):
        if group.size > 1:
            bucket = max(_BUCKET, _BUCKET_OF_DEVICE * group.size)
            buckets = math.ceil(count / bucket)
            size = round(item_bytes * count / buckets)
            yield buckets, collective_ns(topology.axis(group, collective), collective, size)


def _gathers(training: Training, topology: Topology, parameters: Parameters) -> Iterator[tuple[int, float]]:
    """Return what is gathered of a stage once a step: what the optimizer changed, each device a part."""
    degrees = training.degrees
    every_pass = degrees.sharding is Sharding.PARAMETERS and degrees.pipeline == 1
    if degrees.sharding is Sharding.NOTHING or every_pass:
        return iter(())
    item_bytes = SINGLE if training.precision == "fp32" else training.software.gathered_bytes
    return _in_buckets(training, topology, parameters, Collective.ALL_GATHER, item_bytes)


def _reductions(training: Training, topology: Topology, parameters: Parameters) -> Iterator[tuple[int, float]]:
    """Return what is reduced of a stage once a step."""
    degrees = training.degrees
    if degrees.sharding in (Sharding.GRADIENTS, Sharding.PARAMETERS) and degrees.pipeline == 1:
        return iter(())
    collective = Collective.ALL_REDUCE if degrees.sharding is Sharding.NOTHING else Collective.REDUCE_SCATTER
    return _in_buckets(training, topology, parameters, collective, training.software.reduced_bytes)


def _tie_ns(training: Training, topology: Topology) -> float:
    """Return the time in which the first and the last stage add up the gradients of the embedding's table."""
    degrees = training.degrees
    stride = (degrees.pipeline - 1) * degrees.pipeline_stride
    table = training.model.hidden * padded_vocabulary(training) / degrees.tensor
    axis = topology.axis(Group(size=2, stride=stride), Collective.ALL_REDUCE)
    return collective_ns(axis, Collective.ALL_REDUCE, round(training.software.reduced_bytes * table))


def _optimizer_ns(training: Training, topology: Topology, windows: Sequence[_Window]) -> float:
    """Return the time of the optimizer: its traffic for what it has of the parameters, and gradients set to zero."""
    is_whole = training.degrees.sharding is Sharding.NOTHING
    traffic = 0.0
    for window in windows:
        for group, count in shares(training, window.parameters):
            traffic += optimizer_bytes() * count / (1 if is_whole else group.size)
            traffic += training.software.gradient_bytes * count
    return topology.accelerator.time_ns(flops=0, moved_bytes=traffic, calls=_OPTIMIZER_CALLS)


def norm_ns(training: Training, topology: Topology) -> float:
    """Return the time in which all devices add up the norm of the gradients."""
    group = Group(size=training.degrees.devices)
    return collective_ns(topology.axis(group, Collective.ALL_REDUCE), Collective.ALL_REDUCE, SINGLE)
