import json

from evenflow.baselines.named_plans import NAIVE_KINDS, NamedPlan, Skipped, naive_plans
from evenflow.model import FULL, Sizes
from evenflow.profiles.layer_file import parse_layer_file
from tests.cli.conftest import TINY

NETWORK = parse_layer_file(json.dumps(TINY), place="tiny.json")


def test_everything_is_recomputed_in_one_and_nothing_in_the_other():
    everything, nothing = naive_plans(NETWORK, Sizes(num_ranks=2, num_microbatches=2), schedule="1f1b")
    assert isinstance(everything, NamedPlan)
    assert isinstance(nothing, NamedPlan)
    assert (everything.name, nothing.name) == tuple(NAIVE_KINDS)
    assert everything.simulation.plan.layers == nothing.simulation.plan.layers == ((2, 2),)
    assert everything.simulation.plan.recompute == {FULL: ((2, 2),)}
    assert nothing.simulation.plan.recompute == {}


def test_layers_that_do_not_divide_are_skipped_where_asked():
    sizes = Sizes(num_ranks=3, num_microbatches=3)
    assert all(isinstance(plan, NamedPlan) for plan in naive_plans(NETWORK, sizes, schedule="1f1b"))
    skipped = naive_plans(NETWORK, sizes, schedule="1f1b", only_divisible=True)
    assert skipped == [
        Skipped(name=name, reason="4 layers do not divide by the 3 cells (ranks x chunks)") for name in NAIVE_KINDS
    ]


def test_what_cannot_be_made_says_why():
    plans = naive_plans(NETWORK, Sizes(num_ranks=5, num_microbatches=5), schedule="1f1b")
    assert all(isinstance(plan, Skipped) and "5 ranks" in plan.reason for plan in plans)
