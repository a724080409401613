import json

import pytest

from evenflow.baselines.named_plans import NAIVE_PLANS, NamedPlan, Skipped, naive_plans
from evenflow.model import BOTH, FULL, Sizes
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.simulate import as_fractions
from tests.cli.conftest import TINY

NETWORK = parse_layer_file(json.dumps(TINY), place="tiny.json")


def test_everything_is_recomputed_in_one_and_nothing_in_the_other():
    everything, nothing = naive_plans(NETWORK, Sizes(num_ranks=2, num_microbatches=2), schedule="1f1b")
    assert isinstance(everything, NamedPlan)
    assert isinstance(nothing, NamedPlan)
    assert (everything.name, nothing.name) == NAIVE_PLANS
    assert everything.simulation.plan.layers == nothing.simulation.plan.layers == ((2, 2),)
    assert everything.simulation.plan.recompute == {FULL: ((2, 2),)}
    assert nothing.simulation.plan.recompute == {}


def test_without_full_every_measured_recomputation_is_done_as_in_the_original():
    """The figure of the [SAPP guide] for its example (90, 90 and 180 ms) has a recompute bubble of 0.1067: both."""
    names = ("memory_activation", "memory_select_rec", "memory_select_comm", "memory_both_comm_select")
    body = {"name": "Body", "type": "BODY", "nb_layer": 96, "time": 90, "memory_parameter": 2141}
    body |= dict(zip(names, (852, 767, 535, 511), strict=True))
    ends = [{"name": kind, "type": kind, "nb_layer": 1, "time": time} for kind, time in (("HEAD", 90), ("TAIL", 180))]
    network = parse_layer_file(json.dumps({"name": "demo", "layers_description": [body, *ends]}), place="demo.json")
    sizes = Sizes(num_ranks=16, num_chunks=3, num_microbatches=16)
    everything, _ = naive_plans(network, sizes, schedule="interleaved", only_divisible=True)
    assert isinstance(everything, NamedPlan)
    assert everything.simulation.plan.recompute == {BOTH: ((2,) * 16,) * 3}
    assert as_fractions(everything.simulation.bubbles)["recompute"] == pytest.approx(0.1067, abs=5e-5)
    assert everything.certificate == "every layer is under both; full recomputation was not measured"


def test_nothing_measured_is_said():
    entry = {key: value for key, value in TINY["layers_description"][0].items() if key != "memory_recompute"}
    plain = parse_layer_file(json.dumps({**TINY, "layers_description": [entry]}), place="plain.json")
    everything, nothing = naive_plans(plain, Sizes(num_ranks=2, num_microbatches=2), schedule="1f1b")
    assert everything == Skipped(
        name="naive_all_recomp", reason="the layer file has the memory of no recompute kind that may be used here"
    )
    assert isinstance(nothing, NamedPlan)


def test_layers_that_do_not_divide_are_skipped_where_asked():
    sizes = Sizes(num_ranks=3, num_microbatches=3)
    assert all(isinstance(plan, NamedPlan) for plan in naive_plans(NETWORK, sizes, schedule="1f1b"))
    skipped = naive_plans(NETWORK, sizes, schedule="1f1b", only_divisible=True)
    assert skipped == [
        Skipped(name=name, reason="4 layers do not divide by the 3 parts of the pipeline") for name in NAIVE_PLANS
    ]


def test_what_cannot_be_made_says_why():
    plans = naive_plans(NETWORK, Sizes(num_ranks=5, num_microbatches=5), schedule="1f1b", allow_empty=False)
    assert all(isinstance(plan, Skipped) and "5 ranks" in plan.reason for plan in plans)
