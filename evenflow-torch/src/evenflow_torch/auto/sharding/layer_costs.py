"""Costs of runs of layers as pipeline stages on a mesh: for each kind of layer a few shardings, then sums.

A run of k equal layers costs ``base + k * slope`` in everything, because its layers share one choice (`OperatorGraph`);
a run of several kinds is the sum of its parts and of the redistributions between them. So a handful of programs, one
for each kind, mesh and memory level, gives the cost of every stage that a pipeline could have.
"""

from collections.abc import Generator, Sequence
from dataclasses import asdict, replace
from functools import partial
from typing import NamedTuple

from evenflow.cluster import Mesh, Placement, local_bytes
from evenflow_torch.auto.deadline import Deadline
from evenflow_torch.auto.sharding.builder import build
from evenflow_torch.auto.sharding.memory_levels import LevelsProblem, ends_of, levels_problem, solve_levels
from evenflow_torch.auto.sharding.mesh_costs import NUMBERS, LayerCost, MeshCosts, StageOption
from evenflow_torch.auto.sharding.operator_strategies import StrategyTable, torch_rules
from evenflow_torch.auto.sharding.overlap import Amounts, step_costs
from evenflow_torch.auto.sharding.pairwise import PairwiseSolution
from evenflow_torch.auto.sharding.plain.restrictions import plain_ways, restrictions
from evenflow_torch.auto.sharding.plain.sample_splits import expert_parameters, origins_of
from evenflow_torch.auto.sharding.plain.solutions import solve_plain
from evenflow_torch.auto.sharding.program import ModuleTraining, ShardingProgram
from evenflow_torch.auto.sharding.recomputation import RecomputedCost, recomputed
from evenflow_torch.auto.sharding.sharding_plan import ShardingPlan
from evenflow_torch.auto.sharding.solution_plan import amounts_of, memory_of, plan_of
from evenflow_torch.auto.sharding.ways import Level, PlainWay, Way
from evenflow_torch.models.parts import Part
from evenflow_torch.models.trace.captured_layers import CapturedLayers, capture_layers
from evenflow_torch.models.trace.dropping import Dropping
from evenflow_torch.models.trace.operator_graph import ATTENTION, OperatorGraph, Role

_ONCE_A_STEP = frozenset(("update_ns", "gradient_ns", "optimizer_ns", "hidden_update_ns"))
"""The times of a `StageOption` that are not those of a microbatch."""


def stage_costs(
    kinds: Sequence[Part],
    order: Sequence[int],
    meshes: Sequence[Mesh],
    *,
    training: ModuleTraining | None = None,
    time_limit_s: float = 60.0,
) -> tuple[MeshCosts, ...]:
    """Return the costs of every run of layers on each mesh; `order` is the kind of every layer.

    Every kind is traced once, and solved for each mesh and price of memory, all within the time limit. Raises
    InputError where a kind cannot be traced, where layers of a kind that follow one another do not take what they give,
    and where the time is too short.
    """
    deadline = Deadline.after(time_limit_s)
    layers = capture_layers(kinds, order)
    training = training or ModuleTraining()
    costs = tuple(costs_on(layers, [(mesh, training) for mesh in meshes], deadline=deadline))
    if len(costs) < len(meshes):
        raise deadline.too_short()
    return costs


def costs_on(
    layers: CapturedLayers,
    meshes: Sequence[tuple[Mesh, ModuleTraining]],
    *,
    deadline: Deadline,
    only_plain: bool = False,
) -> Generator[MeshCosts]:
    """Yield the costs of every run of layers on each mesh under its training, until the time is over.

    All of them have the same capacity of experts. With `only_plain` nothing is sharded freely.
    """
    capacity = next((training.expert_capacity for _, training in meshes), None)
    table = StrategyTable(rules=partial(torch_rules, expert_capacity=capacity))
    has_experts = any(expert_parameters(graph, origins_of(graph)) for graph in layers.graphs)
    has_attention = any(ATTENTION in operator.target for graph in layers.graphs for operator in graph.operators)
    for mesh, training in meshes:
        if deadline.is_over:
            return
        built = _built(layers, mesh, training, table, deadline)
        if built is None:
            return
        solutions = [[]] * len(built.programs) if only_plain else solve_levels(built.problem, deadline)
        if solutions is None:
            return
        natural = plain_ways(mesh, has_experts=has_experts, has_attention=has_attention)
        yield _costs(layers, built, solutions, natural, deadline)


class _Built(NamedTuple):
    """The sharding programs of all kinds of layers on one mesh, and the problem that links them."""

    mesh: Mesh
    programs: list[ShardingProgram]
    problem: LevelsProblem


def _built(
    layers: CapturedLayers, mesh: Mesh, training: ModuleTraining, table: StrategyTable, deadline: Deadline
) -> _Built | None:
    """Build the programs of all kinds on one mesh; None if the time is over before all are built."""
    programs = []
    for graph, longest in zip(layers.graphs, layers.longest, strict=True):
        if deadline.is_over:
            return None
        programs.append(build(graph.with_layers(longest), mesh, training, table))
    problem = levels_problem(programs, order=layers.order, longest=layers.longest, handed_over=layers.handed_over)
    return _Built(mesh, programs, problem)


