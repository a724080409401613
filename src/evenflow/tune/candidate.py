"""A configuration on the way to its place in the ranking: its bound, its problem, and the best step known of it."""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from evenflow.model import NONE, Communication, Plan, Request
from evenflow.model.cell_rule import SELECT_OR_COMM, CellRule
from evenflow.predict.activations import loss_waits
from evenflow.predict.hidden_exchanges import without_own_overlap
from evenflow.predict.prediction import PartTime, Prediction, predict_plan
from evenflow.predict.step.messages import message_times
from evenflow.predict.step_network import PassesKnown, PricedNetwork, priced_network
from evenflow.predict.training import Training
from evenflow.schedule import family_placement
from evenflow.solve.for_target import decided_layers
from evenflow.solve.outcome import Status
from evenflow.solve.problem import Problem, problem_of_order
from evenflow.tune.axes import schedule_of
from evenflow.tune.binding import Limited, limited
from evenflow.tune.orders import Orders
from evenflow.tune.question import TuningQuestion


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedStep:
    """The step of a configuration under a plan that fits, in numbers: thousands of them are kept."""

    plan: Plan
    """Layers, recomputation and order of the best plan known."""
    step_ns: float
    parts: tuple[PartTime, ...]
    """What the step's time is spent on."""
    rank_bytes: tuple[int, ...]
    """What every pipeline rank holds at its fullest moment."""


@dataclass(kw_only=True, eq=False)
class Candidate:
    """A configuration with its lower bound and the best plan known."""

    training: Training
    pricing: "Pricing" = field(repr=False)
    lower_bound_ns: float = 0.0
    """Of its step, whatever its cut and its recomputation, in any of the group sizes that are tried."""
    found: PlannedStep | None = None
    """The shortest step known that fits; None before one is found."""
    status: Status | None = None
    """Of its inner problem; None while nothing is known."""

    @property
    def step_ns(self) -> float:
        """The shortest step known; infinite without one."""
        return float("inf") if self.found is None else self.found.step_ns

    @property
    def plan(self) -> Plan | None:
        """Layers, recomputation and order of the best plan known."""
        return None if self.found is None else self.found.plan

    @cached_property
    def prediction(self) -> Prediction | None:
        """The whole prediction of that step, simulated anew: for configurations that are shown."""
        return None if self.plan is None else self.pricing.predicted(self.training, self.plan)

    @property
    def limited(self) -> Limited | None:
        """What limits the shortest step known."""
        if self.found is None:
            return None
        limit_bytes = self.pricing.question.memory_limit_bytes
        return limited(self.found.parts, self.found.rank_bytes, limit_bytes=limit_bytes)

    @property
    def split(self) -> Hashable:
        """What one row of the ranking stands for: degrees and microbatch, whatever schedule, chunks and ZeRO."""
        degrees = self.training.degrees
        return (
            degrees.tensor, degrees.context, degrees.expert, degrees.expert_tensor, degrees.pipeline, degrees.data,
            self.training.microbatch,
        )  # fmt: skip


@dataclass(kw_only=True)
class Pricing:
    """Prices the layers of configurations on the devices, each kind of layer once.

    Chunks and the order of work change nothing of them, but where losses wait for their backwards.
    """

    question: TuningQuestion
    orders: Orders = field(default_factory=Orders)
    _known: dict[Training, PricedNetwork] = field(default_factory=dict)
    _passes: PassesKnown = field(default_factory=dict)

    def of(self, training: Training) -> PricedNetwork:
        """Return the layers of a configuration."""
        schedule = training.schedule if loss_waits(training) else None
        key = replace(
            without_own_overlap(training), schedule=schedule, layout=(), degrees=replace(training.degrees, chunks=1)
        )
        network = self._known.get(key)
        if network is None:
            network = self._known[key] = priced_network(key, self.question.topology, known=self._passes)
        return network

    def request(self, training: Training, *, transfer_ns: int = 0) -> Request:
        """Return the inner problem: cut the layers and recompute, so that every rank fits."""
        question, sizes = self.question, training.sizes
        network = self.of(training).network
        abilities = question.abilities
        return Request(
            network=network,
            sizes=sizes,
            memory_limit_bytes=question.usable_bytes,
            cell_rule=self.cell_rule,
            allow_empty=not question.min_layers_of(schedule_of(training)),
            group_size=training.group_size,
            communication=Communication(transfer_ns=transfer_ns) if transfer_ns else None,
            layers=(
                None if abilities is None else decided_layers(abilities, network.num_layers, sizes, place="layers")
            ),
        )

    @cached_property
    def cell_rule(self) -> CellRule:
        """The recompute kinds that the layers of a cell may have together."""
        kind = self.question.recompute
        return SELECT_OR_COMM if kind is None else CellRule(kinds=tuple(dict.fromkeys((kind, NONE))))

    def message_ns(self, training: Training) -> int:
        """Return the time of the shortest message between two ranks."""
        degrees = training.degrees
        ranks = family_placement(schedule_of(training), num_ranks=degrees.pipeline, num_chunks=degrees.chunks)
        times = message_times(training, self.question.topology, ranks)
        between = times[times > 0]
        return int(np.min(between)) if between.size and training.overlaps_pipeline else 0

    def problem(self, request: Request, training: Training) -> Problem:
        """Return the inner problem as the solver reads it; raises InputError where it has no order of work."""
        order = self.orders.of(schedule_of(training), request.sizes, request.group_size)
        return problem_of_order(request, order.schedule, graph=order.graph, live=order.live)

    def predicted(self, training: Training, plan: Plan) -> Prediction:
        """Return the step of a configuration under a plan."""
        graph = None if plan.order else self.orders.of(plan.schedule, plan.sizes, plan.group_size).graph
        return predict_plan(training, self.question.topology, self.of(training), plan, graph=graph)

    def planned_step(self, training: Training, plan: Plan) -> PlannedStep | None:
        """Return the step of a configuration under a plan; None where a rank is too likely to exceed its memory."""
        prediction = self.predicted(training, plan)
        rank_bytes = tuple(rank.total_bytes for rank in prediction.memory)
        if not self.question.fits(rank_bytes):
            return None
        return PlannedStep(plan=plan, step_ns=prediction.step_ns, parts=prediction.parts, rank_bytes=rank_bytes)
