from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import FULL, SELECT, EndBlock, Layer, LayerRun, Mode, Network, Plan, cells
from evenflow.schedule import NUM_OPS, Schedule, parse_schedule
from evenflow.simulate import stage_costs
from tests.strategies import networks, plans, schedule_of

CELL_ORDER = ["full", "both", "select", "comm", "offload", "none"]


@given(st.data())
def test_stages_cost_what_their_layers_cost_one_by_one(data: st.DataObject):
    """The first layers of a cell recompute: full, both, select, comm, named kinds; the rest do not."""
    network = data.draw(networks())
    plan = data.draw(plans(network))
    schedule = schedule_of(plan)
    costs = stage_costs(network, plan, schedule)
    part = network.split_sequence(plan.sequence_splits)
    coming = iter(part.layers)
    static = [network.constant_bytes] * plan.num_ranks
    working = [0] * plan.num_ranks
    num_stages = plan.num_ranks * plan.num_chunks
    for stage in range(num_stages):
        rank = schedule.stage_ranks[stage]
        chunk = schedule.stage_ranks[:stage].count(rank)
        forward = backward = weight = recompute = activation = waiting = 0
        for kind in CELL_ORDER:
            for _ in range(plan.count(kind, chunk, rank)):
                layer = next(coming)
                forward += layer.forward_ns
                backward += layer.modes[kind].backward_ns
                recompute += layer.modes[kind].backward_ns - layer.modes["none"].backward_ns
                weight += layer.weight_ns
                activation += layer.modes[kind].activation_bytes
                waiting += layer.until_weight_bytes
                static[rank] += layer.parameter_bytes
                working[rank] = max(working[rank], layer.modes[kind].working_bytes)
        for block, at in ((part.head, 0), (part.tail, num_stages - 1)):
            if stage == at:
                forward += block.forward_ns
                backward += block.backward_ns
                weight += block.weight_ns
                activation += block.activation_bytes
                waiting += block.until_weight_bytes
                static[rank] += block.parameter_bytes
                working[rank] = max(working[rank], block.working_bytes)
        assert costs.forward_ns[stage] == forward
        assert costs.backward_ns[stage] == backward
        assert costs.recompute_ns[stage] == recompute
        assert costs.activation_bytes[stage] == activation
        assert costs.until_weight_bytes[stage] == waiting
        durations = costs.durations[NUM_OPS * stage : NUM_OPS * (stage + 1)]
        assert durations.tolist() == [forward, backward, backward - weight, weight]
    assert costs.static_bytes.tolist() == static
    assert costs.working_bytes.tolist() == working


def small_network(*kinds: str) -> Network:
    modes = {kind: Mode(activation_bytes=4, backward_ns=6) for kind in ("none", *kinds)}
    layer = Layer(name="body", forward_ns=2, parameter_bytes=8, modes=modes)
    return Network(name="small", runs=(LayerRun(layer=layer, count=4),), tail=EndBlock(forward_ns=2, backward_ns=4))


def test_what_does_not_fit_the_network_is_refused():
    other = Plan(schedule="1f1b", num_microbatches=2, layers=cells([[3, 2]]))
    with pytest.raises(InputError, match=r"plan for small, layers must add up to the 4 layers of the network, got 5"):
        stage_costs(small_network(), other, schedule_of(other))
    unknown = Plan(schedule="1f1b", num_microbatches=2, layers=cells([[2, 2]]), recompute={SELECT: cells([[1, 0]])})
    with pytest.raises(
        InputError,
        match=r"kinds of the network, full, none, got 'select'; give the memory",
    ):
        stage_costs(small_network(FULL), unknown, schedule_of(unknown))
    unused = Plan(schedule="1f1b", num_microbatches=2, layers=cells([[2, 2]]), recompute={SELECT: cells([[0, 0]])})
    assert stage_costs(small_network(FULL), unused, schedule_of(unused)).forward_ns.tolist() == [4, 6]


def test_full_recompute_of_a_split_sequence_is_refused_with_the_reason():
    plan = Plan(
        schedule="1f1b",
        num_microbatches=2,
        layers=cells([[2, 2]]),
        recompute={FULL: cells([[1, 0]])},
        sequence_splits=2,
    )
    with pytest.raises(InputError, match=r"got 'full'; use another kind: full recompute drops the keys and values"):
        stage_costs(small_network(FULL, SELECT), plan, schedule_of(plan))