def _costs(
    layers: CapturedLayers,
    built: _Built,
    solutions: Sequence[Sequence[PairwiseSolution]],
    natural: Sequence[PlainWay],
    deadline: Deadline,
) -> MeshCosts:
    plain = solve_plain(built.problem, restrictions(built.programs, natural, deadline), deadline)
    levels = zip(Level, zip(*solutions, strict=True), strict=False)  # none where only plain plans are asked for
    ways: dict[Way, Sequence[PairwiseSolution]] = {**dict(levels), **plain.solved}
    by_way = []
    for kind, program in enumerate(built.programs):
        few = [program.with_layers(count) for count in (2, 3) if layers.longest[kind] > 1]
        by_way.append({way: _layer_cost(layers, kind, program, few, solved[kind], way) for way, solved in ways.items()})
    return MeshCosts(
        mesh=built.mesh,
        order=layers.order,
        layers=tuple(by_way),
        handed_over=layers.handed_over,
        missing=plain.missing,
    )


def _layer_cost(
    layers: CapturedLayers,
    kind: int,
    program: ShardingProgram,
    few: Sequence[ShardingProgram],
    solution: PairwiseSolution,
    way: Way,
) -> LayerCost:
    """Return the cost of one sharding; `few` are the programs of two and three layers, where layers repeat."""
    graph, drops = layers.graphs[kind], layers.dropping[kind]
    if not few:
        slope = _numbers(program, amounts_of(program, solution.choices), *_memory(program, solution))
        base = dict.fromkeys(NUMBERS, 0)
    else:
        # The first layer hides what it can under itself, and so does every further one: times stay linear in layers.
        two, three = few
        more, less = (amounts_of(layers_program, solution.choices) for layers_program in (three, two))
        further = {item: more[item] - less[item] for item in more | less}
        first = {item: less[item] - amount for item, amount in further.items()}
        static, activation = (
            (b - a, 2 * a - b) for a, b in zip(_memory(two, solution), _memory(three, solution), strict=True)
        )
        slope = _numbers(program, further, static[0], activation[0])
        single = _numbers(program, first, static[1], activation[1])
        base = {name: single[name] - slope[name] for name in NUMBERS}
    ends = ends_of(program)

    def lies(node: int) -> Placement:
        return program.nodes[node].strategies[solution.choices[node]].outputs[0]

    plan = plan_of(program, solution)
    assert plan.cost is not None
    return LayerCost(
        base=StageOption(**base, way=way),
        slope=StageOption(**slope, way=way),
        entry=lies(ends.entry),
        entry_shape=graph.operators[program.nodes[ends.entry].operator].outputs[0].shape,
        exit=lies(ends.exit),
        gradient_entry=None if ends.gradient_entry is None else lies(ends.gradient_entry),
        gradient_exit=None if ends.gradient_exit is None else lies(ends.gradient_exit),
        gathered_bytes=_gathered_bytes(graph, plan, program.mesh),
        # The bound is of the program with its hops.
        plan=replace(plan, lower_bound_ns=min(plan.lower_bound_ns, plan.cost.total_ns)),
        recomputed={kind: _recomputed(program, few, solution, dropped) for kind, dropped in drops.items()},
    )


def _recomputed(
    program: ShardingProgram, few: Sequence[ShardingProgram], solution: PairwiseSolution, drops: Dropping
) -> RecomputedCost:
    """Return the costs of one layer whose recomputing modules drop what `drops` says."""
    if not few:
        return recomputed(program, solution.choices, drops)
    two, three = (recomputed(layers_program, solution.choices, drops) for layers_program in few)
    return RecomputedCost(
        again_ns=max(0, three.again_ns - two.again_ns),
        activation_bytes=max(0, three.activation_bytes - two.activation_bytes),
    )


def _memory(program: ShardingProgram, solution: PairwiseSolution) -> tuple[int, int]:
    """Return a solution's bytes on a device: those always kept, and those of each microbatch in flight."""
    memory = memory_of(program, solution.choices)
    flying = memory.activation_bytes
    return memory.total_bytes - flying, flying // program.training.microbatches_in_flight


def _gathered_bytes(graph: OperatorGraph, plan: ShardingPlan, mesh: Mesh) -> int:
    """Return the bytes of one layer's parameters while they are gathered."""
    tensors = [operator.outputs[0] for operator in graph.operators if operator.role is Role.PARAMETER]
    return sum(
        local_bytes(tensor, parameter.used, mesh.shape)
        for tensor, parameter in zip(tensors, plan.parameters, strict=True)
        if parameter.used != parameter.kept
    )


def _numbers(program: ShardingProgram, amounts: Amounts, static_bytes: int, activation_bytes: int) -> dict[str, int]:
    """Return the times and bytes that the amounts of a step come to, by the names of `NUMBERS`."""
    count = program.training.num_microbatches
    times = asdict(step_costs(amounts, count))
    each = {name: time_ns if name in _ONCE_A_STEP else time_ns // count for name, time_ns in times.items()}
    return {**each, "static_bytes": static_bytes, "activation_bytes": activation_bytes}
