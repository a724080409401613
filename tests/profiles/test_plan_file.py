import json
import re
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.export.results.json_text import format_object
from evenflow.model import NONE, Communication, HostLink, LayerRun, Mode, MovedShare, Network, Plan, cells, with_offload
from evenflow.profiles.plan_fields import network_fields, plan_fields, simulation_fields
from evenflow.profiles.plan_file import parse_host_link, parse_plan, parse_plan_file, read_host_link, read_plan_file
from evenflow.simulate import BubbleTable, FillDrain, Simulation, simulate
from tests.networks import plain_network
from tests.profiles.test_layer_file import networks

BUBBLES = BubbleTable(real=0.4, ideal=0.1, imbalance=0.2, recompute=0.1, communication=0.0)
IDLE = FillDrain(simulated=0.1, by_formula=None, words="no formula")
GOOD = {
    "ranks": 2, "chunks": 1, "microbatches": 4, "schedule": "1f1b", "sequence_splits": 1, "layers": [[3, 5]],
    "recompute": {"full": [[1, 0]], "select": [[0, 0]]}, "status": "optimal", "extra": None,
}  # fmt: skip


def written(plan: Plan) -> dict[str, object]:
    """Return the fields of a plan that may have no layers and an order that never ends: nothing can simulate it."""
    simulation = SimpleNamespace(
        plan=plan,
        makespan_ns=1_500_000,
        peak_memory_bytes=(2**20,) * plan.num_ranks,
        bubbles=BUBBLES,
        hidden_ns=None,
        exposed_ns=None,
        fill_drain=IDLE,
        network=SimpleNamespace(host_link=None),
        encoded=None,
    )
    return plan_fields(
        cast("Simulation", simulation), status="feasible", lower_bound_ns=1_250_000, memory_limit_bytes=3 * 2**19,
    )  # fmt: skip


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans without tables of zeros, which say nothing."""
    num_chunks, num_ranks = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    kinds = draw(st.lists(st.sampled_from(["full", "select", "comm", "both", "mine"]), unique=True))
    tables = {
        kind: cells([[draw(st.integers(0, 3)) for _ in range(num_ranks)] for _ in range(num_chunks)]) for kind in kinds
    }
    layers = [
        [sum(table[chunk][rank] for table in tables.values()) + draw(st.integers(0, 3)) for rank in range(num_ranks)]
        for chunk in range(num_chunks)
    ]
    own = draw(st.booleans())
    return Plan(
        schedule="search" if own else draw(st.sampled_from(["1f1b", "interleaved", "f-then-b"])),
        order=tuple(draw(st.text(alphabet="0123FBIW,", max_size=9)) for _ in range(num_ranks)) if own else (),
        num_microbatches=draw(st.integers(1, 10**4)),
        layers=cells(layers),
        recompute={kind: table for kind, table in tables.items() if any(map(any, table))},
        sequence_splits=draw(st.integers(1, 8)),
        group_size=None if own else draw(st.none() | st.integers(1, 99)),
    )


def test_the_link_to_the_host_is_that_of_the_network(tmp_path: Path):
    link = HostLink(bytes_per_s=10**9, ahead=2, buffers=3, one_engine=True)
    network = with_offload(plain_network(2), link)
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((1, 1),), recompute={"offload": ((1, 0),)})
    moving, still = simulate(network, plan), simulate(plain_network(2), replace(plan, recompute={}))
    for name, simulation, found in (("moving", moving, link), ("still", still, None)):
        path = tmp_path / f"{name}.json"
        path.write_text(format_object(simulation_fields(simulation, None) | network_fields(simulation)))
        assert read_host_link(path) == found
    assert parse_host_link("{}", place="p.json") is None


def test_counts_of_a_share_are_those_of_the_network():
    share = MovedShare(kind="offload_core_attn", share=0.5)
    link = HostLink(bytes_per_s=10**9)
    plain = plain_network(2)
    modes = {
        NONE: Mode(activation_bytes=9, backward_ns=2),
        share.kind: Mode(activation_bytes=2, offloaded_bytes=7, backward_ns=2),
    }
    layer = replace(plain.layers[0], modes=modes)
    network = replace(plain, runs=(LayerRun(layer=layer, count=4),), host_link=link)
    counts = {share.kind: ((1, 1),)}
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((2, 2),), recompute=counts, moved_share=share)
    simulation = simulate(network, plan)
    text = format_object(simulation_fields(simulation, None) | network_fields(simulation))
    assert parse_plan_file(text, place="p.json").plan == plan
    fields = json.loads(text)
    for change, says in (
        ({"recompute": {share.kind: [[2, 1]]}}, "must have the counts that the share of 'moved_share' makes"),
        ({"moved_share": {"kind": "full", "share": 0.5}}, "must be a set of modules of which some move"),
        ({"moved_share": {"kind": share.kind, "share": 2}}, "must be a number from 0 to 1"),
        ({"moved_share": {"kind": f"{share.kind}+offload_moe_act", "share": 0.5}}, "must have all kinds up to"),
    ):
        with pytest.raises(InputError, match=re.escape(says)):
            parse_plan_file(json.dumps(fields | change), place="p.json")


@given(plans())
def test_reading_what_was_written_gives_the_same_plan(plan: Plan):
    assert parse_plan(format_object(written(plan)), place="plan.json") == plan


@given(
    networks(),
    st.none()
    | st.builds(
        Communication,
        latency_ns=st.integers(0, 10**13),
        transfer_ns=st.integers(0, 10**13),
        bytes_per_s=st.none() | st.integers(10**9, 10**15),
    ),
)
def test_reading_what_was_written_gives_the_same_network_and_messages(network: Network, messages: Communication | None):
    plan = Plan(schedule="1f1b", num_microbatches=1, layers=((network.num_layers,),))
    simulation = simulate(network, plan, communication=messages)
    found = parse_plan_file(format_object(written(plan) | network_fields(simulation)), place="plan.json")
    assert (found.plan, found.network, found.communication) == (plan, network, messages)
    assert found.memory_limit_bytes == 3 * 2**19
    again = simulate(network, found.plan, communication=found.communication)
    assert (again.makespan_ns, again.peak_memory_bytes) == (simulation.makespan_ns, simulation.peak_memory_bytes)


def test_a_file_of_an_older_version_has_no_network():
    found = parse_plan_file(json.dumps(GOOD), place="plan.json")
    assert (found.network, found.communication, found.memory_limit_bytes) == (None, None, None)


@pytest.mark.parametrize(
    ("change", "place", "says"),
    [
        ({"network": None}, "network", "named fields"),
        ({"network": {"layers_description": []}}, "network.layers_description", "BODY"),
        ({"network": {"layers_description": [{"type": "BODY", "name": "L", "nb_layer": 8, "time": -1}]}},
         "network.layers_description[0].time", "from 0"),
        ({"communication": 3}, "communication", "named fields"),
        ({"communication": {"latency_ms": 1}}, "communication", "must have the field 'transfer_ms'"),
        ({"communication": {"latency_ms": 1, "transfer_ms": 1e99}}, "communication.transfer_ms", "to 100,000,000"),
        ({"communication": {"latency_ms": 1, "transfer_ms": 1, "bytes_per_s": 0}},
         "communication.bytes_per_s", "from 1"),
        ({"memory_limit_mb": "56GB"}, "memory_limit_mb", "a number"),
    ],
)  # fmt: skip
def test_what_a_plan_is_of_is_one_clear_message_too(change: dict[str, object], place: str, says: str):
    with pytest.raises(InputError) as caught:
        parse_plan_file(json.dumps(GOOD | change), place="plan.json")
    assert caught.value.place == f"plan.json: {place}"
    assert says in str(caught.value)
    assert parse_plan(json.dumps(GOOD | change), place="plan.json").layers == ((3, 5),)  # which does not look


def test_reads_a_file_and_ignores_other_fields(tmp_path: Path):
    path = tmp_path / "plan.json"
    path.write_text(json.dumps(GOOD), encoding="utf-8")
    plan = read_plan_file(path)
    assert plan == Plan(schedule="1f1b", num_microbatches=4, layers=((3, 5),), recompute={"full": ((1, 0),)})


@pytest.mark.parametrize("field", ["ranks", "chunks", "microbatches", "schedule", "sequence_splits", "layers"])
def test_a_missing_field_is_named(field: str):
    text = json.dumps({key: value for key, value in GOOD.items() if key != field})
    with pytest.raises(InputError, match=f"plan.json must have the field '{field}'"):
        parse_plan(text, place="plan.json")


@pytest.mark.parametrize(
    ("change", "place", "says"),
    [
        ({"layers": [[3, "5"]]}, "layers", "a list of lists of integers"),
        ({"layers": [3, 5]}, "layers", "a list of lists of integers"),
        ({"layers": [[3, True]]}, "layers", "a list of lists of integers"),
        ({"layers": [[3, 5], [1]], "chunks": 2}, "layers", "2 x 2"),
        ({"layers": [], "chunks": 1}, "chunks", "must be 0, as many as 'layers' has"),
        ({"layers": [[-3, 5]]}, "layers", "integers from 0 to 100,000"),
        ({"ranks": 3}, "ranks", "must be 2, as many as 'layers' has"),
        ({"chunks": 2}, "chunks", "must be 1, as many as 'layers' has, got 2"),
        ({"microbatches": 0}, "microbatches", "from 1"),
        ({"microbatches": 2.5}, "microbatches", "integer"),
        ({"sequence_splits": False}, "sequence_splits", "integer"),
        ({"schedule": 1}, "schedule", "a text"),
        ({"recompute": [[0, 0]]}, "recompute", "named fields"),
        ({"recompute": {"full": [[4, 0]]}}, "recompute, chunk 0, rank 0", "at most the 3 layers"),
        ({"recompute": {"full": [[1]]}}, "full", "1 x 2"),
        ({"recompute": {"full": 3}}, "recompute.full", "a list of lists"),
        ({"recompute": {"none": [[1, 1]]}}, "recompute", "must not list"),
    ],
)
def test_a_bad_field_is_one_clear_message(change: dict[str, object], place: str, says: str):
    with pytest.raises(InputError) as caught:
        parse_plan(json.dumps(GOOD | change), place="plan.json")
    assert caught.value.place == f"plan.json: {place}"
    assert says in str(caught.value)


def test_the_answer_of_a_search_without_a_plan_says_so():
    text = json.dumps({**GOOD, "status": "infeasible", "layers": None, "recompute": None})
    with pytest.raises(InputError) as caught:
        parse_plan(text, place="plan.json")
    assert str(caught.value) == (
        "plan.json: layers must be the layers of a plan, but there is none: the status is 'infeasible'; "
        "write a plan that fits first"
    )
