"""What stages send to one another, and what it costs whom."""

from dataclasses import replace

import numpy as np
import pytest

from evenflow.cluster.data_sheets import ACCELERATORS
from evenflow.cluster.topology import Topology
from evenflow.predict.prediction import predict
from evenflow.predict.step.cells import plan_of
from evenflow.predict.step.messages import message_times, planned_messages, simulated
from evenflow.predict.step_network import priced_network
from evenflow.predict.training import Degrees, Software, Training
from evenflow.predict.transformer import OwnSizes, Transformer
from evenflow.schedule import schedule_of
from evenflow.simulate import simulate

MODEL = Transformer(
    hidden=4096, layers=8, heads=32, kv_heads=32, head_dim=128, ffn=16_384, vocabulary=32_000, gated=False, name="m"
)
TOPOLOGY = Topology(accelerator=ACCELERATORS["a100-80"], domain_devices=8)
BLOCKING = Software(overlaps_pipeline=False)
TRAINING = Training(
    model=MODEL, degrees=Degrees(pipeline=4, data=8, sequence_parallel=False), microbatch=1, global_batch=64,
    sequence=2048, software=BLOCKING,
)  # fmt: skip


def times(training: Training) -> np.ndarray:
    plan = plan_of(training, priced_network(training, TOPOLOGY).network)
    return message_times(training, TOPOLOGY, schedule_of(plan).stage_ranks)


def sent(training: Training) -> np.ndarray:
    priced = priced_network(training, TOPOLOGY)
    return simulated(training, TOPOLOGY, priced, plan_of(training, priced.network))[1]


def test_a_message_is_the_hidden_states_over_the_network() -> None:
    accelerator = TOPOLOGY.accelerator
    wire_ns = 2 * 2048 * 4096 / (accelerator.network_bytes_per_s * accelerator.reached.network_share) * 1e9
    found = times(TRAINING)
    assert found.shape == (2, 4)
    assert found[0, 3] == found[1, 0] == 0  # the last stage sends nothing on, the first nothing back
    assert found[0, 0] == found[1, 1] == pytest.approx(wire_ns, abs=2 * accelerator.reached.latency_ns)
    assert found[0, 0] > wire_ns


def test_inside_a_node_messages_are_faster() -> None:
    within = replace(TRAINING, degrees=replace(TRAINING.degrees, data=2), global_batch=16)
    assert times(within)[0, 0] < times(TRAINING)[0, 0]


def test_tensor_parallel_devices_send_a_part_each_unless_the_framework_sends_all() -> None:
    tensor = replace(TRAINING, degrees=replace(TRAINING.degrees, tensor=8, data=1), global_batch=8)
    whole = replace(tensor, software=replace(BLOCKING, splits_messages=False))
    spread = replace(tensor, degrees=replace(tensor.degrees, sequence_parallel=True))
    assert times(spread)[0, 0] < times(tensor)[0, 0] < times(whole)[0, 0]  # nothing gathered, gathered, all sent


def test_messages_that_hold_up_the_rank_make_the_step_longer_and_those_in_turn_twice_as_much() -> None:
    overlapped = replace(TRAINING, software=replace(BLOCKING, overlaps_pipeline=True))
    in_turn = replace(TRAINING, software=replace(BLOCKING, messages_in_turn=True))
    assert not sent(overlapped).any()
    assert (sent(TRAINING) == times(TRAINING)).all()
    assert (sent(in_turn) == 2 * times(TRAINING)).all()
    steps = [predict(training, TOPOLOGY).step_ns for training in (overlapped, TRAINING, in_turn)]
    assert steps == sorted(steps)
    assert steps[0] < steps[1] < steps[2]


@pytest.mark.parametrize("overlaps", [False, True])
def test_what_a_stage_sends_is_what_its_last_layer_gives(overlaps: bool) -> None:
    """Layers that hand on more and more: each message as long as that of a model that hands on as much everywhere."""
    handed_on = [1, 1, 2, 2, 3, 3, 4, 4]
    model = replace(MODEL, own=tuple(OwnSizes(handed_on=blocks * MODEL.hidden) for blocks in handed_on))
    training = replace(TRAINING, model=model, software=replace(BLOCKING, overlaps_pipeline=overlaps))
    priced = priced_network(training, TOPOLOGY)
    plan = plan_of(training, priced.network)
    assert plan.layers == ((2, 2, 2, 2),)
    alike = [times(replace(training, model=replace(MODEL, handed_on=count * MODEL.hidden))) for count in (1, 2, 3)]
    simulation, held_up = simulated(training, TOPOLOGY, priced, plan)
    expected = [int(found[0, 0]) for found in alike]
    if overlaps:
        messages = planned_messages(training, TOPOLOGY, range(4))
        planned = simulate(priced.network, plan, communication=messages)
        assert planned.makespan_ns == pytest.approx(simulation.makespan_ns, rel=1e-4)
        least = predict(replace(training, model=MODEL), TOPOLOGY).simulation.makespan_ns
        assert simulation.makespan_ns >= least + sum(expected) - 3 * int(times(training)[0, 0])
    else:
        assert held_up.tolist() == [[*expected, 0], [0, *expected]]


@pytest.mark.parametrize("tensor", [1, 2])
def test_every_residual_stream_is_sent(tensor: int) -> None:
    training = replace(TRAINING, degrees=replace(TRAINING.degrees, tensor=tensor, data=8 // tensor))
    streams = replace(training, model=replace(MODEL, streams=3, carried=MODEL.hidden))
    wide = replace(training, model=replace(MODEL, hidden=4 * MODEL.hidden))
    assert (times(streams) == times(wide)).all()
    assert times(streams)[0, 0] > times(training)[0, 0]
