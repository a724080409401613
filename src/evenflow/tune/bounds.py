"""Lower bounds on the step of a configuration, over all cuts, all recomputation and all group sizes of its schedule."""

from dataclasses import dataclass, field
from math import isinf

from evenflow.model import Sizes
from evenflow.predict.parameters import Parameters
from evenflow.predict.step.data_parallel import after_one_stage_ns, norm_ns
from evenflow.predict.step.messages import message_times
from evenflow.predict.training import Training
from evenflow.solve.load.layer_table import LayerTable
from evenflow.solve.load.load_bound import load_bound_ns, table_of
from evenflow.solve.load.order_facts import order_facts
from evenflow.tune.axes import schedule_of
from evenflow.tune.candidate import Pricing

_SAFE = 1 - 1e-9
"""Factor by which a bound is lowered for rounding in floating point."""


@dataclass(kw_only=True)
class Bounds:
    """Bounds of configurations; what configurations share is made once."""

    pricing: Pricing
    _tables: dict[tuple[int, bool, bool], LayerTable] = field(default_factory=dict)
    _hops: dict[int, float] = field(default_factory=dict)
    _parameters: dict[int, Parameters] = field(default_factory=dict)
    _shared: list[float] = field(default_factory=list)

    def work_ns(self, training: Training) -> float:
        """Return a lower bound on the step whatever chunks, schedule and ZeRO: the work of the split, dealt evenly.

        `training` must have the least ZeRO of these: a further one only adds exchanges.
        """
        network = self.pricing.of(training).network
        layers = sum(run.count * (run.layer.forward_ns + run.layer.backward_ns) for run in network.runs)
        ends = sum(end.forward_ns + end.backward_ns for end in (network.head, network.tail))
        pipeline = training.microbatches * (layers + ends) / training.degrees.pipeline
        return (pipeline + self.pricing.question.topology.accelerator.reached.step_ns) * _SAFE

    def step_ns(self, training: Training) -> float:
        """Return a lower bound on the step, in a fraction of a millisecond; infinite where nothing fits."""
        priced, degrees, schedule = self.pricing.of(training), training.degrees, schedule_of(training)
        sizes = Sizes(num_ranks=degrees.pipeline, num_chunks=degrees.chunks, num_microbatches=training.microbatches)
        facts = order_facts(schedule, sizes)
        # Configurations with the same layers have the same object, which `pricing` keeps.
        key = (id(priced), facts.splits_backward, degrees.chunks > 1)
        if key not in self._tables:
            self._tables[key] = table_of(self.pricing.request(training), schedule)
        message_ns, sent_ns = self._message_ns(training), 0.0
        if not training.overlaps_pipeline:
            message_ns *= 2 if training.software.messages_in_turn else 1
            sent_ns = message_ns
        pipeline_ns = load_bound_ns(self._tables[key], schedule, sizes, message_ns=message_ns, sent_ns=sent_ns)
        return self.whole_ns(training, pipeline_ns)

    def whole_ns(self, training: Training, pipeline_ns: float) -> float:
        """Return a lower bound on the step of a configuration from one on its pipeline."""
        topology = self.pricing.question.topology
        if not self._shared:
            # However the devices are used, the norm of the gradients is added up by all of them.
            self._shared.append(norm_ns(training, topology) + topology.accelerator.reached.step_ns)
        if training.degrees.pipeline > 1 or isinf(pipeline_ns):
            return pipeline_ns + self._shared[0]
        priced = self.pricing.of(training)
        network, key = priced.network, id(priced)
        if key not in self._parameters:
            parts = (*priced.layers, priced.head, priced.tail)
            self._parameters[key] = sum((part.parameters for part in parts), Parameters())
        forward_ns = sum(layer.forward_ns for layer in network.layers)
        forward_ns += network.head.forward_ns + network.tail.forward_ns
        if pipeline_ns <= forward_ns * training.microbatches:
            return pipeline_ns + self._shared[0]
        after_ns = after_one_stage_ns(
            training, topology, self._parameters[key], computed_ns=pipeline_ns, forward_ns=forward_ns
        )
        return (pipeline_ns + self._shared[0] + after_ns) * _SAFE

    def _message_ns(self, training: Training) -> float:
        """Return the time of the shortest message between neighbouring ranks."""
        ranks, key = training.degrees.pipeline, id(self.pricing.of(training))
        if key not in self._hops:
            times = message_times(training, self.pricing.question.topology, range(ranks))
            self._hops[key] = float(times[0, :-1].min()) if ranks > 1 else 0.0
        return self._hops[key]
