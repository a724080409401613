import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import FULL, SELECT, EndBlock, Layer, LayerRun, Mode, Network, Plan, cells
from evenflow.simulate import stage_costs
from strategies import networks, plans

CELL_ORDER = ["full", "both", "select", "comm", "offload", "none"]


@given(st.data())
def test_stages_cost_what_their_layers_cost_one_by_one(data: st.DataObject):
    """The first layers of a cell recompute: full, both, select, comm, named kinds; the rest do not."""
    network = data.draw(networks())
    plan = data.draw(plans(network))
    costs = stage_costs(network, plan)
    part = network.split_sequence(plan.sequence_splits)
    coming = iter(part.layers)
    static = [network.constant_bytes] * plan.num_ranks
    num_stages = plan.num_ranks * plan.num_chunks
    for stage in range(num_stages):
        chunk, rank = divmod(stage, plan.num_ranks)
        forward = backward = recompute = activation = 0
        for kind in CELL_ORDER:
            for _ in range(plan.count(kind, chunk, rank)):
                layer = next(coming)
                forward += layer.forward_ns
                backward += layer.modes[kind].backward_ns
                recompute += layer.modes[kind].backward_ns - layer.modes["none"].backward_ns
                activation += layer.modes[kind].activation_bytes
                static[rank] += layer.parameter_bytes
        for block, at in ((part.head, 0), (part.tail, num_stages - 1)):
            if stage == at:
                forward += block.forward_ns
                backward += block.backward_ns
                activation += block.activation_bytes
                static[rank] += block.parameter_bytes
        assert costs.forward_ns[stage] == forward
        assert costs.backward_ns[stage] == backward
        assert costs.recompute_ns[stage] == recompute
        assert costs.activation_bytes[stage] == activation
        assert costs.durations[2 * stage : 2 * stage + 2].tolist() == [forward, backward]
    assert costs.static_bytes.tolist() == static


def small_network(*kinds: str) -> Network:
    modes = {kind: Mode(activation_bytes=4, backward_ns=6) for kind in ("none", *kinds)}
    layer = Layer(name="body", forward_ns=2, parameter_bytes=8, modes=modes)
    return Network(name="small", runs=(LayerRun(layer=layer, count=4),), tail=EndBlock(forward_ns=2, backward_ns=4))


def test_what_does_not_fit_the_network_is_refused():
    with pytest.raises(InputError, match=r"plan for small, layers: .*add up to the 4 of the network \(got 5\)"):
        stage_costs(small_network(), Plan(schedule="1f1b", num_microbatches=2, layers=cells([[3, 2]])))
    unknown = Plan(schedule="1f1b", num_microbatches=2, layers=cells([[2, 2]]), recompute={SELECT: cells([[1, 0]])})
    with pytest.raises(InputError, match=r"offers the recompute kinds full, none \(got 'select'\); give the memory"):
        stage_costs(small_network(FULL), unknown)
    unused = Plan(schedule="1f1b", num_microbatches=2, layers=cells([[2, 2]]), recompute={SELECT: cells([[0, 0]])})
    assert stage_costs(small_network(FULL), unused).forward_ns.tolist() == [4, 6]


def test_full_recompute_of_a_split_sequence_is_refused_with_the_reason():
    plan = Plan(
        schedule="1f1b",
        num_microbatches=2,
        layers=cells([[2, 2]]),
        recompute={FULL: cells([[1, 0]])},
        sequence_splits=2,
    )
    with pytest.raises(InputError, match=r"got 'full'\); full recompute would drop the keys and values"):
        stage_costs(small_network(FULL, SELECT), plan)


def test_a_part_of_a_sequence_costs_its_share():
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=cells([[2, 2]]), sequence_splits=2)
    costs = stage_costs(small_network(), plan)
    assert costs.forward_ns.tolist() == [2, 3]
    assert costs.backward_ns.tolist() == [6, 8]
    assert costs.activation_bytes.tolist() == [4, 4]
    assert costs.static_bytes.tolist() == [16, 16]
