"""The step of a training: its pipeline by the simulator, then gradients, optimizer and what else a step takes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from evenflow.cluster.topology import Topology
from evenflow.model import Network, Plan
from evenflow.predict.expected_error import ErrorRange, expected_error
from evenflow.predict.host_update import HOST_BYTES
from evenflow.predict.memory import RankMemory, rank_memory
from evenflow.predict.model_flops import model_flops
from evenflow.predict.parameters import Parameters
from evenflow.predict.pricing import Spending
from evenflow.predict.state import updated_by_host
from evenflow.predict.step.cells import plan_of
from evenflow.predict.step.data_parallel import RankExchanges, norm_ns, rank_exchanges
from evenflow.predict.step.messages import simulated
from evenflow.predict.step.stage_sums import StageSum, stage_sums
from evenflow.predict.step_network import PricedNetwork, priced_network
from evenflow.predict.training import FORMATS, Training
from evenflow.predict.work import Spent
from evenflow.schedule import NUM_OPS
from evenflow.simulate import Graph, Simulation, run

BUBBLE, OPTIMIZER, STEP = "bubble", "optimizer", "step constant"
"""Names of parts that are no operator and no exchange."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartTime:
    """Time that a step spends on one thing."""

    name: str
    """Of `Spent`, or `BUBBLE`, `OPTIMIZER` and `STEP`."""
    exposed_ns: float
    """On the device's time."""
    hidden_ns: float = 0.0
    """Under other work."""
    recomputed_ns: float = 0.0
    """What of the exposed time is done again in the backward."""


@dataclass(frozen=True, kw_only=True)
class Prediction:
    """What a step takes."""

    training: Training
    topology: Topology
    priced: PricedNetwork
    simulation: Simulation
    step_ns: float
    parts: tuple[PartTime, ...]
    """What the step's time is spent on, on the rank that waits least: exposed times add up to `step_ns`."""
    idle_ns: tuple[float, ...]
    """How long every rank waits, within the pipeline and at its end."""

    @cached_property
    def memory(self) -> tuple[RankMemory, ...]:
        """The memory of every pipeline rank."""
        return rank_memory(self.training, self.simulation, self.topology.accelerator.reached)

    @cached_property
    def host_bytes(self) -> tuple[int, ...]:
        """What the host keeps of the optimizer's state and gradients for a device of every rank."""
        table = self.simulation.timeline.schedule.stage_table
        stages = stage_sums(self.priced, self.simulation.plan, table)
        parameters = [sum((stages[stage].parameters for stage in own), Parameters()) for own in table.T.tolist()]
        return tuple(round(HOST_BYTES * updated_by_host(self.training, of_rank)) for of_rank in parameters)

    @property
    def busiest_rank(self) -> int:
        """The rank that waits least, which determines the step; the last of several."""
        return _last_least(self.idle_ns)

    @property
    def network(self) -> Network:
        """The layers of one device, which `evenflow.plan` takes."""
        return self.priced.network

    @property
    def expected_error(self) -> ErrorRange:
        """How far published runs of this kind were from their predictions."""
        return expected_error(self.training, self.topology)

    @property
    def interval_ns(self) -> tuple[float, float]:
        """Where four of five measured steps of this kind would be."""
        error = self.expected_error
        return max(0.0, self.step_ns * (1 + error.low)), self.step_ns * (1 + error.high)

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
    return predict_plan(training, topology, priced, plan_of(training, priced.network))


