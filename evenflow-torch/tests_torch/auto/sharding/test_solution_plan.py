"""Plans of the choices of a program: all costs and memory are in them, whatever the choices."""

import random
from collections.abc import Hashable
from dataclasses import replace

import numpy as np
import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from evenflow.cluster.collectives import Collective  # noqa: E402
from evenflow.cluster.mesh import Mesh, MeshAxis  # noqa: E402
from evenflow.solve import Status  # noqa: E402
from evenflow_torch.auto.sharding.builder import build  # noqa: E402
from evenflow_torch.auto.sharding.operator_strategies import StrategyTable, torch_rules  # noqa: E402
from evenflow_torch.auto.sharding.pairwise import PairwiseSolution  # noqa: E402
from evenflow_torch.auto.sharding.pairwise.messages import Messages  # noqa: E402
from evenflow_torch.auto.sharding.program import ModuleTraining, NodeKind, ShardingProgram  # noqa: E402
from evenflow_torch.auto.sharding.sharding_plan import CostPart, Phase  # noqa: E402
from evenflow_torch.auto.sharding.solution_plan import chosen, plan_of  # noqa: E402
from evenflow_torch.models.trace.capture import capture  # noqa: E402
from evenflow_torch.models.trace.operator_graph import AxisRule, InnerExchange  # noqa: E402
from tests.cluster.accelerators import plain_accelerator  # noqa: E402

MESH = Mesh(
    axes=(MeshAxis(size=2, bandwidth_bytes_per_s=10**9, latency_ns=1_000),),
    accelerator=plain_accelerator(flops_per_s=1e9, memory_bytes_per_s=1e9),
)


class Small(nn.Module):  # type: ignore[misc,name-defined]
    """Looks words up, multiplies, and adds a vector."""

    def __init__(self) -> None:
        super().__init__()
        self.words, self.up = nn.Embedding(16, 8), nn.Linear(8, 32, bias=False)
        self.shift = nn.Parameter(torch.zeros(32))

    def forward(self, tokens: "torch.Tensor") -> "torch.Tensor":
        return self.up(self.words(tokens)) + self.shift


@pytest.fixture(scope="module")
def program() -> ShardingProgram:
    graph = capture(Small(), torch.zeros(4, 6, dtype=torch.long))
    training = ModuleTraining(num_microbatches=3, microbatches_in_flight=2)
    return build(graph, MESH, training, StrategyTable(rules=torch_rules))


