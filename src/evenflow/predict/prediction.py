"""The step of a training: its pipeline by the simulator, then gradients, optimizer and what else a step takes."""

from dataclasses import dataclass

from evenflow.baselines.even_plan import even_plan
from evenflow.cluster import Collective
from evenflow.cluster.collectives import collective_ns
from evenflow.cluster.topology import Topology
from evenflow.model import NONE, Communication, Plan, Sizes, cells, stage_table
from evenflow.predict.layer_work import HALF, tokens
from evenflow.predict.memory import RankMemory, rank_memory
from evenflow.predict.model_flops import model_flops
from evenflow.predict.parameters import Parameters, dense_group, expert_group
from evenflow.predict.pricing import SLOWED
from evenflow.predict.step_network import PricedNetwork, priced_network
from evenflow.predict.training import FORMATS, Sharding, Training
from evenflow.schedule import family_placement
from evenflow.simulate import Simulation, simulate

_OPTIMIZER_TRAFFIC = 30
"""Bytes that a step of Adam reads and writes for a parameter: three 32-bit numbers, the gradient, the weight."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTime:
    """Time that a step spends on one thing."""

    name: str
    exposed_ns: float
    """On the device's time."""
    hidden_ns: float = 0.0
    """Under other work."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """What a step takes."""

    training: Training
    topology: Topology
    priced: PricedNetwork
    simulation: Simulation
    step_ns: float
    parts: tuple[PartTime, ...]
    """What the step's time is spent on, on the rank that ends last: exposed times add up to `step_ns`."""
    memory: tuple[RankMemory, ...]
    """Of every pipeline rank."""

    @property
    def tokens_per_device_s(self) -> float:
        """Tokens per second and device."""
        training = self.training
        return training.global_batch * training.sequence / (self.step_ns / 1e9) / training.degrees.devices

    @property
    def model_flops_per_device_s(self) -> float:
        """Operations per second and device that the model needs, as `model_flops` counts them."""
        return model_flops(self.training) / (self.step_ns / 1e9) / self.training.degrees.devices

    @property
    def utilisation(self) -> float:
        """Model FLOP utilisation: the share of a device's peak that the model needs."""
        return self.model_flops_per_device_s / self.topology.accelerator.rate(FORMATS[self.training.precision])


def predict(training: Training, topology: Topology) -> Prediction:
    """Return the prediction."""
    priced = priced_network(training, topology)
    plan = plan_of(training, priced)
    simulation = simulate(priced.network, plan, communication=_messages(training, topology))
    ends = [_rank_end(training, topology, priced, simulation, rank) for rank in range(training.degrees.pipeline)]
    reached = topology.accelerator.reached
    slowest = max(ends, key=sum)
    return Prediction(
        training=training, topology=topology, priced=priced, simulation=simulation,
        step_ns=max(map(sum, ends)) + reached.step_ns,
        parts=(PartTime(name="data", exposed_ns=slowest[1]), PartTime(name="optimizer", exposed_ns=slowest[2])),
        memory=rank_memory(training, simulation, reserve_share=reached.reserve_share),
    )  # fmt: skip


def plan_of(training: Training, priced: PricedNetwork) -> Plan:
    """Return the plan of the cells: the given layout, or layers dealt evenly."""
    degrees = training.degrees
    schedule = training.schedule or ("interleaved" if degrees.chunks > 1 else "1f1b")
    sizes = Sizes(num_ranks=degrees.pipeline, num_chunks=degrees.chunks, num_microbatches=training.microbatches)
    if not training.layout:
        return even_plan(priced.network, sizes, schedule=schedule, recompute=training.recompute)
    layers = cells(training.layout)
    recompute = {} if training.recompute == NONE else {training.recompute: layers}
    return Plan(schedule=schedule, num_microbatches=training.microbatches, layers=layers, recompute=recompute)


def _messages(training: Training, topology: Topology) -> Communication | None:
    degrees = training.degrees
    if degrees.pipeline == 1:
        return None
    size = HALF * tokens(training) * training.model.hidden / degrees.tensor
    stride = degrees.tensor * degrees.context * degrees.data
    return Communication(latency_ns=0, transfer_ns=topology.message_ns(size, stride))


def _rank_end(
    training: Training, topology: Topology, priced: PricedNetwork, simulation: Simulation, rank: int
) -> tuple[float, float, float]:
    """Return the end of a rank's last backward, and what gradients and optimizer take after it."""
    parameters, backward_ns = _of_rank(training, priced, simulation, rank)
    software, sharding = training.software, training.degrees.sharding
    data = gathered = 0.0
    for count, group in (
        (parameters.dense, dense_group(training.degrees)), (parameters.expert, expert_group(training))
    ):  # fmt: skip
        if group.size == 1 or not count or sharding is Sharding.PARAMETERS:
            continue
        size = round(software.gradient_bytes * count)
        if sharding is Sharding.NOTHING:
            axis = topology.axis(group, Collective.ALL_REDUCE)
            data += collective_ns(axis, Collective.ALL_REDUCE, size)
        else:
            axis = topology.axis(group, Collective.REDUCE_SCATTER)
            data += collective_ns(axis, Collective.REDUCE_SCATTER, size)
            gathered += collective_ns(axis, Collective.ALL_GATHER, round(2 * count))
    exposed = 0.0
    for whole, overlaps, room in (
        (data, software.overlaps_gradients, backward_ns), (gathered, software.overlaps_parameters, backward_ns / 2)
    ):  # fmt: skip
        hidden = min(0.9 * whole, room) if overlaps else 0.0
        exposed += whole - hidden + hidden * (1 - 1 / SLOWED)
    shared = 1 if sharding is Sharding.NOTHING else 0
    traffic = 0.0
    for count, group in (
        (parameters.dense, dense_group(training.degrees)), (parameters.expert, expert_group(training))
    ):  # fmt: skip
        traffic += _OPTIMIZER_TRAFFIC * count / (1 if shared else group.size)
    device = topology.accelerator
    optimizer = device.time_ns(flops=0, moved_bytes=traffic, calls=10)
    return simulation.makespan_ns, exposed, optimizer


def _of_rank(training: Training, priced: PricedNetwork, simulation: Simulation, rank: int) -> tuple[Parameters, float]:
    """Return a rank's parameters, and the time of the backward of one microbatch through all of its chunks."""
    plan = simulation.plan
    placement = family_placement(plan.schedule, num_ranks=plan.num_ranks, num_chunks=plan.num_chunks)
    stages = stage_table(placement, num_ranks=plan.num_ranks)
    counts = {int(stages[c][r]): plan.layers[c][r] for c in range(plan.num_chunks) for r in range(plan.num_ranks)}
    starts, begin = {}, 0
    for stage in range(len(counts)):
        starts[stage] = begin
        begin += counts[stage]
    total, backward_ns = Parameters(), 0.0
    for chunk in range(plan.num_chunks):
        stage = int(stages[chunk][rank])
        for layer in priced.layers[starts[stage] : starts[stage] + counts[stage]]:
            total += layer.parameters
            kind = training.recompute if training.recompute in layer.backward else NONE
            backward_ns += layer.backward[kind].total_ns
        if stage == 0:
            total += priced.head.parameters
        if stage == len(counts) - 1:
            total += priced.tail.parameters
    return total, backward_ns
