"""Context parallelism as people write it: positions split everywhere, and only attention exchanges."""

import math
from functools import cache

import pytest

torch = pytest.importorskip("torch")

from evenflow.cluster import RowExchange  # noqa: E402
from evenflow.cluster.mesh import MeshAxis  # noqa: E402
from evenflow.predict.training import Sharding  # noqa: E402
from evenflow_torch.auto.sharding.layer_costs import stage_costs  # noqa: E402
from evenflow_torch.auto.sharding.mesh_costs import LayerCost, MeshCosts  # noqa: E402
from evenflow_torch.auto.sharding.program import ModuleTraining  # noqa: E402
from evenflow_torch.auto.sharding.sharding_plan import Phase  # noqa: E402
from evenflow_torch.auto.sharding.ways import AxisRole, Level, PlainWay  # noqa: E402
from evenflow_torch.models.parts import Part  # noqa: E402
from tests_torch.auto.modules import Block  # noqa: E402
from tests_torch.auto.sharding.plain.priced import inside, mesh_of  # noqa: E402

WIDTH, SAMPLES, POSITIONS, HEADS = 64, 4, 32, 4
BANDWIDTHS = 10**10, 3 * 10**10, 10**11
DATA, CONTEXT = AxisRole.DATA, AxisRole.CONTEXT


@cache
def costs(*axes: MeshAxis, positions: int = POSITIONS) -> MeshCosts:
    with torch.device("meta"):
        layer, hidden = Block(WIDTH, HEADS), torch.empty(SAMPLES, positions, WIDTH)
    part = Part(name="block", module=layer, inputs=(hidden,))
    return stage_costs([part], [0] * 3, [mesh_of(*axes)], training=ModuleTraining(num_microbatches=2))[0]


def layer(
    *axes: MeshAxis, roles: tuple[AxisRole, ...], sharding: Sharding = Sharding.NOTHING, positions: int = POSITIONS
) -> LayerCost:
    return costs(*axes, positions=positions).layers[0][PlainWay(roles, sharding)]


def test_positions_are_split_from_layer_to_layer() -> None:
    alone = layer(inside(4), roles=(CONTEXT,))
    assert (alone.entry, alone.exit, alone.gradient_entry, alone.gradient_exit) == ((1,),) * 4
    both = layer(inside(2), inside(4), roles=(DATA, CONTEXT))
    assert (both.entry, both.exit) == ((0, 1),) * 2


@pytest.mark.parametrize("sharding", Sharding)
def test_parameters_lie_as_in_data_parallelism(sharding: Sharding) -> None:
    data, context = (layer(inside(4), roles=(role,), sharding=sharding).plan.parameters for role in (DATA, CONTEXT))
    assert [(one.kept, one.gradient, one.update) for one in data] == [
        (one.kept, one.gradient, one.update) for one in context
    ]


def test_only_attention_exchanges_in_a_pass() -> None:
    """Queries, keys, values and results, or keys and values alone; never a parameter, never what the rest computes."""
    plan = layer(inside(4), roles=(CONTEXT,)).plan
    sent = [one for one in plan.collectives if one.phase is not Phase.UPDATE]
    parameters = {one.shape for one in plan.parameters}
    assert not any(one.shape in parameters for one in sent)
    size = SAMPLES * POSITIONS * WIDTH
    assert all(math.prod(one.shape) == size for one in sent)
    count = {phase: sum(one.phase is phase for one in sent) for phase in (Phase.FORWARD, Phase.BACKWARD)}
    assert 2 <= count[Phase.FORWARD] <= 4
    assert 2 <= count[Phase.BACKWARD] <= 10  # those of the forward again, as they were kept, and the gradients


def test_long_sequences_go_around_a_ring_under_their_computation() -> None:
    """Of long sequences attention hides the ring; hidden and exposed times are told apart, and faster links help."""
    found = []
    for bandwidth in BANDWIDTHS:
        one = layer(inside(2, bandwidth), roles=(CONTEXT,), positions=4096)
        (shared,) = (value.attention for value in one.plan.activations if value.attention is not None)
        found.append((shared.placement, shared.rows, one.slope.hidden_ns))
        assert one.plan.cost is not None
        exposed = sum(each.time_ns * each.times for each in one.plan.collectives if each.phase is not Phase.UPDATE)
        assert one.plan.cost.communication_ns + one.plan.cost.resharding_ns + one.plan.cost.gradient_ns >= exposed
    assert all(one[:2] == ((2,), RowExchange.RING) for one in found), found
    hidden = [one[2] for one in found]
    assert hidden == sorted(hidden, reverse=True)
    assert hidden[-1] > 0
    times = [layer(inside(2, bandwidth), roles=(CONTEXT,), positions=4096).slope.forward_ns for bandwidth in BANDWIDTHS]
    assert times == sorted(times, reverse=True)


def test_every_device_keeps_its_share_of_the_activations() -> None:
    whole, part = costs(inside(1)).layers[0][Level.FASTEST], layer(inside(4), roles=(CONTEXT,))
    assert part.slope.activation_bytes < 0.5 * whole.slope.activation_bytes
    assert part.slope.activation_bytes >= whole.slope.activation_bytes // 4


def test_free_search_is_never_worse() -> None:
    ways = costs(inside(4)).layers[0]
    fastest = ways[Level.FASTEST].slope
    for way, cost in ways.items():
        if isinstance(way, PlainWay):
            step = [2 * (one.forward_ns + one.backward_ns) + one.update_ns for one in (fastest, cost.slope)]
            assert step[0] <= step[1] + 4  # each number is rounded


def test_positions_that_do_not_divide() -> None:
    assert costs(inside(4), positions=6).missing[PlainWay((CONTEXT,))] == "6 positions do not divide over 4"
