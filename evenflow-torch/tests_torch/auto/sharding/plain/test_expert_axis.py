"""Expert parallelism as people write it: what lies where, and what is sent, by hand."""

from functools import cache

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from evenflow.cluster import Dtype  # noqa: E402
from evenflow.cluster.collectives import Collective, collective_ns  # noqa: E402
from evenflow.cluster.mesh import Mesh, MeshAxis  # noqa: E402
from evenflow.fields import as_fields  # noqa: E402
from evenflow.predict.layer_tensors import FULLEST  # noqa: E402
from evenflow.predict.training import Sharding  # noqa: E402
from evenflow_torch.auto.sharding.layer_costs import stage_costs  # noqa: E402
from evenflow_torch.auto.sharding.mesh_costs import LayerCost, MeshCosts  # noqa: E402
from evenflow_torch.auto.sharding.program import ModuleTraining  # noqa: E402
from evenflow_torch.auto.sharding.ways import AxisRole, Level, PlainWay  # noqa: E402
from evenflow_torch.models.training_row import read_decoder  # noqa: E402
from tests.cluster.accelerators import plain_accelerator  # noqa: E402

HIDDEN, WIDTH, EXPERTS, CHOSEN, SEQUENCE, SAMPLES = 64, 128, 8, 2, 32, 8
ROWS = SAMPLES * SEQUENCE * CHOSEN
CONFIG = {
    "model_type": "mixtral", "vocab_size": 64, "hidden_size": HIDDEN, "intermediate_size": WIDTH,
    "num_hidden_layers": 1, "num_attention_heads": 4, "num_key_value_heads": 4, "num_local_experts": EXPERTS,
    "num_experts_per_tok": CHOSEN, "sliding_window": None,
}  # fmt: skip
AXIS = MeshAxis(size=4, bandwidth_bytes_per_s=10**9, latency_ns=1_000)
MESH = Mesh(axes=(AXIS,), accelerator=plain_accelerator(flops_per_s=1e12, memory_bytes_per_s=1e11))


@cache
def costs(experts: int = EXPERTS, capacity: float | None = None) -> MeshCosts:
    config = {**CONFIG, "num_local_experts": experts}
    row = read_decoder(as_fields(config, file="tiny"), sequence=SEQUENCE, microbatch=SAMPLES, dtype=Dtype.BFLOAT16)
    training = ModuleTraining(num_microbatches=2, expert_capacity=capacity)
    return stage_costs([row.body[0]], [0], [MESH], training=training)[0]


def layer(sharding: Sharding, *, role: AxisRole = AxisRole.EXPERT, capacity: float | None = None) -> LayerCost:
    return costs(capacity=capacity).layers[0][PlainWay((role,), sharding)]


@pytest.mark.parametrize("sharding", Sharding)
def test_experts_are_split_by_expert_and_the_rest_as_in_data_parallelism(sharding: Sharding) -> None:
    data = {one.name: one for one in layer(sharding, role=AxisRole.DATA).plan.parameters}
    for one in layer(sharding).plan.parameters:
        if ".experts." in one.name:
            assert one.kept == one.gradient == one.update == (0,)
        else:
            same = data[one.name]
            assert (one.kept, one.gradient, one.update) == (same.kept, same.gradient, same.update)


@pytest.mark.parametrize("sharding", Sharding)
def test_rows_go_there_and_back_in_each_pass(sharding: Sharding) -> None:
    sent = [one for one in layer(sharding).plan.collectives if one.collective is Collective.ALL_TO_ALL]
    assert len(sent) == 4
    assert {one.time_ns for one in sent} == {collective_ns(AXIS, Collective.ALL_TO_ALL, 2 * ROWS * HIDDEN)}
    assert not [one for one in layer(sharding, role=AxisRole.DATA).plan.collectives if one in sent]


def test_a_plan_tells_how_experts_run() -> None:
    for role, experts in ((AxisRole.EXPERT, (0,)), (AxisRole.DATA, (-1,))):
        (found,) = (one for one in layer(Sharding.NOTHING, role=role).plan.activations if one.experts is not None)
        assert (found.name, found.reads, found.placement, found.experts) == ("mlp.experts", (0,), (0,), experts)


def test_the_fullest_device_keeps_more_than_its_share() -> None:
    data, expert = (layer(Sharding.NOTHING, role=role).slope for role in (AxisRole.DATA, AxisRole.EXPERT))
    rows = 2 * ROWS * (HIDDEN + 3 * WIDTH) // AXIS.size
    assert expert.activation_bytes - data.activation_bytes == round((FULLEST - 1) * rows)


CAPACITIES = (1.0, 1.125, 3.0)


def test_memory_is_that_of_the_capacity() -> None:
    data = layer(Sharding.NOTHING, role=AxisRole.DATA).slope
    rows = 2 * ROWS * (HIDDEN + 3 * WIDTH) // AXIS.size
    for capacity in CAPACITIES:
        limited = layer(Sharding.NOTHING, capacity=capacity).slope
        assert limited.activation_bytes - data.activation_bytes == round((capacity - 1) * rows)


def test_all_to_alls_are_as_long_as_that_of_the_fullest_device() -> None:
    for capacity in CAPACITIES:
        collectives = layer(Sharding.NOTHING, capacity=capacity).plan.collectives
        sent = {one.time_ns for one in collectives if one.collective is Collective.ALL_TO_ALL}
        assert sent == {collective_ns(AXIS, Collective.ALL_TO_ALL, round(capacity * 2 * ROWS * HIDDEN))}


def test_more_room_is_never_priced_less_and_the_least_is_an_equal_load() -> None:
    found = [layer(Sharding.NOTHING, capacity=capacity).slope for capacity in CAPACITIES]
    for numbers in ("forward_ns", "backward_ns", "compute_ns", "communication_ns", "activation_bytes"):
        values = [getattr(one, numbers) for one in found]
        assert values == sorted(set(values)), numbers
    free, least = layer(Sharding.NOTHING).slope, found[0]
    assert (least.forward_ns, least.backward_ns) == (free.forward_ns, free.backward_ns)
    assert least.activation_bytes < free.activation_bytes


def test_data_parallelism_is_priced_as_without_a_capacity() -> None:
    same = (layer(Sharding.NOTHING, role=AxisRole.DATA, capacity=one).slope for one in (None, CAPACITIES[-1]))
    assert next(same) == next(same)


@pytest.mark.parametrize("sharding", Sharding)
def test_free_search_is_never_worse(sharding: Sharding) -> None:
    found = costs().options(0, 1)
    plain, free = found[PlainWay((AxisRole.EXPERT,), sharding)], found[Level.FASTEST]
    times = (2 * (one.forward_ns + one.backward_ns) + one.update_ns for one in (free, plain))
    assert next(times) <= next(times)


def test_experts_that_do_not_divide() -> None:
    assert PlainWay((AxisRole.EXPERT,), Sharding.NOTHING) not in costs(6).layers[0]