def test_a_part_of_a_sequence_costs_its_share():
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=cells([[2, 2]]), sequence_splits=2)
    costs = stage_costs(small_network(), plan, schedule_of(plan))
    assert costs.forward_ns.tolist() == [2, 3]
    assert costs.backward_ns.tolist() == [6, 8]
    assert costs.activation_bytes.tolist() == [4, 4]
    assert costs.static_bytes.tolist() == [16, 16]


def split_network(**stated: int) -> Network:
    """One layer a stage: 3 forward, backward 7 of which 2 recompute; a tail of 5."""
    modes = {"none": Mode(activation_bytes=40, backward_ns=5), FULL: Mode(activation_bytes=4, backward_ns=7)}
    layer = Layer(name="body", forward_ns=3, parameter_bytes=8, modes=modes, **stated)
    return Network(name="split", runs=(LayerRun(layer=layer, count=4),), tail=EndBlock(backward_ns=5))


def two_chunks(text: str) -> Schedule:
    return parse_schedule(text, name="1f1b")


LOOPED = "0F0,2F0,2I0,2W0,0I0,0W0\n1F0,3F0,3I0,3W0,1I0,1W0\n"
V_SHAPED = "0F0,3F0,3I0,3W0,0I0,0W0\n1F0,2F0,2I0,2W0,1I0,1W0\n"
ALL_FULL = Plan(
    schedule="1f1b", num_microbatches=1, layers=cells([[1, 1], [2, 0]]), recompute={FULL: cells([[1, 1], [2, 0]])}
)


def test_half_of_the_plain_backward_is_the_weight_gradient_unless_stated():
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=cells([[1, 1], [1, 1]]), recompute={})
    costs = stage_costs(split_network(), plan, two_chunks(LOOPED))
    assert costs.weight_ns.tolist() == [2, 2, 2, 4]  # 5 // 2 each, the tail included
    assert costs.until_weight_bytes.tolist() == [40] * 4
    stated = split_network(stated_weight_ns=5, stated_until_weight_bytes=1)
    costs = stage_costs(stated, plan, two_chunks(LOOPED))
    assert costs.weight_ns.tolist() == [5, 5, 5, 7]
    assert costs.until_weight_bytes.tolist() == [1] * 4
    # What was recomputed is there again when the weight gradient begins.
    costs = stage_costs(split_network(), replace(plan, recompute={FULL: plan.layers}), two_chunks(LOOPED))
    assert (costs.weight_ns.tolist(), costs.until_weight_bytes.tolist()) == ([2, 2, 2, 4], [40] * 4)
    assert (costs.backward_ns.tolist(), costs.activation_bytes.tolist()) == ([7, 7, 7, 12], [4] * 4)


def test_the_placement_says_which_stage_is_in_which_cell():
    looped = stage_costs(split_network(), ALL_FULL, two_chunks(LOOPED))
    assert looped.forward_ns.tolist() == [3, 3, 6, 0]
    folded = stage_costs(split_network(), ALL_FULL, two_chunks(V_SHAPED))
    assert folded.forward_ns.tolist() == [3, 3, 0, 6]
    assert looped.static_bytes.tolist() == folded.static_bytes.tolist() == [24, 8]


def test_a_step_without_backward_costs_its_forwards():
    forward_only = two_chunks("0F0,2F0\n1F0,3F0\n")
    plan = replace(ALL_FULL, recompute={})
    costs = stage_costs(split_network(), plan, forward_only)
    assert costs.backward_ns.tolist() == costs.weight_ns.tolist() == costs.recompute_ns.tolist() == [0] * 4
    assert costs.forward_ns.tolist() == [3, 3, 6, 0]
    with pytest.raises(InputError, match="only the recompute kinds of the network, none"):
        stage_costs(split_network(), ALL_FULL, forward_only)


@pytest.mark.parametrize(
    "stated", [{"stated_weight_ns": 6}, {"stated_weight_ns": -1}, {"stated_until_weight_bytes": -1}]
)
def test_a_weight_gradient_is_part_of_the_plain_backward(stated: dict[str, int]):
    with pytest.raises(InputError, match="a part of the plain backward of 5 ns"):
        split_network(**stated)
