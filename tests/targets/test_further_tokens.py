"""Layers of multi-token prediction: where frameworks have them, in what is written, read, planned and refused."""

import json
from dataclasses import replace

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import FULL, NONE, Abilities, Empty, LayerRun, Mtp, Network, Plan, Recomputation, Scope, cells
from evenflow.profiles.layer_file import parse_layer_file
from evenflow.schedule import FAMILIES, schedule_of
from evenflow.simulate import simulate
from evenflow.solve import Status
from evenflow.solve.for_target import solve_for_target
from evenflow.solve.requests import ContestSearch
from evenflow.targets.fitting import fitted
from evenflow.targets.further_tokens import with_mtp_last, without_mtp
from evenflow.targets.megatron_family.layout import format_plan, parse_layout
from evenflow.targets.refusal import refusal
from evenflow.targets.registry import all_targets
from evenflow.targets.stages import stages_of
from tests.solve.cases import cases as solver_cases
from tests.solve.exhaustive import Case, every_plan
from tests.solve.test_stage_rules import RuledCase
from tests.thoroughness import examples

_LAYER = {
    "name": "layer", "type": "BODY", "nb_layer": 3, "time": 1, "memory_parameter": 1, "memory_activation": 9,
    "memory_recompute": 1,
}  # fmt: skip
MODEL = {"name": "mtp", "layers_description": [_LAYER, {**_LAYER, "name": "further", "nb_layer": 1, "mtp": True}]}
ANY = Abilities(
    schedules=("1f1b", "interleaved", "zbv"), recomputation=(Recomputation(scope=Scope.LAYERS),), empty=Empty.ANY
)


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    """Plans with full recomputation, whose last layers predict further tokens."""
    chunks, ranks = draw(st.sampled_from([("1f1b", 1), ("interleaved", 2), ("zbv", 2)])), draw(st.integers(2, 4))
    schedule, num_chunks = chunks
    layers = [[draw(st.integers(0, 5)) for _rank in range(ranks)] for _chunk in range(num_chunks)]
    assume(any(map(any, layers)))
    full = [[draw(st.integers(0, count)) for count in row] for row in layers]
    total = sum(map(sum, layers))
    return Plan(
        schedule=schedule,
        num_microbatches=8,
        layers=cells(layers),
        recompute={FULL: cells(full)},
        mtp_layers=draw(st.integers(1, min(3, total))),
    )


def held(plan: Plan) -> list[int]:
    """Layers of multi-token prediction of every stage, counted layer by layer from the end."""
    found = []
    left = plan.mtp_layers
    for stage in reversed(stages_of(plan, schedule_of(plan).stage_ranks)):
        found.append(min(left, len(stage.kinds)))
        left -= found[-1]
    return found[::-1]


@given(plan=plans())
def test_a_framework_that_does_not_count_them_gets_the_other_layers(plan):
    if held(plan)[-1] < plan.mtp_layers:
        with pytest.raises(InputError, match="must have all of multi-token prediction in the last stage"):
            without_mtp(plan)
        return
    counted = without_mtp(plan)
    assert counted.num_layers == plan.num_layers - plan.mtp_layers
    assert with_mtp_last(counted, plan.mtp_layers).layers == plan.layers
    before = [stage.kinds for stage in stages_of(plan, schedule_of(plan).stage_ranks)]
    after = [stage.kinds for stage in stages_of(counted, schedule_of(plan).stage_ranks)]
    assert after == [*before[:-1], before[-1][: -plan.mtp_layers]]


@given(plan=plans())
def test_a_layout_has_an_m_for_each_of_them(plan):
    assume(plan.schedule != "zbv")  # which no layout says
    counts = held(plan)
    written = format_plan(plan)
    if sum(map(bool, counts)) > 1:
        with pytest.raises(InputError, match="every m in one stage"):
            parse_layout(written, place="layout")
        return
    assert parse_layout(written, place="layout").mtp_layers == tuple(counts)
    allowed = refusal(plan, replace(ANY, mtp=Mtp.LAST_CHUNK), title="Some") is None
    if not allowed:
        with pytest.raises(InputError, match="must have m in the last chunk"):
            parse_layout(written, place="layout").cells(plan.num_ranks, place="layout")
        return
    read = parse_layout(written, place="layout").cells(plan.num_ranks, place="layout", with_mtp=True)
    assert read == plan.layers


