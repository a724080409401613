"""Plain plans against what frameworks do, by formula, and against all combinations of choices."""

import itertools
import math
from itertools import pairwise

import pytest

torch = pytest.importorskip("torch")
nn = torch.nn

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from evenflow.cluster.collectives import Collective, collective_ns  # noqa: E402
from evenflow.cluster.placement import REPLICATE  # noqa: E402
from evenflow.predict.training import Sharding  # noqa: E402
from evenflow_torch.auto.deadline import Deadline  # noqa: E402
from evenflow_torch.auto.sharding.memory_levels import solve_levels  # noqa: E402
from evenflow_torch.auto.sharding.overlap import ALONE  # noqa: E402
from evenflow_torch.auto.sharding.plain.restrictions import plain_ways  # noqa: E402
from evenflow_torch.auto.sharding.plain.solutions import solve_plain  # noqa: E402
from evenflow_torch.auto.sharding.program import ModuleTraining  # noqa: E402
from evenflow_torch.auto.sharding.shard import shard  # noqa: E402
from evenflow_torch.auto.sharding.ways import AxisRole, PlainWay  # noqa: E402
from tests.thoroughness import examples  # noqa: E402
from tests_torch.auto.modules import Block, Gpt, ResNet, batch_of  # noqa: E402
from tests_torch.auto.sharding.plain.priced import (  # noqa: E402
    NODES,
    alone,
    inside,
    mesh_of,
    plain_plans,
    program_of,
    restricted,
    step_ns,
)

DATA, TENSOR, REPLICA = (AxisRole.DATA,), (AxisRole.TENSOR,), AxisRole.REPLICA
APART = ModuleTraining(num_microbatches=3, overlap=ALONE)
WIDTH = 64


def mlp(*widths: int) -> object:
    layers = [nn.Linear(a, b, bias=False) for a, b in pairwise(widths)]
    return nn.Sequential(layers[0], *(one for layer in layers[1:] for one in (nn.ReLU(), layer)))


def batch(samples: int, width: int = WIDTH) -> object:
    return torch.zeros(samples, width)


def test_data_parallelism_of_an_mlp_by_formula() -> None:
    """Each device computes as one alone with its samples; gradients are all-reduced once a step."""
    axis, module = inside(4), mlp(WIDTH, 4 * WIDTH, WIDTH)
    plan = plain_plans(program_of(module, batch(32), mesh_of(axis), APART))[PlainWay(DATA)]
    single = shard(module, batch(8), mesh_of(inside(1)), training=APART)
    reduced = sum(collective_ns(axis, Collective.ALL_REDUCE, 4 * one.numel()) for one in module.parameters())
    assert step_ns(plan) == step_ns(single) + reduced


