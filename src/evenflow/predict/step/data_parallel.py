"""What the copies of a stage exchange once a step, under the pipeline or after it, and the optimizer.

A rank's exchanges go one after the other. Gradients of a stage are ready, bucket by bucket, during its last backward,
so with several chunks those of the last chunk are reduced while the others still compute; the last bucket is never
hidden. Parameters that the optimizer has changed are gathered in the order of the first forwards; where one is not
there in time, the step begins later by as much.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from evenflow.cluster import Collective
from evenflow.cluster.collectives import collective_ns
from evenflow.cluster.topology import DeviceGroup, Topology
from evenflow.predict.parameters import Parameters, padded_vocabulary, shared_parameters, shares
from evenflow.predict.passes import SINGLE
from evenflow.predict.pricing import slowed_by_ns
from evenflow.predict.state import updated_by_host
from evenflow.predict.step.buckets import (
    Buckets,
    gather_of,
    in_buckets,
    in_full_buckets_ns,
    last_reduced_ns,
    least_bucket_ns,
    longest_wait_ns,
    reduction_of,
)
from evenflow.predict.step.optimizer import clipped_bytes, optimizer_bytes
from evenflow.predict.step.stage_sums import StageSum
from evenflow.predict.training import Sharding, Training
from evenflow.schedule import Op, Schedule
from evenflow.simulate import Integers, Timeline

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
    shared = shared_parameters(training)
    summed_ns = _shared_ns(training, topology, shared)
    exchanges = []
    for rank in range(schedule.num_ranks):
        windows = []
        for stage in schedule.stage_table[:, rank].tolist():
            begin, end = float(forward_starts[stage]), float(backward_ends[stage])
            forward_ns, backward_ns = float(durations[stage, Op.F]), float(durations[stage, Op.B])
            windows.append(_Window((begin, begin + forward_ns), (end - backward_ns, end), stages[stage].parameters))
        if shared != Parameters():  # whole once all of its uses have gone backward
            first, last = (
                min(window.first_forward for window in windows),
                max(window.last_backward for window in windows),
            )
            windows.append(_Window(first, last, shared))
        rank_end = max(window.last_backward[1] for window in windows)
        busy = float(timeline.busy_ns[rank]) / rank_end if rank_end else 0.0
        tied_ns = summed_ns + (_tie_ns(training, topology) if _ties(training, schedule, rank) else 0.0)
        exchanges.append(_of_rank(training, topology, windows, busy_share=busy, tied_ns=tied_ns))
    return exchanges


def after_one_stage_ns(
    training: Training, topology: Topology, parameters: Parameters, *, computed_ns: float, forward_ns: float
) -> float:
    """Return what a step without a pipeline spends beside its computation: on gradients, parameters and the optimizer.

    All microbatches take as long, `computed_ns` together. More recomputation hides more of the exchanges, but never as
    much as it adds to the step.
    """
    backward_ns = computed_ns / training.microbatches - forward_ns
    window = _Window((0.0, forward_ns), (computed_ns - backward_ns, computed_ns), parameters)
    exchange = _of_rank(training, topology, [window], busy_share=1.0, tied_ns=0.0)
    return exchange.wait_ns + exchange.end_ns(exchange.wait_ns) - computed_ns + exchange.optimizer_ns


def after_rank_ns(training: Training, topology: Topology, parameters: Parameters) -> float:
    """Return a lower bound on a rank's work for these parameters after its last backward; it adds up over parts.

    The optimizer, as fast as memory is, or the host where it updates anything; and where gradients are reduced behind
    the pipeline, that in full buckets.
    """
    moved_bytes = _clipping_traffic(training, parameters)
    moved_bytes += 0 if training.degrees.optimizer_offload else _update_traffic(training, parameters)
    nanoseconds = topology.accelerator.time_ns(flops=0, moved_bytes=moved_bytes, calls=0)
    nanoseconds += _host_ns(training, parameters)
    if not training.software.overlaps_gradients:
        nanoseconds += in_full_buckets_ns(training, topology, parameters, reduction_of(training))
    return nanoseconds


def last_reduction_ns(training: Training, topology: Topology, parameters: Parameters) -> float:
    """Return a lower bound on a stage's last gradient bucket, of these parameters or more: nothing hides it."""
    if not training.software.overlaps_gradients:
        return 0.0  # `after_rank_ns` has all of them
    return least_bucket_ns(training, topology, parameters, reduction_of(training))


def least_wait_ns(training: Training, topology: Topology, *, first: Parameters, mean: Parameters) -> float:
    """Return a lower bound on how long a step waits for updated parameters.

    Its first stage has the parameters `first` or more, and a rank `mean` on average: where all of them are gathered
    before the step begins, some rank gathers as many.
    """
    gather = gather_of(training)
    if training.software.overlaps_parameters:
        return least_bucket_ns(training, topology, first, gather)
    return in_full_buckets_ns(training, topology, mean, gather)