@given(plan=plans())
def test_what_is_refused_is_what_the_rule_says(plan):
    counts = held(plan)
    stages = stages_of(plan, schedule_of(plan).stage_ranks)
    last_chunk = [stage.chunk == plan.num_chunks - 1 for stage in stages]
    one = sum(map(bool, counts)) == 1
    fits = {
        Mtp.LAST_STAGE: counts[-1] == plan.mtp_layers,
        Mtp.LAST_CHUNK: one and all(last for count, last in zip(counts, last_chunk, strict=True) if count),
    }
    for mtp, is_allowed in fits.items():
        assert (refusal(plan, replace(ANY, mtp=mtp), title="Some") is None) == is_allowed


@pytest.mark.parametrize("mtp", [Mtp.LAST_STAGE, Mtp.LAST_CHUNK])
@given(data=st.data())
@settings(max_examples=examples(12), deadline=None)
def test_the_plan_for_a_framework_is_the_best_of_those_it_runs(mtp, data):
    case = data.draw(solver_cases(time=1_000_000, memory=2**20 + 7, any_order=False))
    assume(case.sizes.num_chunks >= FAMILIES[case.sizes.family].fewest_chunks)  # else it is another family's order
    *others, last = case.network.layers
    assume(others and (case.allow_empty or case.network.num_layers >= case.sizes.num_cells))
    runs = [*others, replace(last, is_mtp=True)]
    network = replace(case.network, runs=tuple(LayerRun(layer=layer, count=1) for layer in runs))
    ruled = ruled_case(case, replace(ANY, mtp=mtp).as_run(network, title="any"))
    assume(ruled.cuts())
    best = every_plan(ruled).best_ns(None)
    abilities = replace(
        ANY,
        schedules=(case.sizes.family,),
        recomputation=(Recomputation(scope=Scope.LAYERS, kinds=tuple(kind for kind in case.split.kinds)),),
        splits_sequences=True,
        empty=Empty.ANY if case.allow_empty else Empty.NONE,
        mtp=mtp,
    )
    found = solve_for_target(
        replace(case.request(None), network=network),
        abilities,
        ContestSearch(num_chunks=(case.sizes.num_chunks,), time_limit_s=60.0),
        title="Some",
        schedules=(case.sizes.family,),
    )
    assert found.outcome.status is Status.OPTIMAL
    assert best <= found.outcome.makespan_ns <= best * (1 + 2e-6)
    assert found.outcome.plan.mtp_layers == 1
    assert refusal(replace(found.outcome.plan, group_size=None), abilities, title="Some") is None


def ruled_case(case: Case, network: Network) -> RuledCase:
    fields = {name: getattr(case, name) for name in Case.__dataclass_fields__}
    return RuledCase(**{**fields, "network": network})


@pytest.mark.parametrize("target", all_targets().values(), ids=lambda target: target.name)
def test_every_framework_writes_a_plan_with_such_a_layer(target):
    layers = cells([[2, 2]])
    plan = Plan(schedule="1f1b", num_microbatches=8, layers=layers, mtp_layers=1)
    abilities = target.abilities(target.versions[-1])
    if abilities.mtp is Mtp.NONE:
        assert "trains no multi-token prediction in a pipeline" in str(refusal(plan, abilities, title=target.title))
        return
    if refusal(without_mtp(plan), abilities, title=target.title) is not None:
        plan = replace(plan, layers=cells([[2, 3]]))  # one that cuts evenly
    assert refusal(plan, replace(abilities, own_cut=None), title=target.title) is None
    written = target.written(plan, target.versions[-1])
    everything = "".join((*(piece.text for piece in written.pieces), *written.notes))
    counts_it = abilities.mtp is Mtp.LAST_CHUNK
    assert ("mL" in everything) == counts_it
    assert ("the layer of multi-token prediction, which is not counted" in everything) == (not counts_it)


def test_full_recomputation_of_megatron_leaves_them_out():
    """The method `block` skips layers of multi-token prediction, so a plan for it keeps their activations."""
    megatron = all_targets()["megatron"].abilities("0.13")
    network = parse_layer_file(json.dumps(MODEL), place="mtp.json")
    run = megatron.as_run(network, title="Megatron-LM")
    assert run.layers[-1].modes[FULL] == run.layers[-1].modes[NONE] != network.layers[-1].modes[FULL]
    assert run.layers[0] == network.layers[0]
    plan = Plan(
        schedule="1f1b", num_microbatches=4, layers=cells([[2, 2]]), recompute={FULL: cells([[2, 2]])}, mtp_layers=1
    )
    exact = fitted(plan, network, None, None, megatron, "Megatron-LM")
    assert not exact.losses
    assert exact.simulation.makespan_ns == simulate(run, plan).makespan_ns < simulate(network, plan).makespan_ns
