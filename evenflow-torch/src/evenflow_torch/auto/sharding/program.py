"""The operator sharding of a graph as a program with one choice per node and a cost for each pair along an edge.

    given tensor ---> operator ---> operator ---> …            every arrow: the cheapest collectives between the
                         |                                     placement that comes and the one that is needed;
    parameter ---------> operator ---> gradient                views on the way have no cost and no choice
        ^                                 |
        +----- update <----- sum <--------+                    once a step: synchronise, update, hand out

This is the program of Alpa (OSDI 2022, section 4.2, equation 1) with two differences: the cost of an edge is a function
of its two placements, so parameters, gradients and optimizer state are nodes like all others (which contains data
parallelism and the three stages of ZeRO), and equal layers share their variables.
"""

from dataclasses import dataclass, field, replace
from enum import Enum

import numpy as np

from evenflow.cluster import Mesh, Placement, WholeTensor
from evenflow.errors import InputError
from evenflow.language import _
from evenflow_torch.auto.sharding.operator_strategies import OperatorStrategy, StrategyTable
from evenflow_torch.auto.sharding.overlap import USUAL, Overlap, Purpose
from evenflow_torch.auto.sharding.overlapped import OverlappedProgram, Window
from evenflow_torch.auto.sharding.pairwise import Costs, Pairwise
from evenflow_torch.auto.sharding.redistribution import MovesThroughViews, RedistributionTable, Step
from evenflow_torch.auto.sharding.sharding_plan import Phase
from evenflow_torch.models.trace.operator_graph import OperatorGraph


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleTraining:
    """The way the module is trained."""

    num_microbatches: int = 1
    """Microbatches of one step; gradients are summed over them where they are, and synchronised once."""
    microbatches_in_flight: int = 1
    """Microbatches whose activations are kept at the same time: more than one in a pipeline."""
    optimizer_bytes_per_parameter: int = 8
    """State beside parameter and gradient: 8 for Adam in float32, 12 with a float32 copy of a 16-bit parameter."""
    overlap: Overlap = USUAL
    """Exchanges that run under computation."""
    expert_capacity: float | None = None
    """Shares of an equal load that an expert takes at most; None: as many tokens as come."""

    def __post_init__(self) -> None:
        for name, least in (
            ("num_microbatches", 1),
            ("microbatches_in_flight", 1),
            ("optimizer_bytes_per_parameter", 0),
        ):
            value = getattr(self, name)
            if value < least:
                raise InputError(
                    value=value, rule=_("must be at least {least}", least=least), place=_("training, {name}", name=name)
                )


class Runs(Enum):
    """How often something happens in a pass: once, in each of the equal layers, or between them."""

    ONCE = "outside of them"
    EACH_LAYER = "in each of them"
    BETWEEN_LAYERS = "from each of them to the next"

    def among(self, num_layers: int) -> int:
        """Return how many times it happens in a pass through `num_layers` layers."""
        return {Runs.ONCE: 1, Runs.EACH_LAYER: num_layers, Runs.BETWEEN_LAYERS: num_layers - 1}[self]


@dataclass(frozen=True, slots=True, kw_only=True)
class Edge:
    """A tensor on its way; `first` and `second` are nodes of the program."""

    first: int
    second: int
    output: int = 0
    """Output of the first node."""
    input: int = 0
    """Input of the second node."""
    tensor: WholeTensor
    views: tuple[int, ...] = ()
    times: int
    """Runs in one step."""
    runs: Runs = Runs.ONCE
    purpose: Purpose = Purpose.OTHER


class NodeKind(Enum):
    """The kind of a node: which tensors it chooses placements for."""

    OPERATOR = "inputs and outputs of an operator"
    COPY = "an operator's result in another placement, for several of those that read it"
    SUM = "a parameter's summed gradient"
    UPDATE = "a parameter where it is updated"
    RESULT = "a value that leaves the graph"


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """A node of the program: a choice among strategies."""

    operator: int
    kind: NodeKind
    strategies: tuple[OperatorStrategy, ...]
    times: int
    """Runs in one step."""
    runs: Runs
    backward: bool
    """True in the backward pass."""