def _ties(training: Training, schedule: Schedule, rank: int) -> bool:
    """Whether a rank holds one of two copies of the embedding's table."""
    ranks = schedule.stage_ranks
    return training.model.tied and ranks[0] != ranks[-1] and rank in (ranks[0], ranks[-1])


def _of_rank(
    training: Training, topology: Topology, windows: Sequence[_Window], *, busy_share: float, tied_ns: float
) -> RankExchanges:
    software = training.software
    rank_end = max(window.last_backward[1] for window in windows)
    gathers = [
        Buckets(*window.first_forward, count, each_ns)
        for window in sorted(windows, key=lambda window: window.first_forward)
        for count, each_ns in in_buckets(training, topology, window.parameters, gather_of(training))
    ]
    gathered = sum(buckets.total_ns for buckets in gathers)
    wait = longest_wait_ns(gathers) if software.overlaps_parameters else gathered
    reductions = [
        Buckets(*window.last_backward, count, each_ns)
        for window in sorted(windows, key=lambda window: window.last_backward[1])
        for count, each_ns in in_buckets(training, topology, window.parameters, reduction_of(training))
    ]
    reduced = sum(buckets.total_ns for buckets in reductions)
    finish = max(rank_end, last_reduced_ns(reductions)) if software.overlaps_gradients else rank_end + reduced
    hidden = max(0.0, reduced - (finish - rank_end))
    return RankExchanges(
        wait_ns=wait,
        gathered_ns=gathered,
        reduced_ns=finish + tied_ns,
        hidden_ns=hidden,
        busy_share=busy_share,
        optimizer_ns=_optimizer_ns(training, topology, windows),
    )


def _tie_ns(training: Training, topology: Topology) -> float:
    """Return the time in which the first and the last stage add up the gradients of the embedding's table."""
    degrees = training.degrees
    stride = (degrees.pipeline - 1) * degrees.pipeline_stride
    table = training.model.hidden * padded_vocabulary(training) / degrees.tensor
    axis = topology.axis(DeviceGroup(size=2, stride=stride), Collective.ALL_REDUCE)
    return collective_ns(axis, Collective.ALL_REDUCE, round(training.software.reduced_bytes * table))


def _shared_ns(training: Training, topology: Topology, shared: Parameters) -> float:
    """Return the time in which all ranks add up the gradients of blocks that layers share."""
    degrees = training.degrees
    if degrees.pipeline == 1 or not shared.dense:
        return 0.0
    axis = topology.axis(DeviceGroup(size=degrees.pipeline, stride=degrees.pipeline_stride), Collective.ALL_REDUCE)
    return collective_ns(axis, Collective.ALL_REDUCE, round(training.software.reduced_bytes * shared.dense))


def _optimizer_ns(training: Training, topology: Topology, windows: Sequence[_Window]) -> float:
    """Return the time of the optimizer, which memory traffic limits, with gradients set to zero.

    The host updates what it keeps beside the device, after gradients are clipped.
    """
    device = topology.accelerator
    parameters = sum((window.parameters for window in windows), Parameters())
    clipping, update = _clipping_traffic(training, parameters), _update_traffic(training, parameters)
    whole_ns = device.time_ns(flops=0, moved_bytes=clipping + update, calls=_OPTIMIZER_CALLS)
    if not training.degrees.optimizer_offload:
        return whole_ns
    clipped_ns = device.time_ns(flops=0, moved_bytes=clipping, calls=0)
    return max(whole_ns, clipped_ns + _host_ns(training, parameters))


def _clipping_traffic(training: Training, parameters: Parameters) -> float:
    """Return the bytes read and written for a rank's gradients: their norm, clipping, and setting them to zero."""
    return sum(
        (clipped_bytes() / size + training.software.gradient_bytes) * count
        for size, count in _owners(training, parameters)
    )


def _update_traffic(training: Training, parameters: Parameters) -> float:
    """Return the bytes that a device's optimizer reads and writes for what it updates itself."""
    here = 1 - training.degrees.optimizer_offload
    own = sum(count / size for size, count in _owners(training, parameters))
    return here * (optimizer_bytes() - clipped_bytes()) * own


def _owners(training: Training, parameters: Parameters) -> Iterator[tuple[int, float]]:
    """Yield how many devices share out the state of parameters, and how many of them a device holds."""
    is_whole = training.degrees.sharding is Sharding.NOTHING
    for group, count in shares(training, parameters):
        yield 1 if is_whole else group.size, count


def _host_ns(training: Training, parameters: Parameters) -> float:
    """Return how long the host updates the part of these parameters that it keeps; it adds up over parts."""
    host = training.host_update
    return 0.0 if host is None else host.ns(updated_by_host(training, parameters))


def norm_ns(training: Training, topology: Topology) -> float:
    """Return the time in which all devices add up the norm of the gradients."""
    group = DeviceGroup(size=training.degrees.devices)
    return collective_ns(topology.axis(group, Collective.ALL_REDUCE), Collective.ALL_REDUCE, SINGLE)
