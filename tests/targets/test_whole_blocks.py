"""Plans of half blocks for frameworks that have no cut inside a block: the same step, or the nearest, priced."""

import json
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import FULL, Abilities, Empty, LayerRun, Network, Plan, Recomputation, Scope, cells, whole_blocks_of
from evenflow.profiles.layer_file import format_layer_file, parse_layer_file
from evenflow.profiles.plan_fields import simulation_fields
from evenflow.profiles.plan_file import parse_plan
from evenflow.schedule import FAMILIES
from evenflow.simulate import simulate
from evenflow.solve import Status
from evenflow.solve.for_target import solve_for_target
from evenflow.solve.requests import ContestSearch
from evenflow.targets.fitting import fitted
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import all_targets
from evenflow.targets.whole_blocks import in_layers, in_whole_blocks, with_nearest_cut
from tests.solve.cases import cases as solver_cases
from tests.solve.exhaustive import every_plan
from tests.strategies import networks, plans
from tests.targets.test_further_tokens import ruled_case
from tests.thoroughness import examples

WHOLE = Abilities(
    schedules=("1f1b", "interleaved", "zbv"), recomputation=(Recomputation(scope=Scope.LAYERS),), empty=Empty.ANY
)
PARTING = replace(WHOLE, parts_blocks=True)
MODEL = {
    "name": "halves",
    "layers_description": [
        {"name": "Block", "type": "BODY", "nb_layer": 3, "layers": [
            {"name": "attention", "nb_layer": 1, "time": 1, "memory_parameter": 1, "memory_activation": 4,
             "memory_recompute": 1},
            {"name": "MLP", "nb_layer": 1, "time": 2, "memory_parameter": 2, "memory_activation": 8,
             "memory_recompute": 1, "continues_block": True},
        ]},
    ],
}  # fmt: skip


def parted(network: Network, continues: list[bool]) -> Network:
    """The network in which some layers continue the block of the layer before them."""
    marked = [
        replace(layer, continues_block=bool(place) and more)
        for place, (layer, more) in enumerate(zip(network.layers, continues, strict=True))
    ]
    return replace(network, runs=tuple(LayerRun(layer=layer, count=1) for layer in marked))


@st.composite
def parted_networks(draw: st.DrawFn) -> Network:
    network = draw(networks(max_layers=10))
    flags = draw(st.lists(st.booleans(), min_size=network.num_layers, max_size=network.num_layers))
    marked = parted(network, flags)
    assume(marked.continuing_layers)
    return marked


@given(st.data())
def test_a_plan_of_whole_blocks_costs_what_it_costs_in_layers(data):
    network = data.draw(parted_networks())
    blocks = whole_blocks_of(network)
    plan = data.draw(plans(blocks.network))
    assume(not plan.order)
    of_blocks = simulate(blocks.network, plan)
    of_layers = simulate(network, in_layers(plan, blocks))
    assert of_layers.plan.continuing_layers == network.continuing_layers
    assert of_blocks.plan.continuing_layers == 0
    if plan.sequence_splits == 1:  # else each layer is rounded for itself
        assert of_layers.makespan_ns == of_blocks.makespan_ns
        if not of_layers.timeline.schedule.has_pairs:  # where blocks pair one by one, other layers stand side by side
            assert of_layers.peak_memory_bytes == of_blocks.peak_memory_bytes
    used = {kind: table for kind, table in plan.recompute.items() if any(map(any, table))}
    assert in_whole_blocks(of_layers.plan, blocks) == replace(plan, recompute=used)


@given(st.data())
def test_a_plan_is_one_of_whole_blocks_unless_a_cut_or_a_kind_parts_one(data):
    network = data.draw(parted_networks())
    blocks = whole_blocks_of(network)
    plan = data.draw(plans(network))
    whole = in_whole_blocks(plan, blocks)
    if whole is not None:
        assert in_layers(whole, blocks) == replace(
            plan,
            recompute={kind: plan.recompute[kind] for kind in plan.recompute if kind in plan.used_kinds},
            continuing_layers=network.continuing_layers,
        )
    near = with_nearest_cut(plan, blocks)
    assert near.num_layers == blocks.network.num_layers
    if whole is not None:
        assert near.layers == whole.layers