def predict_plan(
    training: Training, topology: Topology, priced: PricedNetwork, plan: Plan, *, graph: Graph | None = None
) -> Prediction:
    """Return the prediction of `training` under a plan of its own layers, recomputation and order.

    `priced` are its layers on `topology`; the layout, recomputation and schedule of `training` do not count. `graph` is
    that of the plan's order, where the caller has it.
    """
    simulation, sent = simulated(training, topology, priced, plan, graph=graph)
    schedule = simulation.timeline.schedule
    stages = stage_sums(priced, plan, schedule.stage_table)
    durations = simulation.costs.durations[: NUM_OPS * schedule.num_stages].reshape(-1, NUM_OPS)
    exchanges = rank_exchanges(training, topology, simulation.timeline, stages, durations)
    wait_ns = max(exchange.wait_ns for exchange in exchanges)
    ends = [exchange.end_ns(wait_ns) + exchange.optimizer_ns for exchange in exchanges]
    timeline_ends = simulation.timeline.rank_ends_ns
    idle_ns = tuple(
        float(max(ends) - end + timeline_end - busy)
        for end, timeline_end, busy in zip(ends, timeline_ends, simulation.timeline.busy_ns, strict=True)
    )
    rank = _last_least(idle_ns)
    of_rank = schedule.stage_table[:, rank].tolist()
    parts = _parts(
        training, topology, simulation, rank, [stages[stage] for stage in of_rank], exchanges[rank],
        sent_ns=int(sent[:, of_rank].sum()) * schedule.num_units, wait_ns=wait_ns, idle_ns=idle_ns[rank],
    )  # fmt: skip
    return Prediction(
        training=training, topology=topology, priced=priced, simulation=simulation,
        step_ns=sum(part.exposed_ns for part in parts), parts=parts, idle_ns=idle_ns,
    )  # fmt: skip


def _last_least(values: Sequence[float]) -> int:
    """Return the index of the smallest value, the last of several."""
    return min(range(len(values)), key=lambda index: (values[index], -index))


def _parts(
    training: Training,
    topology: Topology,
    simulation: Simulation,
    rank: int,
    stages: Sequence[StageSum],
    exchanges: RankExchanges,
    *,
    sent_ns: int,
    wait_ns: float,
    idle_ns: float,
) -> tuple[PartTime, ...]:
    """Return what the time of a rank is spent on, from the start of the step to its end; it waits for `idle_ns`.

    What forwards save beside backwards is expert-parallel communication that is hidden, by the windows of the pairs.
    """
    timeline = simulation.timeline
    spending, again = Spending(), Spending()
    for stage in stages:
        spending.include(stage.passes, timeline.schedule.num_units)
        again.include(stage.recomputed, timeline.schedule.num_units)
    saved_ns = 0 if simulation.hidden_ns is None else int(simulation.hidden_ns[rank])
    busy_ns = int(timeline.busy_ns[rank]) + saved_ns - sent_ns
    # The simulator's times are whole nanoseconds: what rounding took is given back in proportion.
    scale = busy_ns / spending.total_ns if spending.total_ns else 1.0
    waited_ns = min(idle_ns, _waited_ns(simulation)) if not sent_ns else 0
    reached = topology.accelerator.reached
    norm = norm_ns(training, topology)
    after = exchanges.end_ns(wait_ns) - int(timeline.rank_ends_ns[rank])
    extra = {
        Spent.PIPELINE: (sent_ns + waited_ns, 0.0),
        Spent.DATA: (wait_ns + after + norm, exchanges.hidden_after(wait_ns)),
        Spent.EXPERT: (-saved_ns, saved_ns),
    }
    parts = []
    for spent in Spent:
        more, more_hidden = extra.get(spent, (0.0, 0.0))
        parts.append(
            PartTime(
                name=spent,
                exposed_ns=scale * spending.exposed.get(spent, 0.0) + more,
                hidden_ns=scale * spending.hidden.get(spent, 0.0) + more_hidden,
                recomputed_ns=scale * again.exposed.get(spent, 0.0),
            )
        )
    return (
        *parts,
        PartTime(name=BUBBLE, exposed_ns=idle_ns - waited_ns),
        PartTime(name=OPTIMIZER, exposed_ns=exchanges.optimizer_ns),
        PartTime(name=STEP, exposed_ns=reached.step_ns),
    )


def _waited_ns(simulation: Simulation) -> int:
    """Return how much sooner the pipeline would be done if its messages took no time."""
    timeline = simulation.timeline
    if simulation.communication is None:
        return 0
    return max(0, timeline.makespan_ns - run(timeline.graph, simulation.costs.durations).makespan_ns)
