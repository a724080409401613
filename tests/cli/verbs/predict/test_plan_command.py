"""What `evenflow plan` is given of a prediction: its layers, its messages, and a limit without the reserve."""

import shlex
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.cli.shared.training.planner_inputs import planner_inputs
from evenflow.cli.verbs.predict.plan_command import next_plan
from evenflow.cluster.topology import Topology
from evenflow.model import Communication
from evenflow.predict.prediction import predict
from evenflow.predict.training import Degrees, Sharding, Software, Training
from evenflow.predict.transformer import Experts
from evenflow.profiles.layer_file import format_layer_file, parse_layer_file
from evenflow.simulate import simulate
from tests.predict.trainings import DEVICE, LLAMA, TOPOLOGY, training
from tests.thoroughness import examples

GIGABYTE = 2**30
FILE = Path("layers.json")


def following_plan(prediction, layer_file, *, memory_limit_bytes):
    inputs = planner_inputs(prediction, prediction.topology, memory_limit_bytes=memory_limit_bytes)
    return next_plan(prediction, inputs, layer_file)


@st.composite
def trainings(draw: st.DrawFn) -> Training:
    """Small trainings of every kind."""
    degrees = Degrees(
        tensor=draw(st.sampled_from([1, 2])),
        pipeline=draw(st.sampled_from([1, 2, 4])),
        chunks=draw(st.sampled_from([1, 2])),
        context=draw(st.sampled_from([1, 2])),
        data=draw(st.sampled_from([1, 2])),
        sequence_parallel=draw(st.booleans()),
        sharding=draw(st.sampled_from(list(Sharding))),
    )
    experts = draw(st.sampled_from([None, Experts(count=4, active=2, ffn=512, dense_layers=1)]))
    software = Software(fused_attention=draw(st.booleans()), fused_elementwise=draw(st.booleans()))
    return training(
        model=replace(LLAMA, experts=experts),
        degrees=degrees,
        software=software,
        recompute=draw(st.sampled_from(["none", "select", "full"])),
        recompute_modules=draw(st.sampled_from([("core_attn",), ("mlp", "layernorm")])),
    )


@settings(deadline=None, max_examples=examples(40))
@given(asked=trainings(), devices_per_node=st.sampled_from([1, 2, 4, 8, 64]))
def test_the_layer_file_loses_nothing(asked, devices_per_node):
    found = predict(asked, Topology(accelerator=DEVICE, domain_devices=devices_per_node))
    read = parse_layer_file(format_layer_file(found.network), place="layers.json")
    assert read == found.network
    following = following_plan(found, FILE, memory_limit_bytes=80 * GIGABYTE)
    words = dict(pairwise(shlex.split(following.command)))
    message = Communication(latency_ns=int(words.get("--p2p-latency", "0ns").removesuffix("ns")))
    again = simulate(read, found.simulation.plan, communication=message)
    assert again.makespan_ns == following.pipeline_ns >= found.simulation.makespan_ns
    assert again.peak_memory_bytes == found.simulation.peak_memory_bytes


@settings(deadline=None, max_examples=examples(40))
@given(share=st.floats(0, 2), driver_bytes=st.integers(0, GIGABYTE), fuller=st.floats(0.1, 3))
def test_a_plan_within_the_limit_fits_with_its_reserve_and_the_driver(share, driver_bytes, fuller):
    """The reserve is a share of what a rank holds, so a fuller rank has more of it."""
    reached = DEVICE.reached.changed({"reserve_share": share, "driver_bytes": float(driver_bytes)})
    found = predict(training(), replace(TOPOLOGY, accelerator=replace(DEVICE, reached=reached)))
    most = max(found.simulation.peak_memory_bytes)
    limit = driver_bytes + round((1 + share) * (fuller * most + 2**21))
    command = following_plan(found, FILE, memory_limit_bytes=limit).command
    planned = int(dict(pairwise(shlex.split(command)))["--memory"].removesuffix("MB")) * 2**20
    assert planned * (1 + share) + driver_bytes <= limit * (1 + 1e-6)
    assert (planned + 2**21) * (1 + share) + driver_bytes >= limit


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({}, "evenflow plan layers.json --ranks 4 --microbatches 16 --memory"),
        ({"degrees": Degrees(pipeline=4, chunks=2)}, "--ranks 4 --microbatches 16 --chunks 2 --memory"),
        ({"schedule": "zb-h1"}, "--schedule zb-h1 --memory"),
        ({"degrees": Degrees(pipeline=4, chunks=2), "group_size": 8}, "--chunks 2 --group-size 8 --memory"),
    ],
)
def test_sizes_are_in_the_command(changes, words):
    command = following_plan(predict(training(**changes), TOPOLOGY), FILE, memory_limit_bytes=GIGABYTE).command
    assert words in command


def test_one_rank_sends_nothing_and_an_unknown_limit_is_none():
    found = predict(training(degrees=Degrees()), TOPOLOGY)
    command = following_plan(found, Path("my layers.json"), memory_limit_bytes=0).command
    assert command == "evenflow plan 'my layers.json' --ranks 1 --microbatches 16"
