"""Layers that are computed again in segments, against every plan: what they keep, and the search over them."""

from dataclasses import replace

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import FULL, NONE, WHOLE, Cells, Network, Plan, Request, Sizes, segment_kind, with_segments
from evenflow.simulate import simulate
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.recompute_ways import recompute_ways
from evenflow.solve.search.annealing import Annealing
from evenflow.solve.search.dealing import dealt
from evenflow.targets.frameworks.megatron.target import TARGET as MEGATRON
from evenflow.targets.refusal import refusal
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, plain_network
from tests.solve.cases import MOST_PLANS, NO_SHRINKING, cases, simulated_as_one_by_one, without_kind, without_last_layer
from tests.solve.exhaustive import Case, every_plan
from tests.solve.solved import planned_as_the_best
from tests.solve.test_offload import LINKS, offloading
from tests.thoroughness import examples


@st.composite
def segmented(draw: st.DrawFn, *, memory: int = 1, **settings_: object) -> Case:
    """Any case that offers full recomputation, and segments of one or two lengths."""
    case = draw(cases(memory=memory, **settings_).filter(lambda case: FULL in case.network.kinds))
    if case.sizes.sequence_splits > 1:
        case = replace(case, sizes=replace(case.sizes, sequence_splits=1))
    most = case.network.num_layers
    lengths = draw(st.lists(st.sampled_from([WHOLE, *range(2, most + 1)]), min_size=1, max_size=2, unique=True))
    for kind in [kind for kind in case.network.kinds if kind not in (FULL, NONE)]:
        case = replace(case, network=without_kind(case.network, kind))
    case = replace(case, network=with_segments(case.network, lengths), mix_any=True)
    fewest = 1 if case.allow_empty else case.sizes.num_cells
    while case.num_plans() > MOST_PLANS and case.network.num_layers > fewest:
        case = replace(case, network=without_last_layer(case.network))
    return case


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None, phases=NO_SHRINKING)
def test_plans_are_weighed_as_one_by_one(data):
    case = data.draw(segmented())
    simulated_as_one_by_one(data, case)


@given(data=st.data())
@settings(max_examples=examples(40), phases=NO_SHRINKING, deadline=None)
def test_the_plan_is_the_best_of_all(data):
    case = data.draw(segmented(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
    outcome = planned_as_the_best(data, case)
    if outcome.plan is not None:
        event(f"in segments: {any(kind.startswith('segment') for kind in outcome.plan.used_kinds)}")


@given(data=st.data(), seed=st.integers(0, 1000))
@settings(max_examples=examples(40), deadline=None, phases=NO_SHRINKING)
def test_every_part_of_the_search_knows_segments(data, seed):
    case = data.draw(segmented())
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    problem = case.problem(limit)
    least = least_memory(problem, seconds=30)
    assert (least.peak_bytes, least.proven) == (plans.least_bytes, True)
    first = dealt(problem)
    if first is None or max(problem.rank_memory(problem.costs(first))) > limit:
        return
    annealing = Annealing(problem=problem, counts=first, seed=seed)
    assert annealing.best == problem.makespan_ns(problem.costs(first))
    annealing.improve(steps=300)
    found = problem.costs(annealing.best_counts)
    assert annealing.best == problem.makespan_ns(found) >= plans.best_ns(limit)
    assert max(problem.rank_memory(found)) <= limit


@given(data=st.data())
@settings(max_examples=examples(40), phases=NO_SHRINKING, deadline=None)
def test_the_plan_is_the_best_of_all_that_keep_repeat_or_move(data):
    """Modules, segments and what the host keeps in one problem, at every limit that changes the answer."""
    case = data.draw(segmented(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
    network, modules = case.network, {}
    for number, run in enumerate(network.runs):
        full, none = run.layer.modes[FULL], run.layer.modes[NONE]
        share = data.draw(st.floats(0.1, 0.9))
        modules[number] = replace(
            full,
            activation_bytes=int(full.activation_bytes + share * (none.activation_bytes - full.activation_bytes)),
            backward_ns=int(full.backward_ns + share * (none.backward_ns - full.backward_ns)),
        )
    runs = tuple(
        replace(run, layer=replace(run.layer, modes={"modules": modules[number], **run.layer.modes}))
        for number, run in enumerate(network.runs)
    )
    case = replace(case, network=offloading(replace(network, runs=runs), data.draw(LINKS), {}))
    while case.num_plans() > MOST_PLANS and case.network.num_layers > case.sizes.num_cells:
        case = replace(case, network=without_last_layer(case.network))
    assume(case.num_plans() <= MOST_PLANS)
    outcome = planned_as_the_best(data, case)
    if outcome.plan is not None:
        event(f"under {len(outcome.plan.used_kinds)} kinds")


def under(network: Network, kind: str, layers: tuple[tuple[int, ...], ...]) -> Plan:
    return Plan(schedule="1f1b", num_microbatches=8, layers=layers, recompute={kind: layers})


def test_segments_of_all_lengths_keep_what_they_say():
    network = with_segments(plain_network(8), [2, 3, WHOLE])
    full, none = (network.runs[0].layer.modes[kind] for kind in (FULL, NONE))
    layers = ((8,),)
    base = simulate(network, under(network, FULL, layers)).costs
    for length, segments, longest in ((2, 4, 2), (3, 3, 3), (WHOLE, 1, 8)):
        costs = simulate(network, under(network, segment_kind(length), layers)).costs
        assert costs.activation_bytes[0] == segments * full.activation_bytes
        again = (longest - 1) * none.activation_bytes + full.working_bytes
        assert costs.working_bytes[0] == again
        assert costs.backward_ns[0] == base.backward_ns[0]


def test_segments_of_one_layer_equal_full_recomputation():
    """Ranks of one layer each: whatever its length, a segment is that layer."""
    network = with_segments(plain_network(4), [2, WHOLE])
    layers = ((1, 1, 1, 1),)
    one_by_one = simulate(network, under(network, FULL, layers))
    for length in (2, WHOLE):
        together = simulate(network, under(network, segment_kind(length), layers))
        assert together.makespan_ns == one_by_one.makespan_ns
        assert together.peak_memory_bytes == one_by_one.peak_memory_bytes


def test_what_cannot_be_computed_again_together_is_refused():
    with pytest.raises(InputError, match="from 2 to the 8 layers"):
        with_segments(plain_network(8), [9])
    with pytest.raises(InputError, match="offer full"):
        with_segments(without_kind(plain_network(8), FULL), [2])


def test_a_framework_has_segments_where_all_cells_hold_whole_ones():
    abilities = MEGATRON.abilities(MEGATRON.versions[-1])
    network = with_segments(plain_network(num_layers=6), (2, WHOLE))
    request = Request(network=network, sizes=Sizes(num_ranks=2, num_chunks=1, num_microbatches=4))

    def offered(layers: Cells | None) -> bool:
        ways = recompute_ways(replace(request, layers=layers), abilities)
        return any(segment_kind(2) in way.rule.kinds for way in ways)

    assert offered(((4, 2),))
    assert not offered(((3, 3),))
    assert not offered(None)
    for layers, is_refused in ((((4, 2),), False), (((3, 3),), True)):
        every = Plan(schedule="1f1b", num_microbatches=4, layers=layers, recompute={segment_kind(2): layers})
        error = refusal(every, abilities, title=MEGATRON.title)
        assert (error is not None) == is_refused
    assert error is not None
    assert "must be a multiple of 2 for Megatron-LM, which has no shorter segments" in str(error)