@dataclass(kw_only=True)
class ShardingProgram:
    """The program and what its choices mean."""

    graph: OperatorGraph
    mesh: Mesh
    training: ModuleTraining
    table: StrategyTable
    redistributions: RedistributionTable
    pairwise: Pairwise = field(default_factory=Pairwise)
    nodes: list[Node] = field(default_factory=list)
    edges: list[Edge] = field(default_factory=list)
    compute: list[Costs] = field(default_factory=list)
    """The time that each choice of each node computes: its cost in the program without its edges."""
    windows: tuple[Window, Window] = field(default_factory=lambda: (Window(), Window()))
    """What can run under the forward and under the backward, and the computation there."""
    node_of: dict[int, int] = field(default_factory=dict)
    """The node of an operator; views have none."""
    _known: dict[tuple[WholeTensor, tuple[int, ...]], MovesThroughViews] = field(default_factory=dict)
    """Moves of this graph by its views; those of `redistributions`, by what views do, take longer to look up."""

    def add_node(
        self,
        node: Node,
        *,
        costs: list[int] | None = None,
        exchanged: list[int] | None = None,
        busy: list[int] | None = None,
        memory: list[int] | None = None,
    ) -> int:
        """Add a node with its costs of one step and memory of one device, and return its index.

        `costs` are what its choices compute, `exchanged` is what their own collectives add to that, and `busy` the
        computation that they run under.
        """
        self.nodes.append(node)
        nothing = [0] * len(node.strategies)
        self.compute.append(np.array(costs or nothing, dtype=np.float64))
        if costs and node.kind is not NodeKind.UPDATE:  # under the optimizer nothing runs
            free = self.compute[-1] - np.array(busy or nothing, dtype=np.float64)
            self.windows[node.backward].compute[len(self.nodes) - 1] = free
        total = self.compute[-1] + np.array(exchanged or nothing, dtype=np.float64)
        return self.pairwise.node(total, np.array(memory or nothing, dtype=np.float64))

    def connect(self, edge: Edge) -> None:
        """Add an edge between nodes that are there, with the cost of every pair of their choices."""
        moves = self._moves(edge.tensor, edge.views)
        before = self.redistributions.of(edge.tensor)
        first, second = self.nodes[edge.first], self.nodes[edge.second]
        rows = [before.index[strategy.outputs[edge.output]] for strategy in first.strategies]
        columns = [moves.index[_needed(strategy, edge)] for strategy in second.strategies]
        self.edges.append(edge)
        costs = moves.costs[np.ix_(rows, columns)]
        total = costs * edge.times
        self.pairwise.edge(edge.first, edge.second, total)
        window, share = self.hides(edge)
        if window is not None:
            hideable = np.floor(costs * share) * edge.times
            self.windows[window is Phase.BACKWARD].add(edge.first, edge.second, hideable, once=edge.purpose.is_once)

    def hides(self, edge: Edge) -> tuple[Phase | None, float]:
        """Return the pass whose computation can hide an edge's exchanges, or None, and the share that it hides."""
        share = self.training.overlap.share(edge.purpose)
        if not share or edge.first == edge.second:  # what an operator takes from the same one of the layer before
            return None, 0.0
        return Overlap.window(edge.purpose, backward=self.nodes[edge.second].backward), share

    @property
    def overlapped(self) -> OverlappedProgram:
        """The program as it is solved, in plain numbers."""
        return OverlappedProgram(
            whole=self.pairwise, windows=self.windows, num_microbatches=self.training.num_microbatches
        )

    def with_layers(self, num_layers: int) -> "ShardingProgram":
        """Return the program with another number of equal layers, except for the costs between choices.

        Its choices mean the same. It is not to be solved.
        """
        before = max(operator.times for operator in self.graph.operators)

        def times(part: Node | Edge) -> int:
            return part.times // part.runs.among(before) * part.runs.among(num_layers)

        def scaled(values: list[Costs]) -> list[Costs]:
            return [
                own if node.runs is Runs.ONCE else own / node.runs.among(before) * node.runs.among(num_layers)
                for node, own in zip(self.nodes, values, strict=True)
            ]

        return replace(
            self,
            graph=self.graph.with_layers(num_layers),
            pairwise=Pairwise(costs=self.pairwise.costs, memory=scaled(self.pairwise.memory)),
            nodes=[replace(node, times=times(node)) for node in self.nodes],
            edges=[replace(edge, times=times(edge)) for edge in self.edges],
            compute=scaled(self.compute),
        )

    def path(self, edge: Edge, choices: tuple[int, ...]) -> tuple[Step, ...]:
        """Return the collectives that run on an edge."""
        source = self.nodes[edge.first].strategies[choices[edge.first]].outputs[edge.output]
        target = _needed(self.nodes[edge.second].strategies[choices[edge.second]], edge)
        return self._path(edge.tensor, edge.views, source, target)

    def _path(
        self, tensor: WholeTensor, views: tuple[int, ...], source: Placement, target: Placement
    ) -> tuple[Step, ...]:
        here = self.redistributions.of(tensor)
        if not views:
            return here.route(source, target)
        moves = self._moves(tensor, views)
        if (source, target) not in moves.paths:
            result = self.graph.operators[views[0]].outputs[0]
            rest = self._moves(result, views[1:])
            costs = here.costs[here.index[source], moves.arriving] + rest.costs[moves.leaving, rest.index[target]]
            best = int(np.argmin(costs))
            enters = here.placements[moves.arriving[best]]
            leaves = self.redistributions.of(result).placements[moves.leaving[best]]
            behind = self._path(result, views[1:], leaves, target)
            moves.paths[source, target] = (*here.route(source, enters), *behind)
        return moves.paths[source, target]

    def _moves(self, tensor: WholeTensor, views: tuple[int, ...]) -> MovesThroughViews:
        """Return the moves from each placement of `tensor`, through `views`, to each of the last view's result.

        Collectives may run before, between and behind the views.
        """
        known = self._known.get((tensor, views))
        if known is not None:
            return known
        key = (tensor, tuple((self.graph.operators[view].call, self.graph.operators[view].outputs) for view in views))
        moves = self.redistributions.through.get(key)
        if moves is None:
            moves = self.redistributions.through[key] = self._through(tensor, views)
        self._known[tensor, views] = moves
        return moves

    def _through(self, tensor: WholeTensor, views: tuple[int, ...]) -> MovesThroughViews:
        here = self.redistributions.of(tensor)
        nowhere = np.zeros(0, dtype=np.intp)
        if not views:
            return MovesThroughViews(costs=here.costs, index=here.index, arriving=nowhere, leaving=nowhere)
        view = self.graph.operators[views[0]]
        after = self.redistributions.of(view.outputs[0])
        rest = self._moves(view.outputs[0], views[1:])
        strategies = self.table.strategies(view, self.graph.inputs(view), self.mesh.shape)
        arriving = np.array([here.index[strategy.inputs[0]] for strategy in strategies], dtype=np.intp)
        leaving = np.array([after.index[strategy.outputs[0]] for strategy in strategies], dtype=np.intp)
        costs = np.full((len(here.placements), len(rest.index)), np.inf)
        for enter, leave in zip(arriving, leaving, strict=True):
            np.minimum(costs, here.costs[:, enter, None] + rest.costs[None, leave], out=costs)
        return MovesThroughViews(costs=costs, index=rest.index, arriving=arriving, leaving=leaving)


def _needed(strategy: OperatorStrategy, edge: Edge) -> Placement:
    """Return the placement in which a strategy takes an edge's tensor; a parameter takes its update as it is kept."""
    return strategy.inputs[edge.input] if strategy.inputs else strategy.outputs[0]