@given(data=st.data())
@settings(max_examples=examples(12), deadline=None)
def test_the_plan_for_a_framework_is_the_best_of_whole_blocks_and_no_shorter_than_that_of_halves(data):
    case = data.draw(solver_cases(time=1_000_000, memory=2**20 + 7, any_order=False))
    assume(case.sizes.num_chunks >= FAMILIES[case.sizes.family].fewest_chunks)  # else it is another family's order
    flags = data.draw(st.lists(st.booleans(), min_size=case.network.num_layers, max_size=case.network.num_layers))
    network = parted(case.network, flags)
    assume(network.continuing_layers)
    blocks = whole_blocks_of(network)
    assume(case.allow_empty or blocks.network.num_layers >= case.sizes.num_cells)
    found = {}
    for abilities in (WHOLE, PARTING):
        outcome = solve_for_target(
            replace(case.request(None), network=network),
            replace(
                abilities,
                schedules=(case.sizes.family,),
                recomputation=(Recomputation(scope=Scope.LAYERS, kinds=tuple(case.split.kinds)),),
                splits_sequences=True,
                empty=Empty.ANY if case.allow_empty else Empty.NONE,
            ),
            ContestSearch(num_chunks=(case.sizes.num_chunks,), time_limit_s=60.0),
            title="Some",
            schedules=(case.sizes.family,),
        ).outcome
        assert outcome.status is Status.OPTIMAL
        found[abilities.parts_blocks] = outcome
    best = every_plan(ruled_case(case, blocks.network)).best_ns(None)
    assert best <= found[False].makespan_ns <= best * (1 + 2e-6)
    assert found[False].plan.num_layers == blocks.network.num_layers
    if case.sizes.sequence_splits == 1:
        assert found[True].makespan_ns <= found[False].makespan_ns * (1 + 2e-6)


def test_what_parts_a_block_is_replaced_by_the_nearest_with_its_price():
    network = parse_layer_file(json.dumps(MODEL), place="halves.json")
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=cells([[3, 3]]), recompute={FULL: cells([[0, 0]])})
    planned = simulate(network, plan)
    found = fitted(planned.plan, network, None, None, WHOLE, "Some", time_limit_s=5.0)
    assert found.plan.layers in (((1, 2),), ((2, 1),))
    assert found.plan.continuing_layers == 0
    assert [loss.what for loss in found.losses] == ["Some has no cut inside a block"]
    assert planned.makespan_ns + found.losses[0].longer_ns == found.simulation.makespan_ns > planned.makespan_ns
    assert refusal(found.plan, WHOLE, title="Some") is None


def test_what_parts_none_is_the_same_plan_of_blocks():
    network = parse_layer_file(json.dumps(MODEL), place="halves.json")
    plan = Plan(schedule="1f1b", num_microbatches=4, layers=cells([[4, 2]]), recompute={FULL: cells([[2, 0]])})
    planned = simulate(network, plan)
    found = fitted(planned.plan, network, None, None, WHOLE, "Some", time_limit_s=5.0)
    assert found.plan.layers == ((2, 1),)
    assert found.plan.recompute == {FULL: ((1, 0),)}
    assert not found.losses
    assert found.simulation.makespan_ns == planned.makespan_ns
    kept = fitted(planned.plan, network, None, None, PARTING, "Some", time_limit_s=5.0)
    assert kept.plan == planned.plan


@pytest.mark.parametrize("target", all_targets().values(), ids=lambda target: target.name)
def test_no_framework_of_whole_blocks_writes_a_plan_of_halves(target):
    network = parse_layer_file(json.dumps(MODEL), place="halves.json")
    halves = simulate(network, Plan(schedule="1f1b", num_microbatches=8, layers=cells([[3, 3]])))
    text = json.dumps(simulation_fields(halves, None))
    plan = parse_plan(text, place="plan.json")
    assert plan.continuing_layers == 3
    abilities = target.abilities(target.versions[-1])
    refused = refusal(plan, abilities, title=target.title)
    assert (refused is None) == abilities.parts_blocks
    if refused is not None:
        assert f"continuing_layers must be 0 for {target.title}, which has no cut inside a block, got 3" in str(refused)


def test_a_layer_file_says_which_layers_continue_a_block():
    network = parse_layer_file(json.dumps(MODEL), place="halves.json")
    assert [layer.continues_block for layer in network.layers] == [False, True] * 3
    text = format_layer_file(network)
    assert parse_layer_file(text, place="again.json").layers == network.layers
    first = json.loads(text)
    first["layers_description"][0]["layers"][0]["continues_block"] = True
    with pytest.raises(InputError, match="must begin with a layer that continues no block"):
        parse_layer_file(json.dumps(first), place="x.json")
    tail = {"name": "head", "type": "TAIL", "nb_layer": 1, "time": 1, "continues_block": True}
    wrong = {**MODEL, "layers_description": [*MODEL["layers_description"], tail]}
    with pytest.raises(InputError, match="continues_block must be in a BODY entry"):
        parse_layer_file(json.dumps(wrong), place="x.json")
