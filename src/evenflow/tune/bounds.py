"""Lower bounds on the step of a configuration, over all cuts, all recomputation and the orders that it may have."""

from collections.abc import Hashable
from dataclasses import dataclass, field, replace
from functools import partial
from math import inf, isinf

from evenflow.model import NONE, CellRule, Network, Request
from evenflow.predict.parameters import Parameters, shared_parameters
from evenflow.predict.step.data_parallel import (
    after_one_stage_ns,
    after_rank_ns,
    last_reduction_ns,
    least_wait_ns,
    norm_ns,
)
from evenflow.predict.step.messages import message_times
from evenflow.predict.training import Training
from evenflow.schedule import FAMILIES
from evenflow.simulate import at_best_in_pairs
from evenflow.solve.bounds import (
    After,
    LayerTable,
    capacity_bound_ns,
    capacity_table,
    even_work_ns,
    lowered,
    order_facts,
    path_bound_ns,
)
from evenflow.solve.recompute_ways import RecomputeWay, most_layers
from evenflow.tune.axes import schedule_of
from evenflow.tune.candidate import Pricing
from evenflow.tune.variants import group_sizes_of, variants_of
from evenflow.tune.ways_bound import bound_of_ways_ns

_MOST_ACTIONS = 100_000
"""Actions up to which paths through an order are looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Beside:
    """Lower bounds on what a step takes beside its pipeline."""

    once_ns: float
    """Before it begins, and whichever rank ends last."""
    after: After
    """Behind the last backward of a rank."""


@dataclass(kw_only=True)
class StepBounds:
    """Lower bounds on the steps of configurations; what several of them share is computed once."""

    pricing: Pricing
    _tables: dict[tuple[int, bool, bool, bool, CellRule], LayerTable] = field(default_factory=dict)
    _any_rules: dict[tuple[str, tuple[str, ...]], CellRule] = field(default_factory=dict)
    _known_ways: dict[Hashable, tuple[RecomputeWay, ...]] = field(default_factory=dict)
    _in_pairs: dict[int, Network] = field(default_factory=dict)
    _hops: dict[int, float] = field(default_factory=dict)
    _parameters: dict[int, Parameters] = field(default_factory=dict)
    _besides: dict[int, _Beside] = field(default_factory=dict)
    _shared: list[float] = field(default_factory=list)

    def work_ns(self, training: Training) -> float:
        """Return a lower bound on the step whatever chunks, schedule and ZeRO: the work of the split, dealt evenly.

        `training` must have the least ZeRO of these: a further one only adds exchanges.
        """
        network = self.pricing.of(training).network
        if any(FAMILIES[name].has_pairs for name in self.pricing.question.schedules):
            network = self._at_best(training)
        pipeline_ns = even_work_ns(network, num_units=training.microbatches, num_ranks=training.degrees.pipeline)
        return lowered(pipeline_ns + self.pricing.question.topology.accelerator.reached.step_ns)

    def step_ns(self, training: Training, *, known_ns: float = 0.0, aim_ns: float = inf) -> float:
        """Return a lower bound on the step, in a fraction of a millisecond; infinite where nothing fits.

        It holds for every group size of the schedule, tried or not. `known_ns` is a bound already; above `aim_ns`
        nothing need be known but whether any plan fits.
        """
        return self._capacity_ns(training, self._table(training), known_ns=known_ns, aim_ns=aim_ns)

    def _capacity_ns(
        self, training: Training, table: LayerTable, *, known_ns: float = 0.0, aim_ns: float = inf
    ) -> float:
        """Return a lower bound on the step from what ranks can hold and do."""
        beside_ns = self.whole_ns(training, 0.0) if training.degrees.pipeline > 1 else inf
        message_ns, sent_ns = self._message_ns(training), 0.0
        if not training.overlaps_pipeline:
            message_ns = sent_ns = message_ns * self._ways_of_messages(training)
        pipeline_ns = capacity_bound_ns(
            table,
            schedule_of(training),
            training.sizes,
            min_layers=self.pricing.question.min_layers_of(schedule_of(training)),
            message_ns=message_ns,
            sent_ns=sent_ns,
            known_ns=max(known_ns - beside_ns, 0.0),
            aim_ns=aim_ns - beside_ns if beside_ns < inf else inf,
        )
        return self.whole_ns(training, pipeline_ns)

    def order_ns(self, training: Training, *, known_ns: float = 0.0, aim_ns: float = inf) -> float:
        """Return a lower bound on the step that also knows its orders of work and ways to recompute, in milliseconds.

        It holds for the group sizes that are tried. It is not below `step_ns`, and need not be above `aim_ns`; of
        orders with very many microbatches, in which little is idle, paths are left out.
        """
        known_ns = max(known_ns, self.step_ns(training, known_ns=known_ns, aim_ns=aim_ns))
        if known_ns < aim_ns:
            known_ns = max(known_ns, self._paths_ns(training, self._table(training)))
        if known_ns >= aim_ns:
            return known_ns
        request = self.pricing.request(training)
        ways = self._ways(training, request)
        if len(ways) == 1 and ways[0].rule == request.cell_rule:
            return known_ns
        rule_ns = partial(self._rule_ns, training, known_ns=known_ns, aim_ns=aim_ns)
        return bound_of_ways_ns(ways, rule_ns, known_ns=known_ns, aim_ns=aim_ns, most=most_layers(request))

    def _ways(self, training: Training, request: Request) -> tuple[RecomputeWay, ...]:
        """Return the ways to recompute."""
        key = schedule_of(training), request.sizes, request.network.kinds
        if key not in self._known_ways:
            self._known_ways[key] = variants_of(self.pricing, training, request).ways
        return self._known_ways[key]

    def _rule_ns(self, training: Training, rule: CellRule, *, known_ns: float = 0.0, aim_ns: float = inf) -> float:
        """Return a lower bound on the step where every cell keeps to a rule."""
        table = self._table(training, rule)
        bound_ns = self._capacity_ns(training, table, known_ns=known_ns, aim_ns=aim_ns)
        if bound_ns >= aim_ns:
            return bound_ns
        return max(bound_ns, self._paths_ns(training, table)) if table.extra.any() else bound_ns

    def _paths_ns(self, training: Training, table: LayerTable) -> float:
        """Return a lower bound on the step from paths through the orders of work; 0 where they are left out."""
        sizes = training.sizes
        if sizes.num_ranks == 1 or 2 * sizes.num_cells * sizes.num_microbatches > _MOST_ACTIONS:
            return 0.0
        schedule, topology = schedule_of(training), self.pricing.question.topology
        groups = group_sizes_of(self.pricing.question, training, self.pricing.request(training))
        paths_ns = []
        for group in groups:
            order = self.pricing.orders.of(schedule, sizes, group)
            # One action after the other, each as long as beside what hides most of it, nothing ends later.
            graph = order.graph_in_turn
            times = message_times(training, topology, graph.schedule.stage_ranks)
            paths_ns.append(
                path_bound_ns(
                    table,
                    graph,
                    min_layers=self.pricing.question.min_layers_of(schedule_of(training)),
                    messages_ns=times * self._ways_of_messages(training),
                    sends=not training.overlaps_pipeline,
                    after=self._beside(training).after,
                )
            )
        beside_ns = self._shared_ns(training) + self._beside(training).once_ns
        return lowered(min(paths_ns, default=inf) + beside_ns)

    def whole_ns(self, training: Training, pipeline_ns: float) -> float:
        """Return a lower bound on the step of a configuration from one on its pipeline."""
        question, shared_ns = self.pricing.question, self._shared_ns(training)
        if isinf(pipeline_ns):
            return pipeline_ns
        if training.degrees.pipeline > 1:
            beside = self._beside(training)
            least = training.degrees.chunks * question.min_layers_of(schedule_of(training))  # layers of a rank
            least_ns = least * beside.after.layer_ns
            return lowered(pipeline_ns + shared_ns + beside.once_ns + least_ns)
        priced = self.pricing.of(training)
        network, key = priced.network, id(priced)
        if key not in self._parameters:
            parts = (*priced.layers, priced.head, priced.tail)
            self._parameters[key] = sum((part.parameters for part in parts), shared_parameters(training))
        forward_ns = sum(layer.forward_ns for layer in network.layers)
        forward_ns += network.head.forward_ns + network.tail.forward_ns
        if pipeline_ns <= forward_ns * training.microbatches:
            return pipeline_ns + shared_ns
        after_ns = after_one_stage_ns(
            training, question.topology, self._parameters[key], computed_ns=pipeline_ns, forward_ns=forward_ns
        )
        return lowered(pipeline_ns + shared_ns + after_ns)

    def _shared_ns(self, training: Training) -> float:
        """Return what every step takes once, however it is split: summing the gradient norm over all devices."""
        if not self._shared:
            topology = self.pricing.question.topology
            self._shared.append(norm_ns(training, topology) + topology.accelerator.reached.step_ns)
        return self._shared[0]

    def _beside(self, training: Training) -> _Beside:
        """Return lower bounds on what comes before and after a pipeline of several ranks."""
        priced, topology = self.pricing.of(training), self.pricing.question.topology
        key = id(priced)
        if key not in self._besides:
            parts = [part.parameters for part in priced.layers]
            layer = Parameters(min(part.dense for part in parts), min(part.expert for part in parts))
            least = layer if self.pricing.question.min_layers else Parameters()
            head, tail = priced.head.parameters, priced.tail.parameters
            whole, ranks = sum((*parts, tail), head), training.degrees.pipeline
            mean = Parameters(whole.dense / ranks, whole.expert / ranks)
            wait_ns = least_wait_ns(training, topology, first=head + least, mean=mean)
            layer_ns, head_ns, tail_ns = (
                after_rank_ns(training, topology, parameters) for parameters in (layer, head, tail)
            )
            self._besides[key] = _Beside(
                once_ns=wait_ns + last_reduction_ns(training, topology, least),
                after=After(layer_ns=layer_ns, head_ns=head_ns, tail_ns=tail_ns),
            )
        return self._besides[key]

    def _table(self, training: Training, rule: CellRule | None = None) -> LayerTable:
        """Return the layers of a configuration, whose cells keep to a rule; None: to what any of them may."""
        splits = order_facts(schedule_of(training), training.sizes).splits_backward
        # Configurations with the same layers have the same object, which `pricing` keeps.
        in_pairs = FAMILIES[schedule_of(training)].has_pairs
        rule = rule or self._any_rule(training)
        key = (id(self.pricing.of(training)), splits, training.degrees.chunks > 1, in_pairs, rule)
        if key not in self._tables:
            request = replace(self.pricing.request(training), cell_rule=rule)
            if in_pairs:
                request = replace(request, network=self._at_best(training))
            self._tables[key] = capacity_table(request, schedule_of(training))
        return self._tables[key]

    def _any_rule(self, training: Training) -> CellRule:
        """Return a rule that every plan of a configuration keeps to: the kinds that the framework has at all."""
        schedule, offered = schedule_of(training), self.pricing.of(training).network.kinds
        if (schedule, offered) not in self._any_rules:
            own, abilities = self.pricing.cell_rule, self.pricing.question.abilities
            kinds = own.kinds or offered
            if abilities is not None:
                run = {NONE, *(kind for way in abilities.under(schedule).recomputation for kind in way.kinds)}
                kinds = tuple(kind for kind in kinds if kind in run)
            self._any_rules[schedule, offered] = own if {*offered} <= {*kinds} else replace(own, kinds=kinds)
        return self._any_rules[schedule, offered]

    def _at_best(self, training: Training) -> Network:
        """Return the layers of a configuration as if each hid as much in pairs as it can."""
        priced = self.pricing.of(training)
        if id(priced) not in self._in_pairs:
            self._in_pairs[id(priced)] = at_best_in_pairs(priced.network)
        return self._in_pairs[id(priced)]

    @staticmethod
    def _ways_of_messages(training: Training) -> int:
        """Return how many messages a rank waits for at once: one in each direction, where they take turns."""
        return 2 if training.software.messages_in_turn and not training.overlaps_pipeline else 1

    def _message_ns(self, training: Training) -> float:
        """Return the time of the shortest message between neighbouring ranks."""
        ranks, key = training.degrees.pipeline, id(self.pricing.of(training))
        if key not in self._hops:
            times = message_times(training, self.pricing.question.topology, range(ranks))
            self._hops[key] = float(times[0, :-1].min()) if ranks > 1 else 0.0
        return self._hops[key]
