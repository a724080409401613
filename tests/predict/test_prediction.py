"""The step and its parts: small steps worked out by hand, and what holds of all of them."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.cluster import Collective
from evenflow.cluster.accelerators import Accelerator
from evenflow.cluster.collectives import collective_ns
from evenflow.cluster.reached import Reached
from evenflow.cluster.topology import DeviceGroup, Topology
from evenflow.predict.parameters import head_parameters, layer_parameters, tail_parameters
from evenflow.predict.prediction import BUBBLE, OPTIMIZER, STEP, Prediction, predict
from evenflow.predict.training import Degrees, Sharding, Software, Training
from evenflow.predict.transformer import DENSE, Transformer
from evenflow.predict.work import Spent
from tests.predict.test_memory import trainings, transformer

DEVICE = Accelerator(
    flops_per_s=100e12, memory_bytes_per_s=1e12, link_bytes_per_s=100e9, network_bytes_per_s=10e9,
    reached=Reached(step_ns=1_000_000),
)  # fmt: skip
NODES = Topology(accelerator=DEVICE, domain_devices=8)
EXCHANGES = (Spent.TENSOR, Spent.CONTEXT, Spent.EXPERT, Spent.DATA, Spent.PIPELINE)


def training(
    degrees: Degrees, *, microbatches: int = 1, model: Transformer | None = None, **software: object
) -> Training:
    return Training(
        model=model or transformer(),
        degrees=degrees,
        microbatch=1,
        global_batch=degrees.data * microbatches,
        sequence=256,
        software=Software(**software),  # type: ignore[arg-type]
    )


def exposed(prediction: Prediction, name: str) -> float:
    return next(part.exposed_ns for part in prediction.parts if part.name == name)


@st.composite
def steps(draw: st.DrawFn) -> Training:
    """Trainings in every layout of devices, with and without each overlap."""
    drawn = draw(trainings())
    degrees = replace(
        drawn.degrees,
        context=draw(st.sampled_from([1, 2])),
        expert=draw(st.sampled_from([1, 2, 4])) if drawn.model.experts else 1,
        data=draw(st.sampled_from([1, 4, 6, 16])),
        data_outermost=draw(st.booleans()),
    )
    names = (
        "overlaps_gradients", "overlaps_parameters", "overlaps_pipeline", "captured_graphs", "sends_tokens_once",
        "splits_messages",
    )  # fmt: skip
    software = replace(drawn.software, **{name: draw(st.booleans()) for name in names})
    return replace(drawn, degrees=degrees, software=software)


@given(steps())
def test_parts_add_up_and_none_is_negative(training: Training) -> None:
    found = predict(training, NODES)
    timeline = found.simulation.timeline
    assert sum(part.exposed_ns for part in found.parts) == pytest.approx(found.step_ns, rel=1e-12)
    assert len({part.name for part in found.parts}) == len(found.parts)
    assert all(0 <= part.recomputed_ns <= part.exposed_ns + 1e-3 for part in found.parts)
    assert all(part.hidden_ns >= 0 for part in found.parts)
    # The simulator's time of the busiest rank is in the parts: it computes, sends or waits.
    rank = found.busiest_rank
    inside = sum(exposed(found, name) for name in (*Spent, BUBBLE) if name is not Spent.DATA)
    assert inside <= (timeline.busy_ns[rank] + found.idle_ns[rank]) * (1 + 1e-9)
    assert all(-1e-3 <= found.idle_ns[rank] <= idle_ns for idle_ns in found.idle_ns)
    assert found.step_ns >= (timeline.makespan_ns + exposed(found, STEP)) * (1 - 1e-9)


@given(trainings())
def test_one_device_communicates_with_nobody(training: Training) -> None:
    alone = replace(training, degrees=Degrees(), schedule=None)
    found = predict(alone, NODES)
    assert all(exposed(found, name) == 0 for name in (*EXCHANGES, BUBBLE))
    assert all(part.hidden_ns == 0 for part in found.parts)
    priced, kind = found.priced, alone.recompute
    layers = sum(layer.forward.total_ns + layer.backward[kind].total_ns for layer in priced.layers)
    ends = sum(end.forward.total_ns + end.backward["none"].total_ns for end in (priced.head, priced.tail))
    expected = alone.microbatches * (layers + ends) + exposed(found, OPTIMIZER) + DEVICE.reached.step_ns
    assert found.step_ns == pytest.approx(expected, rel=1e-5)  # every part is rounded to a nanosecond


@given(steps(), st.sampled_from(["overlaps_gradients", "overlaps_parameters", "overlaps_pipeline"]))
def test_what_overlaps_is_never_longer(training: Training, flag: str) -> None:
    def step_ns(overlaps: bool) -> float:
        return predict(replace(training, software=replace(training.software, **{flag: overlaps})), NODES).step_ns

    assert step_ns(True) <= step_ns(False) * (1 + 1e-9)


@given(steps(), st.sampled_from(["link_bytes_per_s", "network_bytes_per_s", "memory_bytes_per_s", "flops_per_s"]))
def test_a_better_device_is_never_slower(training: Training, rate: str) -> None:
    better = replace(DEVICE, **{rate: 2 * getattr(DEVICE, rate)})
    usual = predict(training, NODES).step_ns
    assert predict(training, replace(NODES, accelerator=better)).step_ns <= usual * (1 + 1e-9)


SMALL = transformer(vocabulary=1000)
"""Its gradients fit in one bucket."""


def rank_parameters(of: Training, layers: int) -> float:
    alone = of.degrees.pipeline == 1
    ends = head_parameters(of) + tail_parameters(of, has_embedding=alone)
    return ends.dense + layers * layer_parameters(of, DENSE).dense


def test_gradients_after_the_last_backward() -> None:
    pair = training(Degrees(data=2, sharding=Sharding.NOTHING), model=SMALL, overlaps_gradients=False)
    found = predict(pair, NODES)
    axis = NODES.axis(DeviceGroup(size=2), Collective.ALL_REDUCE)
    whole = collective_ns(axis, Collective.ALL_REDUCE, round(4 * rank_parameters(pair, 8)))
    norm = collective_ns(axis, Collective.ALL_REDUCE, 4)
    assert exposed(found, Spent.DATA) == pytest.approx(whole + norm, rel=1e-9)


def test_half_the_bytes_are_reduced_in_half_of_the_time() -> None:
    def data_ns(**software: object) -> float:
        degrees = Degrees(data=2, sharding=Sharding.NOTHING)
        pair = training(degrees, model=SMALL, overlaps_gradients=False, **software)
        return exposed(predict(pair, NODES), Spent.DATA)

    latency = 2 * collective_ns(NODES.axis(DeviceGroup(size=2), Collective.ALL_REDUCE), Collective.ALL_REDUCE, 1)
    assert data_ns(reduced_bytes=2) - latency == pytest.approx((data_ns() - latency) / 2, rel=1e-3)


def test_the_optimizer_is_shared_out() -> None:
    def optimizer_ns(sharding: Sharding) -> float:
        fast = replace(NODES, accelerator=replace(DEVICE, reached=Reached(operator_ns=0, memory_share=1)))
        return exposed(predict(training(Degrees(data=4, sharding=sharding)), fast), OPTIMIZER)

    count = rank_parameters(training(Degrees(data=4)), 8)
    # 30 bytes for Adam and 12 for norm and clipping, of the own part; 4 bytes of every gradient are set to zero.
    assert optimizer_ns(Sharding.NOTHING) == pytest.approx((42 + 4) * count / 1e12 * 1e9)
    assert optimizer_ns(Sharding.OPTIMIZER) == pytest.approx((42 / 4 + 4) * count / 1e12 * 1e9)


@pytest.mark.parametrize("overlaps", [False, True])
def test_one_microbatch_goes_there_and_back(overlaps: bool) -> None:
    two = training(Degrees(pipeline=2), overlaps_pipeline=overlaps)
    found = predict(two, NODES)
    network = found.priced.network
    layer = network.layers[0]
    compute = 8 * (layer.forward_ns + layer.backward_ns)
    compute += sum(end.forward_ns + end.backward_ns for end in (network.head, network.tail))
    message = NODES.message_ns(2 * 256 * 512, sender=0, receiver=1, count=1)
    assert found.simulation.makespan_ns == compute + 2 * round(message)


def test_messages_that_block_hold_both_ranks_up() -> None:
    """In the steady part of 1F1B a rank between others sends two messages a microbatch."""
    four = replace(transformer(), layers=4)
    few, many = (
        predict(training(Degrees(pipeline=4), microbatches=count, model=four, overlaps_pipeline=False), NODES)
        for count in (8, 9)
    )
    rank_ns = few.simulation.costs.forward_ns + few.simulation.costs.backward_ns
    assert many.simulation.makespan_ns - few.simulation.makespan_ns == rank_ns.max()
    layer = few.priced.network.layers[0]
    message = round(NODES.message_ns(2 * 256 * 512, sender=0, receiver=1, count=1))
    assert rank_ns[1] == layer.forward_ns + layer.backward_ns + 2 * message


def test_a_chunk_is_reduced_while_others_compute() -> None:
    def data_ns(chunks: int) -> float:
        degrees = Degrees(pipeline=2, chunks=chunks, data=8)
        return exposed(predict(training(degrees, microbatches=4, model=transformer(hidden=2048)), NODES), Spent.DATA)

    assert data_ns(4) < data_ns(2) < data_ns(1)


def test_tied_embeddings_are_added_up_between_the_ends() -> None:
    def data_ns(tied: bool) -> float:
        model = transformer(tied=tied)
        return exposed(predict(training(Degrees(pipeline=2), model=model), NODES), Spent.DATA)

    table = 512 * 50_304  # filled up to a multiple of 128
    axis = NODES.axis(DeviceGroup(size=2), Collective.ALL_REDUCE)
    assert data_ns(True) - data_ns(False) == collective_ns(axis, Collective.ALL_REDUCE, 4 * table)


def test_pipeline_ranks_next_to_each_other() -> None:
    """Messages then stay in a node, and gradients leave it."""
    degrees = Degrees(pipeline=4, tensor=2, data=4, sharding=Sharding.NOTHING)
    apart, near = (
        predict(training(replace(degrees, data_outermost=outermost), microbatches=8), NODES)
        for outermost in (False, True)
    )
    assert near.simulation.makespan_ns < apart.simulation.makespan_ns
    assert exposed(near, Spent.DATA) > exposed(apart, Spent.DATA)


def test_parameters_in_8_bits_are_gathered_in_half_of_the_time() -> None:
    def data_ns(gathered_bytes: int) -> float:
        degrees = Degrees(data=2, sharding=Sharding.OPTIMIZER)
        return exposed(
            predict(training(degrees, overlaps_parameters=False, gathered_bytes=gathered_bytes), NODES), Spent.DATA
        )

    axis = NODES.axis(DeviceGroup(size=2), Collective.ALL_GATHER)
    a_byte = collective_ns(axis, Collective.ALL_GATHER, round(rank_parameters(training(Degrees()), 8)))
    assert data_ns(2) - data_ns(1) == pytest.approx(a_byte - axis.start_ns - 2 * axis.latency_ns, rel=1e-3)


@pytest.mark.parametrize(
    ("sequence_parallel", "splits", "share"), [(True, True, 2), (False, True, 2), (False, False, 1)]
)
def test_who_sends_how_much(sequence_parallel: bool, splits: bool, share: int) -> None:
    degrees = Degrees(pipeline=2, tensor=2, sequence_parallel=sequence_parallel)
    found = predict(training(degrees, splits_messages=splits), NODES).simulation.communication
    assert found is not None
    whole = 2 * 256 * 512
    sent = NODES.message_ns(whole / share, sender=0, receiver=2, count=2)
    axis = NODES.axis(DeviceGroup(size=2), Collective.ALL_GATHER)
    gathered = 0 if sequence_parallel or not splits else collective_ns(axis, Collective.ALL_GATHER, whole)
    assert found.message_ns == round(sent) + gathered


def test_graphs_launch_what_the_host_cannot() -> None:
    small = training(Degrees(), model=transformer(hidden=64, heads=1, kv_heads=1, ffn=256))
    captured = replace(small, software=Software(captured_graphs=True))
    assert predict(captured, NODES).step_ns < predict(small, NODES).step_ns / 3


@pytest.mark.parametrize("schedule", ["gpipe", "zb-h1"])
def test_families_by_name(schedule: str) -> None:
    named = replace(training(Degrees(pipeline=4), microbatches=8), schedule=schedule)
    found = predict(named, NODES)
    assert found.simulation.plan.schedule == schedule
    assert exposed(found, BUBBLE) > 0


@pytest.mark.parametrize("kv_heads", [1, 2, 4, 8])
def test_heads_of_keys_and_values_are_split_though_there_are_fewer_than_devices(kv_heads: int) -> None:
    """Then all devices gather what each has computed, for nobody has a whole head."""
    model = transformer(kv_heads=kv_heads)
    matrices = 2 * 512 * 512 + 2 * 512 * kv_heads * 64 + 2 * 512 * 2048 * (1.5 if model.gated else 1)
    one, split = (training(Degrees(tensor=tensor), model=model) for tensor in (1, 8))
    whole, part = (layer_parameters(each, DENSE).dense for each in (one, split))
    assert (whole - part) / matrices == pytest.approx(7 / 8, rel=0.01)
    axis = NODES.axis(DeviceGroup(size=8), Collective.ALL_GATHER)
    width = (8 + 2 * kv_heads) * 64
    once = collective_ns(axis, Collective.ALL_GATHER, 2 * 256 * width)
    again = collective_ns(axis, Collective.REDUCE_SCATTER, 2 * 256 * width)
    enough = predict(training(Degrees(tensor=8), model=transformer(kv_heads=8)), NODES)
    more = exposed(predict(split, NODES), Spent.TENSOR) - exposed(enough, Spent.TENSOR)
    runs = 8 * split.microbatches
    assert more == pytest.approx(runs * (once + again) if kv_heads < 8 else 0)