@pytest.mark.parametrize("hides", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_collectives_that_operators_run_themselves_are_in_the_costs(hides: bool, seed: int) -> None:
    exchange = InnerExchange(collective=Collective.ALL_TO_ALL, tensor=0, share=300.0, hides=hides)

    def rules(call: Hashable, axis_size: int) -> frozenset[AxisRule] | None:
        found = torch_rules(call, axis_size)
        split = {one for one in found or () if "mm" in str(call) and max(one.inputs) >= 0}
        return None if found is None else found - split | {replace(one, exchanges=(exchange,)) for one in split}

    graph = capture(Small(), torch.zeros(4, 6, dtype=torch.long))
    program = build(graph, MESH, ModuleTraining(num_microbatches=3), StrategyTable(rules=rules))
    found = solution(program, seed)
    plan = plan_of(program, found)
    assert plan.cost is not None
    cost = plan.cost
    assert cost.total_ns == program.overlapped.step_ns(found.choices)
    by_part = cost.compute_ns + cost.communication_ns + cost.resharding_ns + cost.gradient_ns + cost.optimizer_ns
    assert by_part == cost.total_ns
    used = sum(
        bool(node.strategies[choice].exchanges) for node, choice in zip(program.nodes, found.choices, strict=True)
    )
    # Among placements an all-to-all is resharding; those inside operators are communication.
    own = [
        one
        for one in plan.collectives
        if one.collective is Collective.ALL_TO_ALL and one.part is CostPart.COMMUNICATION
    ]
    assert len(own) == used


def random_choices(program: ShardingProgram, seed: int) -> tuple[int, ...]:
    """Choices that are allowed, from a start at which everything is whole."""
    whole = tuple(next(at for at, costs in enumerate(own) if np.isfinite(costs)) for own in program.pairwise.costs)
    now, draw = Messages(program.pairwise).settled(whole), random.Random(seed)
    for _ in range(60):
        node = draw.randrange(len(now))
        other = (*now[:node], draw.randrange(len(program.nodes[node].strategies)), *now[node + 1 :])
        if np.isfinite(_cost(program, other)):
            now = other
    return now


def _cost(program: ShardingProgram, choices: tuple[int, ...]) -> float:
    pairwise = program.pairwise
    total = sum(float(costs[choice]) for costs, choice in zip(pairwise.costs, choices, strict=True))
    return total + sum(float(costs[choices[i], choices[j]]) for (i, j), costs in pairwise.edges.items())


def solution(program: ShardingProgram, seed: int) -> PairwiseSolution:
    choices = random_choices(program, seed)
    cost = int(program.pairwise.cost_of(choices))
    return PairwiseSolution(status=Status.FEASIBLE, choices=choices, cost=cost, lower_bound=1)


@pytest.mark.parametrize("seed", range(8))
def test_parts_add_up_to_the_program(program: ShardingProgram, seed: int) -> None:
    found = solution(program, seed)
    plan = plan_of(program, found)
    assert plan.cost is not None
    assert plan.memory is not None
    cost = plan.cost
    by_part = cost.compute_ns + cost.communication_ns + cost.resharding_ns + cost.gradient_ns + cost.optimizer_ns
    assert by_part == cost.total_ns == program.overlapped.step_ns(found.choices)
    assert cost.total_ns <= program.pairwise.cost_of(found.choices)
    assert plan.memory.total_bytes == program.pairwise.memory_of(found.choices)
    for one in plan.collectives:
        assert one.phase is not Phase.UPDATE or one.part is CostPart.GRADIENT
        assert one.times == 1 if one.phase is Phase.UPDATE else one.times % 3 == 0


@pytest.mark.parametrize("seed", range(4))
def test_parameters_lie_as_their_nodes_choose(program: ShardingProgram, seed: int) -> None:
    found = solution(program, seed)
    plan = plan_of(program, found)
    assert {one.name for one in plan.parameters} == {"words.weight", "up.weight", "shift"}
    for one in plan.parameters:
        (index,) = (at for at, each in enumerate(program.graph.operators) if each.name == one.name)
        assert one.kept == chosen(program, found.choices, index).outputs[0]
        by_kind = {
            node.kind: node.strategies[choice].outputs[0]
            for node, choice in zip(program.nodes, found.choices, strict=True)
            if node.operator == index and node.kind in (NodeKind.SUM, NodeKind.UPDATE)
        }
        assert (one.gradient, one.update) == (by_kind[NodeKind.SUM], by_kind[NodeKind.UPDATE])


def test_dimensions_and_activations_have_names(program: ShardingProgram) -> None:
    plan = plan_of(program, solution(program, 0))
    assert {one.name: one.dimensions for one in plan.parameters} == {
        "words.weight": ("vocabulary", "column"),
        "up.weight": ("column", "row"),
        "shift": ("dimension 0",),
    }
    names = [one.name for one in plan.activations]
    assert {"words", "up"} <= set(names)
    assert [one.name for one in plan.activations if one.reads is not None] == ["up"]


def test_without_choices_there_is_nothing_but_the_outcome(program: ShardingProgram) -> None:
    nothing = PairwiseSolution(status=Status.INFEASIBLE, choices=(), cost=0, lower_bound=0)
    plan = plan_of(program, nothing)
    assert plan.status is Status.INFEASIBLE
    assert (plan.parameters, plan.collectives, plan.cost, plan.memory) == ((), (), None, None)
