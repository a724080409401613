"""The messages of the pipeline, and the simulation of a step with them."""

from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from itertools import pairwise

import numpy as np

from evenflow.cluster import Collective
from evenflow.cluster.collectives import collective_ns
from evenflow.cluster.topology import DeviceGroup, Topology
from evenflow.model import Communication, Plan, check_step
from evenflow.predict.layer_work import message_bytes
from evenflow.predict.step_network import PricedNetwork
from evenflow.predict.training import Training
from evenflow.schedule import NUM_OPS, Op, schedule_of
from evenflow.simulate import Graph, Integers, Simulation, build_graph, run, stage_costs


def simulated(
    training: Training, topology: Topology, priced: PricedNetwork, plan: Plan, *, graph: Graph | None = None
) -> tuple[Simulation, Integers]:
    """Return the simulation of a step, and the time of messages that ranks spend with each stage.

    Where messages run under computation, only who waits for one is late. Where they do not, sender and receiver are
    both held up; an action then ends when its result has arrived, which is what the receiver would wait for as well,
    and as both directions go at once the receiver's own message covers it, unless they go in turn. Times are those of
    one forward and of one backward, shape [2, num_stages]; 0 where messages run under computation.
    """
    graph = build_graph(schedule_of(plan)) if graph is None else graph
    schedule = graph.schedule
    costs = stage_costs(priced.network, plan, schedule)
    times = message_times(training, topology, schedule.stage_ranks, sent_bytes=costs.sent_bytes)
    longest = Communication(transfer_ns=int(times.max()))
    check_step(priced.network, plan.sizes, longest)
    if training.overlaps_pipeline:
        timeline = run(graph, costs.durations, _by_receiver(times))
        sent = np.zeros_like(times)
    else:
        sent = 2 * times if training.software.messages_in_turn else times
        costs = replace(costs, forward_ns=costs.forward_ns + sent[0], backward_ns=costs.backward_ns + sent[1])
        timeline = run(graph, costs.durations)
    communication = longest if times.any() else None
    network = priced.network
    simulation = Simulation(network=network, plan=plan, communication=communication, costs=costs, timeline=timeline)
    return simulation, sent


def planned_messages(training: Training, topology: Topology, stage_ranks: Sequence[int]) -> Communication:
    """Return the cost of the longest message, for messages of every size; devices of a tensor group count as one."""
    size = message_bytes(training)
    longest, twice = (
        int(message_times(training, topology, stage_ranks, sent_bytes=[times * size] * len(stage_ranks)).max())
        for times in (1, 2)
    )
    transfer = max(1, twice - longest)
    rate = max(1, round(size * 10**9 / transfer))
    transfer = -(-size * 10**9 // rate)  # as from size and rate
    return Communication(latency_ns=max(0, longest - transfer), transfer_ns=transfer, bytes_per_s=rate)


def message_times(
    training: Training,
    topology: Topology,
    stage_ranks: Sequence[int],
    *,
    sent_bytes: Sequence[int] | Integers | None = None,
) -> Integers:
    """Return the nanoseconds of what each stage sends on, forward and backward, shape [2, num_stages].

    `sent_bytes` are the sizes of what each stage sends on, -1 or None for those of `message_bytes`.
    The devices of a tensor-parallel group send a part each. Without sequence parallelism all of them need all of it:
    they gather it when it has arrived [Narayanan et al., arXiv:2104.04473, section 4.1], or each sends all of it.
    """
    degrees = training.degrees
    is_split = degrees.sequence_parallel or training.software.splits_messages
    is_gathered = degrees.tensor > 1 and is_split and not degrees.sequence_parallel
    axis = topology.axis(DeviceGroup(size=degrees.tensor), Collective.ALL_GATHER) if is_gathered else None
    devices = degrees.pipeline_stride

    @cache
    def between(first: int, second: int, whole: int) -> int:
        if first == second:
            return 0
        size = whole / degrees.tensor if is_split else whole
        sent = topology.message_ns(size, sender=first * devices, receiver=second * devices, count=devices)
        return round(sent) + (0 if axis is None else collective_ns(axis, Collective.ALL_GATHER, whole))

    usual = message_bytes(training)
    sizes = [usual] * len(stage_ranks) if sent_bytes is None else [usual if size < 0 else size for size in sent_bytes]
    onward = [
        between(min(pair), max(pair), int(size))
        for pair, size in zip(pairwise(map(int, stage_ranks)), sizes, strict=False)  # the last stage sends nothing
    ]
    return np.array([[*onward, 0], [0, *onward]], dtype=np.int64)


def _by_receiver(times: Integers) -> Integers:
    """Return the messages by class of the action that waits for them, shape [NUM_OPS * num_stages]."""
    num_stages = times.shape[1]
    table = np.zeros((num_stages, NUM_OPS), dtype=np.int64)
    table[1:, Op.F] = times[0, :-1]
    table[:-1, Op.B] = table[:-1, Op.I] = times[1, 1:]
    return table.reshape(-1)
