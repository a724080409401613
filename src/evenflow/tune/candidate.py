"""A configuration on the way to its place in the ranking: its bound, its problem, and the best step known of it."""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from evenflow.model import FULL, NONE, SELECT, Communication, Plan, Request, Sizes
from evenflow.model.cell_rule import SELECT_OR_COMM, CellRule
from evenflow.predict.memory import limit_without_reserve
from evenflow.predict.prediction import Prediction, predict_plan
from evenflow.predict.step.messages import message_times
from evenflow.predict.step_network import PricedNetwork, priced_network
from evenflow.predict.training import Training
from evenflow.schedule import schedule_of as order_of
from evenflow.solve.outcome import Status
from evenflow.tune.axes import schedule_of
from evenflow.tune.question import Question


@dataclass(kw_only=True, eq=False)
class Candidate:
    """One configuration."""

    training: Training
    lower_bound_ns: float = 0.0
    """Of its step, whatever its cut, its recomputation and its order within the schedule."""
    prediction: Prediction | None = None
    """The shortest step known that fits; None before one is found."""
    status: Status | None = None
    """Of its inner problem; None while nothing is known."""

    @property
    def step_ns(self) -> float:
        """The shortest step known; infinite without one."""
        return float("inf") if self.prediction is None else self.prediction.step_ns

    @property
    def plan(self) -> Plan | None:
        """Its layers, recomputation and order."""
        return None if self.prediction is None else self.prediction.simulation.plan

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
    """The layers of configurations on the devices, each priced once: chunks and schedule change nothing of them."""

    question: Question
    _known: dict[Training, PricedNetwork] = field(default_factory=dict)

    def of(self, training: Training) -> PricedNetwork:
        """Return the layers of a configuration."""
        key = replace(training, schedule=None, layout=(), degrees=replace(training.degrees, chunks=1))
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = priced_network(training, self.question.topology)
        return found

    def request(self, training: Training, *, transfer_ns: int = 0) -> Request:
        """Return the inner problem: cut the layers and recompute, so that every rank fits."""
        question, degrees = self.question, training.degrees
        network = self.of(training).network
        reached = question.topology.accelerator.reached
        return Request(
            network=network,
            sizes=Sizes(
                num_ranks=degrees.pipeline, num_chunks=degrees.chunks, num_microbatches=training.microbatches
            ),
            memory_limit_bytes=limit_without_reserve(question.memory_limit_bytes, reached),
            cell_rule=self.cell_rule,
            group_size=training.group_size,
            communication=Communication(transfer_ns=transfer_ns) if transfer_ns else None,
        )  # fmt: skip

    @cached_property
    def cell_rule(self) -> CellRule:
        """What the layers of a cell may be under."""
        kind = self.question.recompute
        return SELECT_OR_COMM if kind is None else CellRule(kinds=tuple(dict.fromkeys((kind, NONE))))

    @property
    def allowed_kinds(self) -> tuple[tuple[str, ...], ...]:
        """Return the sets of kinds that a cell may have."""
        rule = self.cell_rule
        return (rule.kinds,) if rule.kinds else ((NONE, SELECT, FULL),)

    def message_ns(self, training: Training) -> int:
        """Return the time of the shortest message between two ranks."""
        plan = Plan(
            schedule=schedule_of(training), num_microbatches=training.microbatches, layers=training.layout, recompute={}
        )
        times = message_times(training, self.question.topology, order_of(plan))
        between = times[times > 0]
        return int(np.min(between)) if between.size and training.software.overlaps_pipeline else 0

    def predicted(self, training: Training, plan: Plan) -> Prediction:
        """Return the step of a configuration under a plan."""
        return predict_plan(training, self.question.topology, self.of(training), plan)

    def fits(self, prediction: Prediction) -> bool:
        """Return whether every rank of a prediction stays within the limit."""
        return max(rank.total_bytes for rank in prediction.memory) <= self.question.memory_limit_bytes
