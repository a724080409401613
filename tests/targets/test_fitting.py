"""What a framework runs in the place of a plan: it can run it, and the losses say exactly what that costs."""

import json
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import (
    Abilities,
    Empty,
    Groups,
    Halves,
    Layer,
    LayerRun,
    Mode,
    Network,
    PassHalves,
    Plan,
    Recomputation,
    Scope,
    even_cut,
)
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.schedule import make_schedule, schedule_of
from evenflow.simulate import simulate
from evenflow.targets.fitting import Fitted, fitted
from evenflow.targets.planning import fit_plan
from evenflow.targets.refusal import refusal
from tests.cli.conftest import TINY
from tests.thoroughness import examples

NETWORK = parse_layer_file(json.dumps(TINY), place="tiny.json")
"""Four layers: forward 1 ms, backward 2 ms, full recompute 1 ms more; 100 MB, 10 MB live or 1 MB."""
LONG = replace(NETWORK, runs=(replace(NETWORK.runs[0], count=12),))
COUNTED = Abilities(
    schedules=("1f1b", "interleaved"),
    recomputation=(Recomputation(scope=Scope.COUNT),),
    empty=Empty.ANY,
    groups=Groups.MEGATRON,
)
MB = 2**20


def fit(plan: Plan, abilities: Abilities = COUNTED, *, limit: int | None = None, layers: int = 4) -> Fitted:
    network = NETWORK if layers == 4 else LONG
    return fitted(plan, network, None, limit, abilities, "Framework", time_limit_s=4.0)


def check(found: Fitted, plan: Plan, abilities: Abilities = COUNTED, *, layers: int = 4) -> None:
    """The plan can be run, is simulated as it is, and the losses add up to the difference from what was planned."""
    network = NETWORK if layers == 4 else LONG
    assert refusal(found.plan, abilities, title="Framework") is None
    planned, after = simulate(network, plan), simulate(network, found.plan)
    assert found.simulation.makespan_ns == after.makespan_ns
    assert planned.makespan_ns + sum(loss.longer_ns for loss in found.losses) == after.makespan_ns
    assert max(planned.peak_memory_bytes) + sum(loss.more_bytes for loss in found.losses) == max(
        after.peak_memory_bytes
    )


def test_a_plan_that_can_be_run_stays_as_it_is():
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((3, 1),), recompute={"full": ((1, 1),)})
    found = fit(plan)
    assert (found.plan, found.losses) == (plan, ())


def test_recomputation_becomes_one_number_and_the_cut_stays():
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((3, 1),), recompute={"full": ((1, 0),)})
    # 3 x 100 MB and two microbatches of 21 MB on rank 0: without recomputation two of 30 MB do not fit.
    found = fit(plan, limit=345 * MB)
    check(found, plan)
    assert found.plan.layers == ((3, 1),)
    assert found.plan.recompute["full"] == ((1, 1),)
    (loss,) = found.losses
    assert loss.what == "recompute is one number on Framework"
    assert (loss.longer_ns, loss.more_bytes, loss.rank) == (1_000_000, 0, 0)
    assert loss.sentence == "recompute is one number on Framework: 5.0 % slower, same peak"


def test_without_a_limit_the_memory_of_the_plan_is_one():
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((3, 1),), recompute={"full": ((1, 0),)})
    assert fit(plan).plan.recompute["full"] == ((1, 1),)


def test_what_fits_nowhere_comes_as_near_as_it_can():
    apart = replace(COUNTED, recomputation=())
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((3, 1),), recompute={"full": ((3, 0),)})
    found = fit(plan, apart, limit=310 * MB)
    check(found, plan, apart)
    assert not found.simulation.fits(310 * MB)
    assert max(found.simulation.peak_memory_bytes) == 360 * MB
    assert "peak +54 MB on rank 0" in found.losses[0].sentence


@pytest.mark.parametrize("name", ["zbv", "v-half", "1f1b-v"])
def test_stages_of_a_v_keep_their_layers_on_other_ranks(name: str):
    plan = Plan(schedule=name, num_microbatches=4, layers=((1, 3), (5, 3)))
    found = fit(plan, layers=12)
    check(found, plan, layers=12)
    assert found.plan.schedule == "interleaved"
    assert found.plan.layers == ((1, 3), (3, 5)), "the order of the network: 1, 3, 3, 5"
    assert found.losses[0].what == f"Framework does not run {name}, and runs interleaved"


def test_an_order_of_its_own_becomes_that_of_a_family():
    named = Plan(schedule="1f1b", num_microbatches=2, layers=((2, 2),))
    order = ("0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1")
    plan = replace(named, schedule="search", order=order)
    assert schedule_of(plan).same_order(make_schedule("1f1b", num_ranks=2, num_chunks=1, num_microbatches=2))
    found = fit(plan)
    assert found.plan == replace(named, recompute=found.plan.recompute)
    assert [loss.what for loss in found.losses] == ["Framework runs no order of a plan's own, and runs 1f1b"]
    assert found.losses[0].sentence.endswith(": as fast, same peak")
    runs_it = replace(COUNTED, own_order=True)
    assert fit(plan, runs_it).losses == ()


