"""Stages as sums of layers with a head and a tail, from costs that a person can check."""

from dataclasses import replace

import pytest

from evenflow.cluster.cluster import Link, Submesh
from evenflow.model import FULL, NONE, OFFLOAD
from evenflow_torch.auto.sharding.ways import Level, MeshSharding
from evenflow_torch.auto.stages.sharded_stages import ShardedStages
from evenflow_torch.auto.stages.working_memory import WorkingMemory
from tests.cluster.clusters import mesh
from tests_torch.auto.sharding.made_costs import GATHER_NS, SPLIT, WHOLE, layer_cost, made_costs

PAIR, FASTEST = Submesh(1, 2), MeshSharding((2,), Level.FASTEST)
ORDER = [0, 1, 1, 1, 2]


@pytest.fixture
def provider() -> ShardedStages:
    kinds = [layer_cost(1000), layer_cost(600), layer_cost(500, entry=WHOLE)]
    return ShardedStages(
        name="made",
        cluster=mesh(1, 4),
        num_microbatches=4,
        costs={PAIR: {(2,): made_costs(ORDER, kinds)}},
        has_head=True,
        has_tail=True,
    )


def test_ends_go_with_the_first_and_last_layer(provider: ShardedStages) -> None:
    assert [provider.with_ends(*span) for span in ((0, 3), (0, 1), (1, 2), (2, 3))] == [
        range(5),
        range(2),
        range(2, 3),
        range(3, 5),
    ]
    head, middle, tail = provider.kinds
    assert len({head, middle, tail}) == 3


def test_what_happens_once_a_step_is_shared_out(provider: ShardedStages) -> None:
    network = provider.network_on(PAIR, FASTEST)
    layer = network.layers[0]
    assert (layer.forward_ns, layer.modes[NONE].backward_ns) == (600, 600 + 600 // 4)
    assert network.tail.forward_ns == 500 + GATHER_NS  # the tail takes a whole tensor
    assert network.constant_bytes == 600


def test_recomputing_keeps_what_enters_and_runs_the_forward_again(provider: ShardedStages) -> None:
    modes = provider.network_on(PAIR, FASTEST).layers[0].modes
    assert modes[FULL].backward_ns == modes[NONE].backward_ns + 600
    assert modes[FULL].activation_bytes == 400  # half of 800 bytes
    assert modes[NONE].activation_bytes == 600


@pytest.mark.parametrize(
    ("bytes_per_s", "waits_ns"),
    [
        (10**9, 0),  # 600 ns each way, as long as the forward
        (8 * 10**8, 150),  # 750 ns: there 150 longer than the forward, back no longer than the backward
        (5 * 10**8, 600 + 450),  # 1200 ns each way, beside 600 and 750
    ],
)
def test_what_waits_on_the_host_is_copied_under_the_layers(
    provider: ShardedStages, bytes_per_s: int, waits_ns: int
) -> None:
    assert OFFLOAD not in provider.network_on(PAIR, FASTEST).kinds
    host = replace(provider.cluster, host=Link(bytes_per_s=bytes_per_s))
    modes = replace(provider, cluster=host, _networks={}).network_on(PAIR, FASTEST).layers[0].modes
    assert modes[OFFLOAD].activation_bytes == 0
    assert modes[OFFLOAD].backward_ns == modes[NONE].backward_ns + waits_ns
    assert modes[OFFLOAD].working_bytes == modes[NONE].working_bytes + 2 * 600, "one that goes, one that comes"


def test_a_stage_leaves_as_its_layer_gives_and_enters_as_the_next_takes(provider: ShardedStages) -> None:
    given = provider.boundary(2, PAIR, FASTEST, range(2), leaving=True)
    taken = provider.boundary(2, PAIR, FASTEST, range(2, 4))
    assert (given.placement, given.devices) == (SPLIT, (0, 1))
    assert (taken.placement, taken.devices) == (SPLIT, (2, 3))


def test_submeshes_that_were_not_solved_have_no_options(provider: ShardedStages) -> None:
    assert len(provider.shardings(PAIR)) == len(Level)
    assert len(provider.options(0, 1, PAIR)) == 2  # all levels are equal, so one is enough
    assert provider.options(0, 1, Submesh(1, 4)) == []
    assert provider.on(mesh(3, 4)).options(0, 1, Submesh(2, 4)) == []


@pytest.mark.parametrize(
    "working", [(), tuple(WorkingMemory(activation_bytes=1, plain_bytes=0, recomputing_bytes={}) for _ in range(3))]
)
def test_two_layers_beside_each_other_are_whole_while_one_of_them_computes(
    provider: ShardedStages, working: tuple[WorkingMemory, ...]
) -> None:
    whole = [5000, 300, 20]
    kinds = [layer_cost(10, gathered_bytes=one) for one in whole]
    order = [0, 1, 1, 1, 2]
    gathering = replace(provider, costs={PAIR: {(2,): made_costs(order, kinds)}}, working=working, _networks={})
    plain = replace(
        provider, costs={PAIR: {(2,): made_costs(order, [layer_cost(10)] * 3)}}, working=working, _networks={}
    )
    for first, end in ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)):
        body = 2 * whole[1]  # also of a stage of one layer, so that all layers are equal
        most = max(body, whole[0] + whole[1] if first == 0 else 0, whole[2] + whole[1] if end == 3 else 0)
        held, before = (
            {one.recompute: one.static_bytes for one in each.stage_costs(first, end, PAIR, FASTEST)}
            for each in (gathering, plain)
        )
        assert {kind: held[kind] - before[kind] for kind in held} == dict.fromkeys(before, most)
    assert len({id(one) for one in gathering.network_on(PAIR, FASTEST).runs}) == 1, "equal layers stay equal"