def test_memory_of_every_stage_of_zero_by_formula() -> None:
    devices, training = 4, ModuleTraining(optimizer_bytes_per_parameter=12)
    module = mlp(WIDTH, 4 * WIDTH, WIDTH)
    count = sum(one.numel() for one in module.parameters())
    plans = plain_plans(program_of(module, batch(32), mesh_of(inside(devices)), training))
    parameter, gradient, state = 4 * count, 4 * count, 12 * count
    for stage, expected in (
        (Sharding.NOTHING, (parameter, gradient, state)),
        (Sharding.OPTIMIZER, (parameter, gradient, state // devices)),
        (Sharding.GRADIENTS, (parameter, gradient // devices, state // devices)),
        (Sharding.PARAMETERS, (parameter // devices, gradient // devices, state // devices)),
    ):
        memory = plans[PlainWay(DATA, stage)].memory
        assert memory is not None
        assert (memory.parameter_bytes, memory.gradient_bytes, memory.optimizer_bytes) == expected
        for one in plans[PlainWay(DATA, stage)].parameters:
            assert one.used == (REPLICATE,)
            assert (one.kept != one.used) is (stage is Sharding.PARAMETERS)


def test_parameters_that_no_dimension_splits_stay_whole() -> None:
    plan = plain_plans(program_of(nn.Linear(8, 9), batch(8, 8), mesh_of(inside(4))))[
        PlainWay(DATA, Sharding.PARAMETERS)
    ]
    weight, bias = plan.parameters
    assert weight.kept != (REPLICATE,)
    assert (bias.kept, bias.update) == ((REPLICATE,), (REPLICATE,))


def test_hybrid_sharding_shares_in_the_node_and_reduces_between_nodes() -> None:
    plans = plain_plans(program_of(mlp(WIDTH, WIDTH), batch(16), mesh_of(NODES, inside(4)), APART))
    hybrid = plans[PlainWay((REPLICA, AxisRole.DATA), Sharding.PARAMETERS)]
    assert all((one.kept[0], one.kept[1] >= 0) == (REPLICATE, True) for one in hybrid.parameters)
    between = [one for one in hybrid.collectives if one.axis == 0]
    assert {(str(one.collective), one.phase.value) for one in between} == {("all-reduce", "update")}
    flat = plans[PlainWay(DATA * 2, Sharding.PARAMETERS)]
    assert all(min(one.kept) >= 0 for one in flat.parameters)


def test_tensor_parallelism_is_megatrons() -> None:
    """Columns, then rows; no matrix and no gradient of one is moved."""
    program = program_of(mlp(WIDTH, 4 * WIDTH, WIDTH), torch.zeros(4, 16, WIDTH), mesh_of(inside(4)), APART)
    plan = plain_plans(program)[PlainWay(TENSOR)]
    assert [(one.kept, one.gradient, one.update) for one in plan.parameters] == [((0,),) * 3, ((1,),) * 3]
    shapes = {one.shape for one in plan.parameters}
    assert plan.collectives
    assert not any(one.shape in shapes for one in plan.collectives)


@pytest.mark.parametrize("make", [Gpt, ResNet])
def test_data_parallelism_exchanges_gradients_alone(make: type) -> None:
    """In the forward and backward of models as people write them, views and norms included."""
    model = make().double()
    plan = plain_plans(program_of(model, batch_of(model), mesh_of(inside(2)), APART))[PlainWay(DATA)]
    waiting = [one for one in plan.collectives if one.phase.value != "update" and math.prod(one.shape) > 1]
    assert waiting == []


def test_what_does_not_divide_is_said() -> None:
    sizes = {PlainWay(DATA): "6 samples do not divide over 4", PlainWay(TENSOR): "6 heads do not divide over 4"}
    example = torch.zeros(6, 4, 48)
    found = {one.way: one.reason for one in restricted(program_of(Block(48, heads=6), example, mesh_of(inside(4))))}
    assert {way: found[way] for way in sizes} == sizes
    (reason,) = {
        one.reason
        for one in restricted(program_of(nn.Linear(3, 5), batch(8, 3), mesh_of(inside(4))))
        if one.way.roles == TENSOR
    }
    assert reason == "no matrix divides over 4"


@settings(max_examples=examples(12), deadline=None)
@given(
    widths=st.lists(st.sampled_from([2, 4, 6, 8]), min_size=2, max_size=3),
    samples=st.sampled_from([4, 8]),
    bandwidth=st.sampled_from([10**8, 10**10, 10**13]),
    microbatches=st.sampled_from([1, 4]),
    is_mesh=st.booleans(),
)
def test_no_plain_plan_undercuts_the_free_program(
    widths: list[int], samples: int, bandwidth: int, microbatches: int, is_mesh: bool
) -> None:
    axes = (inside(2, bandwidth), inside(4, bandwidth)) if is_mesh else (inside(2, bandwidth),)
    training = ModuleTraining(num_microbatches=microbatches, overlap=ALONE)
    program = program_of(mlp(*widths), batch(samples, widths[0]), mesh_of(*axes), training)
    levels = solve_levels(alone(program), Deadline.after(60))
    assert levels is not None
    for plan in plain_plans(program).values():
        assert step_ns(plan) >= levels[0][0].cost


@pytest.mark.parametrize("axes", [(inside(2),), (inside(2), inside(4))])
def test_plain_plans_are_the_best_of_all_their_combinations(axes: tuple[object, ...]) -> None:
    """Every combination of the choices that are left, one node after the other."""
    program = program_of(nn.Linear(8, 16, bias=False), batch(8, 8), mesh_of(*axes), APART)
    solved = solve_plain(alone(program), restricted(program), Deadline.after(60)).solved
    assert {way.roles for way in solved} == {way.roles for way in plain_ways(program.mesh)}
    for one in restricted(program):
        assert solved[one.way][0].cost == cheapest(program.overlapped.whole, one.kept[0])


def test_ways_without_time_are_told_from_those_that_do_not_exist() -> None:
    """One that does not divide has its reason in any case; of the others none was solved."""
    program = program_of(nn.Linear(8, 9, bias=False), batch(8, 8), mesh_of(inside(4)))
    ticks = itertools.count()
    for seconds in (0, 2):
        deadline = Deadline.after(seconds, now=lambda: next(ticks))
        found = solve_plain(alone(program), restricted(program), deadline)
        late = [way for way, reason in found.missing.items() if reason == "no time was left to shard its operators"]
        assert late
        assert found.missing.keys() ^ found.solved.keys() == {one.way for one in restricted(program)}
        for one in restricted(program):
            assert (one.way in late) == (not one.reason and one.way not in found.solved)
            assert one.reason in ("", found.missing.get(one.way))


def cheapest(program: object, kept: tuple[object, ...]) -> float:
    """The least cost, by depth-first search over all choices with the cost so far as a bound."""
    around: list[list[tuple[int, object]]] = [[] for _ in kept]
    for (i, j), costs in program.edges.items():
        around[max(i, j)].append((min(i, j), costs))
    best = math.inf

    def search(node: int, chosen: list[int], cost: float) -> None:
        nonlocal best
        if cost >= best:
            return
        if node == len(kept):
            best = cost
            return
        for choice in kept[node]:
            own = program.costs[node][choice]
            own += sum(costs[chosen[other], choice] for other, costs in around[node] if other != node)
            search(node + 1, [*chosen, choice], cost + own)

    search(0, [], 0.0)
    return best
