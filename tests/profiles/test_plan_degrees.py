"""Degrees in a plan file: what `evenflow auto` writes of made-up ones reads back, and spoiled ones are one message."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.fields import as_fields
from evenflow.predict.training import Degrees, Sharding
from evenflow.profiles.plan_degrees import MissingDegrees, degrees_fields, read_degrees

SIZES = st.integers(1, 64)
DEGREES = {
    "tensor": 4, "context": 1, "expert": 1, "data": 8, "replicas": 2, "zero": "1", "pipeline": 2, "chunks": 1,
    "sequence_parallel": True,
}  # fmt: skip
TOP = {"microbatch": 16, "microbatches": 4, "sequence": 4096, "degrees": DEGREES}


@given(
    st.builds(
        Degrees,
        tensor=SIZES,
        context=SIZES,
        data=SIZES,
        expert=SIZES,
        pipeline=SIZES,
        chunks=SIZES,
        sequence_parallel=st.booleans(),
        expert_tensor=st.none() | SIZES,
        sharding=st.sampled_from(Sharding),
        context_exchange=st.sampled_from(("ring", "all-gather", "all-to-all")),
        optimizer_offload=st.sampled_from([0.0, 0.5, 1.0]),
    ),
    SIZES,
    SIZES,
)
def test_what_is_written_reads_back(degrees, replicas, microbatch):
    degrees = Degrees(
        **{name: getattr(degrees, name) for name in degrees.__slots__} | {"data": degrees.data * replicas}
    )
    if degrees.context == 1:
        degrees = replace(degrees, context_exchange="ring")  # nothing is exchanged
    top = {"microbatch": microbatch * degrees.data, "microbatches": 3, "sequence": 128}
    written = {"degrees": degrees_fields(degrees, replicas=replicas)}
    found = read_degrees(as_fields({**top, **written}, file="plan.json"))
    assert (found.degrees, found.replicas, found.microbatch) == (degrees, replicas, microbatch)
    assert found.global_batch == microbatch * 3 * degrees.data


def test_the_split_of_experts_and_the_exchange_of_sequences():
    found = read_degrees(as_fields(TOP, file="plan.json"))
    assert (found.degrees.expert_tensor, found.degrees.context_exchange) == (None, "ring")
    stated = DEGREES | {"expert_tensor": 2, "context_exchange": "all-to-all"}
    found = read_degrees(as_fields({**TOP, "degrees": stated}, file="plan.json"))
    assert (found.degrees.expert_tensor, found.degrees.context_exchange) == (2, "all-to-all")


def test_a_plan_without_common_degrees_says_why():
    reason = "stage 0 is on 4 devices, stage 1 on 2"
    fields = {"degrees": None, "degrees_missing": reason}
    assert read_degrees(as_fields(fields, file="plan.json")) == MissingDegrees(reason=reason)
    plain = [
        {"name": "slow", "makespan_ms": 9.0},
        {"name": "DDP", "makespan_ms": 7.5},
        {"name": "none", "makespan_ms": None},
    ]
    found = read_degrees(as_fields({**fields, "plain": plain}, file="plan.json"))
    assert found == MissingDegrees(reason=reason, plain="DDP", plain_ms=7.5)
    assert read_degrees(as_fields({}, file="plan.json")) is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"tensor": 0}, "plan.json: degrees.tensor must be an integer from 1 to 1,000,000, got 0"),
        ({"tensor": 10**30}, "degrees.tensor must be an integer from 1 to 1,000,000"),
        ({"data": "8"}, "degrees.data must be an integer"),
        ({"data": True}, "degrees.data must be an integer"),
        ({"replicas": 3}, "degrees.replicas must divide 'data'"),
        ({"zero": "4"}, "degrees.zero must be one of 0, 1, 2, 3"),
        ({"zero": 1}, "degrees.zero must be a text"),
        ({"sequence_parallel": "yes"}, "degrees.sequence_parallel must be true or false"),
        ({"expert_tensor": 0}, "degrees.expert_tensor must be an integer from 1"),
        ({"context_exchange": "post"}, "degrees.context_exchange must be one of ring, all-gather, all-to-all"),
        ({"pipeline": None}, "degrees.pipeline must be an integer"),
        ({"expert_tensor": 0}, "degrees.expert_tensor must be an integer from 1 to"),
        ({"expert_tensor": "2"}, "degrees.expert_tensor must be an integer"),
        ({"context_exchange": "p2p"}, "degrees.context_exchange must be one of ring, all-gather, all-to-all"),
        ({"context_exchange": 1}, "degrees.context_exchange must be a text"),
    ],
)
def test_spoiled_degrees(changes, message):
    with pytest.raises(InputError) as caught:
        read_degrees(as_fields({**TOP, "degrees": {**DEGREES, **changes}}, file="plan.json"))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"degrees": [1]}, "degrees must be an object"),
        ({"degrees": None}, "degrees_missing"),
        ({"degrees": None, "degrees_missing": "x", "plain": [{"name": 3, "makespan_ms": 1}]}, "plain[0].name must be"),
        ({"microbatch": 9}, "microbatch must be a multiple of 'data', 8, got 9"),
        ({"sequence": -1}, "sequence must be an integer from 1 to"),
    ],
)
def test_spoiled_files(changes, message):
    with pytest.raises(InputError) as caught:
        read_degrees(as_fields({**TOP, **changes}, file="plan.json"))
    assert message in str(caught.value)