@pytest.mark.parametrize("scope", list(Scope))
def test_an_order_of_its_own_stays_where_any_is_run(scope: Scope):
    abilities = replace(COUNTED, own_order=True, recomputation=(Recomputation(scope=scope),))
    order = ("0F0,0F1,0B0,0B1", "1F0,1B0,1F1,1B1")
    plan = Plan(schedule="mine", order=order, num_microbatches=2, layers=((3, 1),), recompute={"full": ((2, 0),)})
    found = fit(plan, abilities)
    check(found, plan, abilities)
    assert (found.plan.order, found.plan.layers) == (order, ((3, 1),))
    # Everything on rank 0 is the least memory that keeps to that of the plan where cells are all or nothing.
    assert found.plan.recompute["full"][0][0] == (2 if scope in (Scope.LAYERS, Scope.COUNT) else 3)
    assert bool(found.losses) == (scope is not Scope.LAYERS)


def test_a_family_that_is_run_as_an_order_of_its_own_stays():
    abilities = replace(COUNTED, own_order=True)
    plan = Plan(schedule="zb-h1", num_microbatches=4, layers=((3, 1),), recompute={"full": ((2, 0),)})
    found = fit(plan, abilities)
    check(found, plan, abilities)
    assert found.plan.schedule == "zb-h1"
    assert [loss.what for loss in found.losses] == ["recompute is one number on Framework"]


def test_an_even_cut_where_no_other_can_be_run():
    even = replace(COUNTED, own_cut=even_cut)
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((3, 1),))
    found = fit(plan, even)
    check(found, plan, even)
    assert found.plan.layers == ((2, 2),)
    assert found.losses[0].what == "Framework deals out the layers by itself"
    assert found.losses[0].sentence.endswith(": as fast, peak -120 MB on rank 0")


def test_a_cell_without_layers_where_none_may_be_empty():
    filled = replace(COUNTED, empty=Empty.NONE)
    plan = Plan(schedule="1f1b", num_microbatches=2, layers=((4, 0),))
    found = fit(plan, filled)
    check(found, plan, filled)
    assert found.losses[0].what == "Framework has no stage without layers there"


def test_groups_of_another_size():
    usual = replace(COUNTED, groups=Groups.USUAL)
    plan = Plan(schedule="interleaved", num_microbatches=6, layers=((3, 3), (3, 3)), group_size=4)
    found = fit(plan, usual, layers=12)
    check(found, plan, usual, layers=12)
    assert found.losses[0].what == "groups of 2 microbatches in the place of 4"


@pytest.mark.parametrize(
    ("changes", "plan", "says"),
    [
        ({"most_chunks": 1}, {"schedule": "interleaved", "layers": ((1, 1), (1, 1))}, "chunks must be at most 1"),
        (
            {"schedules": ("1f1b",)},
            {"schedule": "zbv", "layers": ((1, 1), (1, 1))},
            "a schedule of Framework has: 1f1b",
        ),
        ({}, {"layers": ((2, 2),), "sequence_splits": 2}, "sequence_splits must be 1 for Framework"),
        ({"own_cut": even_cut}, {"layers": ((2, 1, 1),)}, "must be a multiple of the 3 cells"),
    ],
)
def test_what_cannot_be_run_at_all_is_one_message(changes: dict[str, object], plan: dict[str, object], says: str):
    asked = Plan(**{"num_microbatches": 2, "schedule": "1f1b", **plan})  # type: ignore[arg-type]
    with pytest.raises(InputError) as caught:
        fit(asked, replace(COUNTED, **changes))  # type: ignore[arg-type]
    assert says in str(caught.value)


@settings(max_examples=examples(12), deadline=None)
@given(st.data())
def test_any_plan_has_one_that_can_be_run(data: st.DataObject):
    num_chunks = data.draw(st.integers(1, 2))
    counts = data.draw(st.lists(st.integers(0, 12), min_size=2 * num_chunks - 1, max_size=2 * num_chunks - 1))
    cuts = [0, *sorted(counts), 12]
    stages = [end - start for start, end in pairwise(cuts)]
    layers = tuple(tuple(stages[2 * chunk : 2 * chunk + 2]) for chunk in range(num_chunks))
    full = tuple(tuple(data.draw(st.integers(0, count)) for count in row) for row in layers)
    schedule = data.draw(st.sampled_from(["1f1b", "zb-h1"] if num_chunks == 1 else ["interleaved", "zbv", "v-min"]))
    plan = Plan(
        schedule=schedule, num_microbatches=data.draw(st.integers(2, 5)), layers=layers, recompute={"full": full}
    )
    found = fit(plan, layers=12)
    check(found, plan, layers=12)
    assert bool(found.losses) == (refusal(plan, COUNTED, title="Framework") is not None)


def test_pairs_that_a_framework_runs_one_by_one_have_their_price():
    parts = PassHalves(dispatch_ns=300, combine_ns=300)
    layer = Layer(
        name="layer",
        forward_ns=1000,
        parameter_bytes=10,
        modes={"none": Mode(activation_bytes=5, backward_ns=2000)},
        halves=Halves(forward=parts, backward=parts),
    )
    network = Network(name="exchanging", runs=(LayerRun(layer=layer, count=8),))
    plan = Plan(schedule="interleaved-overlap", num_microbatches=4, layers=((2, 2), (2, 2)), recompute={})
    found = fit_plan(plan, network, "torch")
    assert found.plan == plan
    (loss,) = found.losses
    assert "runs both parts of a pair one after the other" in loss.sentence
    order = simulate(network, plan).timeline.schedule.in_turn()
    assert found.simulation.makespan_ns == simulate(network, plan, schedule=order).makespan_ns
    assert loss.longer_ns == found.simulation.makespan_ns - simulate(network, plan).makespan_ns > 0
    assert not fit_plan(plan, network, "megatron").losses
