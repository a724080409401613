"""Plans whose forwards run beside backwards: exact in simulation, search and proof."""

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.cli.text.tables import pairs_note
from evenflow.errors import InputError, ScheduleError
from evenflow.model import (
    FULL,
    NONE,
    Communication,
    EndBlock,
    Halves,
    HostLink,
    Layer,
    LayerRun,
    Mode,
    Network,
    PassHalves,
    Plan,
    RankTraits,
    Request,
    Sizes,
    cells,
    exchange_spans,
    saved_ns,
)
from evenflow.profiles.layer_file import read_layer_file
from evenflow.schedule import Action, Op, Schedule, make_schedule, parse_schedule
from evenflow.simulate import (
    Simulation,
    at_best_in_pairs,
    build_graph,
    held_amounts,
    live_at_peak,
    memory_curve,
    simulate,
)
from evenflow.solve import Outcome, Status, plan, proof
from evenflow.solve.problem import make_problem
from evenflow.solve.relaxation.layer_program import Relaxation
from evenflow.targets.frameworks.megatron.target import TARGET as MEGATRON
from evenflow.targets.megatron_family.flags import megatron_abilities
from evenflow.targets.planning import plan_for_target
from evenflow.targets.refusal import refusal
from tests.networks import MILLISECOND
from tests.oracle import end_times, equal_stages, orders_of
from tests.paths import EXAMPLES
from tests.thoroughness import examples

PAIRED = {"1f1b-overlap": 1, "interleaved-overlap": 2, "dualpipe-v-overlap": 2, "zbv-overlap": 2}
NO_EXCHANGE = Halves(forward=PassHalves(mlp_ns=300), backward=PassHalves(mlp_ns=500))


def halves(total_ns: int) -> st.SearchStrategy[PassHalves]:
    """Parts of a pass of `total_ns`: any, down to none and up to all of it."""
    cuts = st.lists(st.integers(0, total_ns), min_size=3, max_size=3).map(sorted)
    parts = cuts.map(lambda at: PassHalves(dispatch_ns=at[0], mlp_ns=at[1] - at[0], combine_ns=at[2] - at[1]))
    shares = st.sampled_from([0.0, 0.0, 0.5, 1.0])
    return st.builds(lambda half, share: replace(half, mlp_weight_ns=int(share * half.mlp_ns)), parts, shares)


@st.composite
def layers(draw: st.DrawFn) -> Layer:
    forward_ns, backward_ns = draw(st.integers(1, 1500)), draw(st.integers(1, 3000))
    known = draw(st.booleans() | st.just(True))
    return Layer(
        name="layer",
        forward_ns=forward_ns,
        parameter_bytes=10,
        modes={
            NONE: Mode(
                activation_bytes=draw(st.integers(20, 40)),
                backward_ns=backward_ns,
                mlp_bytes=draw(st.integers(0, 20)),
            ),
            FULL: Mode(
                activation_bytes=draw(st.integers(2, 10)),
                backward_ns=backward_ns + forward_ns,
                mlp_bytes=draw(st.integers(0, 2)),
            ),
        },
        halves=Halves(forward=draw(halves(forward_ns)), backward=draw(halves(backward_ns))) if known else None,
    )


@st.composite
def networks(draw: st.DrawFn, *, num_ranks: int) -> Network:
    runs = [
        LayerRun(layer=layer, count=draw(st.integers(1, 3)))
        for layer in draw(st.lists(layers(), min_size=1, max_size=3))
    ]
    times = st.integers(0, 800)
    ends = st.builds(EndBlock, forward_ns=times, backward_ns=times, activation_bytes=st.integers(0, 30))
    traits = st.builds(RankTraits, speed=st.sampled_from([1.0, 0.9, 0.5]))
    return Network(
        name="drawn",
        runs=tuple(runs),
        head=draw(ends),
        tail=draw(ends),
        pair_slowdown=draw(st.sampled_from([1.0, 1.13])),
        recomputes_before_pairs=draw(st.booleans()),
        ranks=tuple(draw(traits) for _rank in range(num_ranks)) if draw(st.booleans()) else (),
    )


def layer_of(halves: Halves | None, *, forward_ns: int = 1000, backward_ns: int = 2000) -> Layer:
    modes = {NONE: Mode(activation_bytes=5, backward_ns=backward_ns)}
    return Layer(name="layer", forward_ns=forward_ns, parameter_bytes=10, modes=modes, halves=halves)


def network_of(*runs: tuple[Layer, int], **more: object) -> Network:
    return Network(name="given", runs=tuple(LayerRun(layer=layer, count=count) for layer, count in runs), **more)  # type: ignore[arg-type]


# -- the four windows ---------------------------------------------------------------------------------------------


def test_the_four_windows_of_a_pair_of_layers():
    forward = PassHalves(dispatch_ns=70, mlp_ns=300, combine_ns=500)
    backward = PassHalves(dispatch_ns=20, mlp_ns=50, combine_ns=90)
    # combine of B under attention of F (130): 90; dispatch of F under the MLP of B: 50; dispatch of B under the MLP of
    # F: 20; combine of F under attention of B (340): 340
    assert saved_ns(forward, 1000, backward, 500) == 90 + 50 + 20 + 340


def test_computation_beside_an_exchange_is_slower():
    forward = PassHalves(dispatch_ns=100, mlp_ns=0, combine_ns=0)
    backward = PassHalves(dispatch_ns=0, mlp_ns=400, combine_ns=0)
    assert saved_ns(forward, 100, backward, 400, slowdown=1.25) == 80  # in 100 ns, the work of 80 is done
    assert saved_ns(replace(forward, dispatch_ns=1000), 1000, backward, 400, slowdown=1.25) == 400  # done meanwhile


def test_weight_gradients_run_behind_what_the_exchange_waits_for():
    """The dispatch of F ends at 70, the MLP's other gradients at 40, then weight gradients run until 100.

    The dispatch of B runs from 70 to 160, the MLP of F from 100 to 150: 160 instead of 100 + 90 in two windows.
    """
    forward = PassHalves(dispatch_ns=70, mlp_ns=50)
    backward = PassHalves(dispatch_ns=90, mlp_ns=100, mlp_weight_ns=60)
    assert saved_ns(forward, 120, backward, 190) == 70 + 50 + 90 + 100 - 160
    assert saved_ns(forward, 120, replace(backward, mlp_weight_ns=0), 190) == 70 + 50
    # Work beside an exchange takes twice as long: the other gradients end at 75, the dispatch of B at 165; of weight
    # gradients 15 ns are left.
    assert saved_ns(forward, 120, backward, 190, slowdown=2.0) == 310 - (165 + 15 + 50)


MEASURED_US = (
    (4306, 5985, 4250, 7325, 4328, 5693, 5325, 7302, 9018 + 2375),
    (4258, 5590, 4384, 8260, 4890, 5408, 5050, 7909, 9368 + 2382),
    (4433, 6999, 5175, 9521, 5858, 5407, 5249, 7271, 9452 + 2392),
    (4454, 7777, 4606, 9630, 6920, 4716, 4627, 7465, 9525 + 2405),
)
"""Four layers of DeepSeek-V3 in a pair, as their kernels ran in the published profile of its training: attention,
dispatch, MLP and combine of the forward; combine, MLP, its weight gradients, dispatch and attention of the backward.
[deepseek-ai/profile-data, train.json]
"""


def test_windows_take_as_long_as_a_measured_pair():
    """129,012 us from the first kernel to the last; the times are those beside one another, so nothing is slower."""
    predicted = []
    for delays in (True, False):
        taken = 0
        for attention, dispatch, mlp, combine, back, gradients, weights, send, attention_back in MEASURED_US:
            forward_us = attention + dispatch + mlp + combine
            backward_us = back + gradients + weights + send + attention_back
            saved = saved_ns(
                PassHalves(dispatch_ns=dispatch, mlp_ns=mlp, combine_ns=combine),
                forward_us,
                PassHalves(
                    combine_ns=back,
                    mlp_ns=gradients + weights,
                    dispatch_ns=send,
                    mlp_weight_ns=weights if delays else 0,
                ),
                backward_us,
            )
            taken += forward_us + backward_us - saved
        predicted.append(taken)
    assert predicted[0] == pytest.approx(129_012, rel=0.01)
    assert predicted[1] == pytest.approx(129_012 * 1.087, rel=0.01)


@given(st.integers(0, 2000), st.integers(0, 2000), st.data(), st.floats(1, 3))
def test_a_pair_takes_no_less_than_either_and_hides_no_more_than_is_exchanged(
    forward_ns: int, backward_ns: int, data: st.DataObject, slowdown: float
):
    forward, backward = data.draw(halves(forward_ns)), data.draw(halves(backward_ns))
    saved = saved_ns(forward, forward_ns, backward, backward_ns, slowdown=slowdown)
    assert 0 <= saved <= forward.exchange_ns + backward.exchange_ns
    # Delayed weight gradients hide the exchange of their own backward too.
    chain_ns = backward_ns - min(backward.mlp_weight_ns, backward.dispatch_ns)
    assert forward_ns + backward_ns - saved >= max(forward_ns, chain_ns)
    unslowed = saved_ns(forward, forward_ns, backward, backward_ns)
    assert saved <= unslowed
    waiting = saved_ns(forward, forward_ns, replace(backward, mlp_weight_ns=0), backward_ns, slowdown=slowdown)
    assert waiting <= saved + 1  # each is rounded down


@given(st.integers(0, 2000), st.integers(0, 2000), st.data(), st.sampled_from([1.0, 1.13, 2.5]))
def test_exchanges_of_a_pair_come_one_after_the_other_and_end_with_its_windows(
    forward_ns: int, backward_ns: int, data: st.DataObject, slowdown: float
):
    forward, backward = data.draw(halves(forward_ns)), data.draw(halves(backward_ns))
    spans = exchange_spans(forward, forward_ns, backward, backward_ns, slowdown=slowdown)
    lengths = (backward.combine_ns, forward.dispatch_ns, backward.dispatch_ns, forward.combine_ns)
    assert tuple(end - start for start, end in spans) == lengths
    assert all(first[1] <= second[0] for first, second in itertools.pairwise(((0, 0), *spans)))
    # Behind the last one's begin is the fourth window alone.
    attention_ns = backward_ns - backward.total_ns
    alone = PassHalves(combine_ns=forward.combine_ns)
    last_ns = forward.combine_ns + attention_ns
    last_ns -= saved_ns(alone, forward.combine_ns, PassHalves(), attention_ns, slowdown=slowdown)
    whole_ns = forward_ns + backward_ns - saved_ns(forward, forward_ns, backward, backward_ns, slowdown=slowdown)
    assert spans[3][0] + last_ns == whole_ns


# -- simulation ---------------------------------------------------------------------------------------------------


def beside(network: Network, simulation: Simulation, forward: Action, backward: Action) -> int:
    """How long a pair takes, layer by layer."""
    costs, schedule = simulation.costs, simulation.timeline.schedule
    table = schedule.stage_table
    sizes = [0] * schedule.num_stages
    for chunk, row in enumerate(simulation.plan.layers):
        for rank, size in enumerate(row):
            sizes[table[chunk, rank]] = size
    rank = schedule.stage_ranks[forward.stage]
    slow = network.at_speed(network.ranks[rank].speed) if network.ranks else network
    begins = [sum(sizes[:stage]) for stage in (forward.stage, backward.stage)]
    ahead = list(slow.layers[begins[0] : begins[0] + sizes[forward.stage]])
    back = list(slow.layers[begins[1] : begins[1] + sizes[backward.stage]])[::-1]
    taken = int(costs.forward_ns[forward.stage] + costs.backward_ns[backward.stage])
    for one, other in zip(ahead, back, strict=False):
        if one.halves and other.halves:
            taken -= saved_ns(
                one.halves.forward,
                one.forward_ns,
                other.halves.backward,
                other.backward_ns,
                slowdown=network.pair_slowdown,
            )
    return taken


@st.composite
def paired_simulations(draw: st.DrawFn, families: Sequence[str] = tuple(PAIRED)) -> tuple[Network, Simulation]:
    family = draw(st.sampled_from(sorted(families)))
    num_ranks, num_chunks = draw(st.integers(1, 4)), PAIRED[family]
    network = draw(networks(num_ranks=num_ranks))
    borders = sorted(
        draw(
            st.lists(
                st.integers(0, network.num_layers),
                min_size=num_ranks * num_chunks - 1,
                max_size=num_ranks * num_chunks - 1,
            )
        )
    )
    sizes = [end - begin for begin, end in itertools.pairwise([0, *borders, network.num_layers])]
    schedule = make_schedule(
        family, num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=draw(st.integers(1, 9))
    )
    full = [draw(st.integers(0, size)) for size in sizes]
    table = schedule.stage_table.tolist()
    wanted = Plan(
        schedule=family,
        num_microbatches=schedule.num_microbatches,
        layers=cells([[sizes[stage] for stage in row] for row in table]),
        recompute={FULL: cells([[full[stage] for stage in row] for row in table])},
    )
    message_ns = draw(st.integers(0, 300))
    communication = Communication(latency_ns=0, transfer_ns=message_ns) if message_ns else None
    return network, simulate(network, wanted, communication=communication)


@given(paired_simulations())
def test_pairs_end_when_the_oracle_says(drawn: tuple[Network, Simulation]):
    network, simulation = drawn
    costs, timeline = simulation.costs, simulation.timeline
    schedule = timeline.schedule
    times = {
        Op.F: costs.forward_ns,
        Op.B: costs.backward_ns,
        Op.I: costs.backward_ns - costs.weight_ns,
        Op.W: costs.weight_ns,
    }
    ends = end_times(
        orders_of(schedule),
        schedule.num_stages,
        lambda action: int(times[action.op][action.stage]),
        message_ns=simulation.communication.message_ns if simulation.communication else 0,
        pair_duration=lambda forward, backward: beside(network, simulation, forward, backward),
    )
    assert simulation.makespan_ns == max(ends.values())
    actions = [action for order in orders_of(schedule) for action in order]
    for index, action in enumerate(actions):
        if not action.is_paired:
            assert timeline.end_ns[index] == ends[action]
            continue
        # The forward has the first part of the pair, the backward the rest, and both fill it.
        block_ns = beside(network, simulation, action, actions[index + 1])
        assert timeline.start_ns[index] == ends[action] - block_ns
        assert timeline.start_ns[index] <= timeline.end_ns[index] == timeline.start_ns[index + 1]
    assert (timeline.busy_ns <= timeline.makespan_ns).all()
    for idle, busy_ns in zip(simulation.idle, timeline.busy_ns, strict=True):
        assert idle.total_ns == simulation.makespan_ns - busy_ns
        causes = (idle.fill_drain_ns, idle.imbalance_ns, idle.recompute_ns, idle.communication_ns)
        assert sum(causes) == idle.total_ns
    path = timeline.critical_path()
    assert timeline.start_ns[path[0]] == 0
    assert timeline.end_ns[path[-1]] == simulation.makespan_ns


def whole_layers(network: Network, simulation: Simulation) -> list[list[tuple[int, int]]]:
    """What attention and MLP of every layer of every stage keep."""
    schedule, plan = simulation.timeline.schedule, simulation.plan
    stages: list[list[tuple[int, int]]] = []
    for chunk, rank in sorted(
        itertools.product(range(plan.num_chunks), range(plan.num_ranks)), key=lambda cell: schedule.stage_table[cell]
    ):
        kinds = [kind for kind in network.kinds for _layer in range(plan.count(kind, chunk, rank))]
        begin = sum(map(len, stages))
        apart = [
            (layer.modes[kind].activation_bytes, layer.modes[kind].mlp_bytes if layer.halves else 0)
            for layer, kind in zip(network.layers[begin:], kinds, strict=False)
        ]
        stages.append([(kept - mlp, mlp) for kept, mlp in apart])
    return stages


def kept_by_ends(network: Network, simulation: Simulation) -> list[tuple[int, int]]:
    """What head and tail keep in every stage."""
    ends = [(0, 0)] * simulation.timeline.schedule.num_stages
    ends[0] = (network.head.activation_bytes, 0)
    ends[-1] = (ends[-1][0], network.tail.activation_bytes)
    return ends


def held_in_pair(network: Network, simulation: Simulation, forward: int, backward: int) -> list[int]:
    """What a forward and a backward hold together after every step, half layer by half layer."""
    stages, ends = whole_layers(network, simulation), kept_by_ends(network, simulation)
    again = whole_layers(network, replace(simulation, plan=replace(simulation.plan, recompute={})))
    ahead, back = stages[forward], (again if network.recomputes_before_pairs else stages)[backward][::-1]
    changes = [sum(map(sum, back)) + sum(ends[backward]), ends[forward][0], -ends[backward][1]]
    for one, other in itertools.zip_longest(ahead, back):
        if one is None or other is None:
            changes += [sum(one)] if one else [-sum(other)]
        elif simulation.plan.releases_attention:
            changes += [one[0], -other[1], -other[0], one[1]]
        else:
            changes += [one[0], -other[1], one[1], -other[0]]
    return list(itertools.accumulate((*changes, ends[forward][1], -ends[backward][0])))


def held_at_every_step(network: Network, simulation: Simulation, rank: int) -> list[int]:
    """What a rank holds of microbatches after every step."""
    ends = kept_by_ends(network, simulation)
    keeps = [
        sum(map(sum, layers)) + sum(end) for layers, end in zip(whole_layers(network, simulation), ends, strict=True)
    ]
    held, steps = 0, [0]
    order = simulation.timeline.schedule.order(rank)
    for place, action in enumerate(order):
        if place and order[place - 1].is_paired:
            continue
        if action.is_paired:
            backward = order[place + 1].stage
            held -= keeps[backward]
            steps += [held + both for both in held_in_pair(network, simulation, action.stage, backward)]
            held += keeps[action.stage]
        else:
            held += {Op.F: keeps[action.stage], Op.B: -keeps[action.stage]}.get(action.op, 0)
            steps.append(held)
    return steps


@given(paired_simulations(families=["1f1b-overlap", "interleaved-overlap", "dualpipe-v-overlap"]), st.booleans())
def test_pairs_hold_what_the_oracle_says(drawn: tuple[Network, Simulation], releases: bool):
    network, simulation = drawn
    if releases:
        simulation = simulate(network, replace(simulation.plan, releases_attention=True))
    problem = make_problem(
        Request(network=network, sizes=simulation.plan.sizes, allow_empty=True), schedule=simulation.plan.schedule
    )
    if not simulation.timeline.schedule.splits_backward:
        for rank, peak in enumerate(simulation.peak_memory_bytes):
            static = int(simulation.costs.static_bytes[rank])
            assert peak == static + max(held_at_every_step(network, simulation, rank))
            times_ns, sizes = memory_curve(simulation.timeline, simulation.costs, rank)
            assert (times_ns[1:] >= times_ns[:-1]).all()
            assert sizes.max() == peak
            assert sizes[-1] == static
    assert problem.rank_memory(simulation.costs).tolist() == list(simulation.peak_memory_bytes)
    for rank in range(problem.num_ranks):
        own = problem.schedule.stage_table[:, rank]
        amounts = held_amounts(simulation.costs, own, splits_backward=problem.schedule.splits_backward)
        live = live_at_peak(simulation.timeline.schedule, simulation.costs, rank) @ amounts
        assert live + simulation.costs.static_bytes[rank] == pytest.approx(simulation.peak_memory_bytes[rank])
        before_or_behind = int((problem.live[rank] @ amounts).max())
        assert before_or_behind + simulation.costs.static_bytes[rank] <= simulation.peak_memory_bytes[rank]


@given(paired_simulations())
def test_a_pair_holds_no_more_than_both_of_its_parts_and_no_less_than_either(drawn: tuple[Network, Simulation]):
    network, simulation = drawn
    one_by_one = simulate(network, simulation.plan, schedule=simulation.timeline.schedule.in_turn())
    schedule = simulation.timeline.schedule
    costs, pairs = simulation.costs, simulation.costs.pair_bytes
    if pairs is None:
        assert not schedule.has_pairs
        return
    is_less = not network.recomputes_before_pairs
    assert not is_less or (np.array(simulation.peak_memory_bytes) <= one_by_one.peak_memory_bytes).all()
    for plan_of_pairs in (simulation.plan, replace(simulation.plan, releases_attention=True)):
        told = simulate(network, plan_of_pairs)
        assert told.costs.pair_bytes is not None
        for rank, forward in enumerate(schedule.stage_table[0].tolist()):
            for chunk, backward in enumerate(schedule.stage_table[:, rank].tolist()):
                assert told.costs.pair_bytes[forward, chunk] == max(held_in_pair(network, told, forward, backward))
    for own in schedule.stage_table.T:
        ahead, back = costs.activation_bytes[own][:, np.newaxis], costs.activation_bytes[own]
        assert not is_less or (pairs[own] <= ahead + back).all()
        assert (pairs[own] >= np.maximum(ahead, back)).all()
    early = simulate(network, replace(simulation.plan, releases_attention=True))
    assert (np.array(early.peak_memory_bytes) <= simulation.peak_memory_bytes).all()


@given(paired_simulations())
def test_what_pairs_hide_is_work_less(drawn: tuple[Network, Simulation]):
    network, simulation = drawn
    one_by_one = simulate(network, simulation.plan, schedule=simulation.timeline.schedule.in_turn())
    assert one_by_one.hidden_ns is None
    less_ns = one_by_one.timeline.busy_ns - simulation.timeline.busy_ns
    assert less_ns.tolist() == (0 * less_ns if simulation.hidden_ns is None else simulation.hidden_ns).tolist()
    assert (simulation.hidden_ns is None) is not simulation.timeline.schedule.has_pairs
    assert (simulation.exposed_ns is None) is not network.exchanges_tokens
    if simulation.hidden_ns is None or simulation.exposed_ns is None:
        return
    schedule = simulation.timeline.schedule
    exchanged = [0] * schedule.num_ranks
    begin = 0
    sizes = {
        stage: size
        for stages, row in zip(schedule.stage_table.tolist(), simulation.plan.layers, strict=True)
        for stage, size in zip(stages, row, strict=True)
    }
    for stage, rank in enumerate(schedule.stage_ranks):
        speed = network.ranks[rank].speed if network.ranks else 1.0
        for layer in network.at_speed(speed).layers[begin : begin + sizes[stage]]:
            if layer.halves is not None:
                own_ns = layer.halves.forward.exchange_ns + layer.halves.backward.exchange_ns
                exchanged[rank] += schedule.num_units * own_ns
        begin += sizes[stage]
    assert (simulation.hidden_ns + simulation.exposed_ns).tolist() == exchanged
    assert (simulation.exposed_ns >= 0).all()


@given(paired_simulations())
def test_without_exchanges_a_pair_takes_as_long_as_its_two_parts(drawn: tuple[Network, Simulation]):
    network, simulation = drawn
    silent = replace(network, runs=tuple(replace(run, layer=replace(run.layer, halves=None)) for run in network.runs))
    idle = replace(
        network,
        runs=tuple(
            replace(run, layer=replace(run.layer, halves=Halves(forward=PassHalves(), backward=PassHalves())))
            for run in network.runs
        ),
    )
    alone = simulate(silent, simulation.plan, communication=simulation.communication)
    assert simulate(idle, simulation.plan, communication=simulation.communication).makespan_ns == alone.makespan_ns
    assert simulation.makespan_ns <= alone.makespan_ns


def test_a_pair_waits_for_both_inputs_and_gives_both_outputs_at_its_end():
    """Two ranks, two microbatches: rank 1 has F1 and B0 side by side, and rank 0 waits for B0 until both have ended."""
    layer = layer_of(Halves(forward=PassHalves(dispatch_ns=500), backward=PassHalves(combine_ns=500)))
    wanted = Plan(schedule="1f1b-overlap", num_microbatches=2, layers=((1, 1),), recompute={})
    simulation = simulate(network_of((layer, 2)), wanted)
    # F0 0-1000, F1 1000-2000 on rank 0; F0 1000-2000 and F1 beside B0 2000-4500 on rank 1, then B1 until 6500.
    assert simulation.timeline.end_ns.tolist() == [1000, 2000, 6500, 8500, 2000, 2833, 4500, 6500]
    assert simulation.makespan_ns == 8500


def test_a_backward_beside_its_own_forward_never_starts():
    schedule = parse_schedule("(0F0;0B0)OVERLAP_F_B", name="own")
    with pytest.raises(ScheduleError, match="2 of 2 actions never can"):
        build_graph(schedule)


@pytest.mark.parametrize("text", ["(0B0;0W1)OVERLAP_F_B", "(0F0;0F1)OVERLAP_F_B", "(0F0;0I1)OVERLAP_F_B"])
def test_what_is_no_pair(text: str):
    with pytest.raises(InputError, match="must be a forward and a whole backward, like"):
        parse_schedule(text, name="none")


def test_a_plan_keeps_the_pairs_of_its_own_order():
    text = "0F0,(0F1;0B0)OVERLAP_F_B,0F2,0B1,0B2"
    schedule = parse_schedule(text, name="own")
    own = Plan(schedule="own", order=(text,), num_microbatches=3, layers=((2,),), recompute={})
    exchanging = layer_of(Halves(forward=PassHalves(dispatch_ns=500), backward=PassHalves(combine_ns=500)))
    simulation = simulate(network_of((exchanging, 2)), own)
    assert simulation.timeline.schedule == schedule
    assert simulation.makespan_ns == 3 * 2 * 3000 - 2 * 500


@pytest.mark.parametrize(
    ("more", "communication", "rule"),
    [
        ({"host_link": HostLink(bytes_per_s=10**9)}, None, "while activations move to the host"),
        (
            {},
            Communication(latency_ns=1, transfer_ns=1, one_at_a_time=True),
            "where a rank sends one message at a time",
        ),
        ({"cut_before": False}, None, "where layers stay together"),
    ],
)
def test_what_pairs_cannot_go_together_with(more: dict[str, object], communication: Communication | None, rule: str):
    layer = layer_of(NO_EXCHANGE)
    if "host_link" in more:
        moved = Mode(activation_bytes=1, offloaded_bytes=4, backward_ns=2000)
        layer = replace(layer, modes={**layer.modes, "offload": moved})
    if "cut_before" in more:
        layer = replace(layer, cut_before=False)
        more = {}
    wanted = Plan(schedule="1f1b-overlap", num_microbatches=2, layers=((4,),), recompute={})
    network = network_of((layer, 4), **more)
    with pytest.raises(InputError, match=rule):
        simulate(network, wanted, communication=communication)
    with pytest.raises(InputError, match=rule):
        plan(network, num_ranks=1, num_microbatches=2, schedule="1f1b-overlap", communication=communication)


def test_halves_are_parts_of_the_layer():
    with pytest.raises(InputError, match="must have halves of at most the 1000 ns of all of it, got 1001"):
        network_of((layer_of(Halves(forward=PassHalves(mlp_ns=1001), backward=PassHalves())), 1))


# -- search and proof ---------------------------------------------------------------------------------------------


def every_plan(network: Network, schedule: Schedule) -> list[Simulation]:
    """All cuts and numbers of layers under `full`."""
    table = schedule.stage_table.tolist()
    found = []
    for borders in itertools.combinations(range(1, network.num_layers), schedule.num_stages - 1):
        sizes = [end - begin for begin, end in itertools.pairwise([0, *borders, network.num_layers])]
        for full in itertools.product(*[range(size + 1) for size in sizes]):
            wanted = Plan(
                schedule=schedule.name,
                num_microbatches=schedule.num_microbatches,
                layers=cells([[sizes[stage] for stage in row] for row in table]),
                recompute={FULL: cells([[full[stage] for stage in row] for row in table])},
            )
            found.append(simulate(network, wanted))
    return found


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(sorted(PAIRED)), st.integers(1, 3), st.data())
def test_plans_are_optimal_by_exhaustive_search(family: str, num_ranks: int, data: st.DataObject):
    network = data.draw(networks(num_ranks=num_ranks))
    num_chunks = PAIRED[family]
    if network.num_layers < num_ranks * num_chunks:
        return
    microbatches = data.draw(st.integers(1, 8))
    schedule = make_schedule(family, num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=microbatches)
    simulations = every_plan(network, schedule)
    peaks = sorted(max(each.peak_memory_bytes) for each in simulations)
    limit = data.draw(st.sampled_from([None, peaks[0], peaks[len(peaks) // 4], peaks[len(peaks) // 2]]))
    with pytest.MonkeyPatch.context() as patch:
        if data.draw(st.booleans()):  # too many columns for a program in whole numbers
            patch.setattr(proof, "_MAX_INTEGER_COLUMNS", 0)
        outcome = plan(
            network,
            num_ranks=num_ranks,
            num_chunks=num_chunks,
            num_microbatches=microbatches,
            schedule=family,
            memory_limit_bytes=limit,
            allow_empty=False,
        )
    assert outcome.simulation is not None
    assert outcome.status is Status.OPTIMAL
    assert outcome.simulation.makespan_ns == min(each.makespan_ns for each in simulations if each.fits(limit))


@settings(max_examples=examples(40), deadline=None)
@given(st.sampled_from(sorted(PAIRED)), st.integers(1, 3), st.data())
def test_no_plan_is_shorter_than_one_by_one_at_its_best(family: str, num_ranks: int, data: st.DataObject):
    """As the bounds on degrees take it."""
    network = data.draw(networks(num_ranks=num_ranks))
    microbatches = data.draw(st.integers(1, 8))
    if network.num_layers < num_ranks * PAIRED[family]:
        return
    schedule = make_schedule(family, num_ranks=num_ranks, num_chunks=PAIRED[family], num_microbatches=microbatches)
    at_best = at_best_in_pairs(network)
    for each in every_plan(network, schedule):
        assert simulate(at_best, each.plan, schedule=schedule.in_turn()).makespan_ns <= each.makespan_ns


@settings(max_examples=examples(30), deadline=None)
@given(st.sampled_from(sorted(PAIRED)), st.integers(1, 3), st.data())
def test_no_plan_is_shorter_than_the_program_over_parts_of_layers(family: str, num_ranks: int, data: st.DataObject):
    network = data.draw(networks(num_ranks=num_ranks))
    num_chunks = PAIRED[family]
    if network.num_layers < num_ranks * num_chunks:
        return
    sizes = Sizes(num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=data.draw(st.integers(1, 8)))
    schedule = make_schedule(
        family, num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=sizes.num_microbatches
    )
    simulations = every_plan(network, schedule)
    peaks = sorted(max(each.peak_memory_bytes) for each in simulations)
    limit = data.draw(st.sampled_from([None, peaks[0], peaks[len(peaks) // 2]]))
    request = Request(network=network, sizes=sizes, memory_limit_bytes=limit, allow_empty=False)
    relaxation = Relaxation(make_problem(request, schedule=family), scale_ns=simulations[0].makespan_ns)
    found = relaxation.run(keep_going=lambda: True, report=lambda _bound: None)
    assert relaxation.is_over
    assert 0 < found.bound_ns <= min(each.makespan_ns for each in simulations if each.fits(limit))


def test_the_best_cut_without_pairs_is_not_the_best_one_with_them():
    """Layers that exchange much count for less in pairs, so a cut that is balanced without them is not.

    [Tessera, OSDI 2026: one cut wins without overlap, another with it]
    """
    network = read_layer_file(EXAMPLES / "dense_and_experts.json")
    sizes = {"num_ranks": 4, "num_chunks": 2, "num_microbatches": 16}
    names = ("interleaved", "interleaved-overlap")
    found = {name: plan(network, **sizes, schedule=name, time_limit_s=60) for name in names}
    assert all(outcome.status is Status.OPTIMAL for outcome in found.values())
    plans = {name: outcome.plan for name, outcome in found.items()}

    def step_ms(cut: str, schedule: str) -> float:
        return simulate(network, replace(plans[cut], schedule=schedule)).makespan_ns / MILLISECOND

    plain, paired = names
    assert [step_ms(plain, plain), step_ms(paired, plain)] == [3030, 3120]
    assert [step_ms(plain, paired), step_ms(paired, paired)] == [3190, 2832]


HIDING = Halves(forward=PassHalves(dispatch_ns=300), backward=PassHalves(combine_ns=600))


def for_megatron(network: Network, *, schedules: Sequence[str] = (), version: str | None = None) -> Outcome:
    return plan_for_target(
        network, "megatron", version=version, num_ranks=2, num_microbatches=4, num_chunks=[2], schedules=schedules
    ).outcome


def test_a_framework_is_planned_with_pairs_where_these_hide_something():
    exchanging = network_of((layer_of(HIDING), 8))
    found = for_megatron(exchanging)
    assert found.plan is not None
    assert found.plan.schedule == "interleaved-overlap"
    plain = for_megatron(exchanging, schedules=["interleaved"])
    assert found.status is plain.status is Status.OPTIMAL
    assert found.makespan_ns is not None
    assert plain.makespan_ns is not None
    assert found.makespan_ns < plain.makespan_ns
    for other in (for_megatron(exchanging, version="0.13"), for_megatron(network_of((layer_of(None), 8)))):
        assert other.plan is not None
        assert other.plan.schedule == "interleaved"


def test_weight_gradients_are_delayed_where_the_layers_tell_them_and_the_framework_can():
    backward = PassHalves(combine_ns=600, dispatch_ns=500, mlp_ns=700, mlp_weight_ns=400)
    network = network_of((layer_of(Halves(forward=PassHalves(dispatch_ns=300), backward=backward)), 8))
    found = for_megatron(network)
    assert found.plan is not None
    assert found.plan.delays_weights
    waiting = simulate(network, replace(found.plan, delays_weights=False))
    assert waiting.makespan_ns > simulate(network, found.plan).makespan_ns == found.makespan_ns
    assert (
        waiting.makespan_ns == simulate(network.without_delays(), replace(found.plan, delays_weights=None)).makespan_ns
    )
    untold = for_megatron(network.without_delays())
    assert untold.plan is not None
    assert untold.plan.delays_weights is None
    unable = replace(megatron_abilities((), in_pairs=True), delays_weights=False)
    refused = refusal(found.plan, unable, title="a framework")
    assert refused is not None
    assert refused.place == "delays_weights"
    assert unable.as_run(network, title="a framework") == network.without_delays()


def test_early_release_of_attention_leaves_two_windows():
    """Of four exchanges the combine of B runs beside attention of F, the dispatch of F beside the MLP of B."""
    forward = PassHalves(dispatch_ns=70, mlp_ns=300, combine_ns=500)
    backward = PassHalves(dispatch_ns=20, mlp_ns=50, combine_ns=90)
    layer = layer_of(Halves(forward=forward, backward=backward), forward_ns=1000, backward_ns=500)
    plan_of_pairs = Plan(schedule="1f1b-overlap", num_microbatches=3, layers=((1,),), releases_attention=True)
    found = simulate(network_of((layer, 1)), plan_of_pairs)
    assert found.hidden_ns is not None
    assert found.hidden_ns.tolist() == [2 * (90 + 50)]
    whole = simulate(network_of((layer, 1)), replace(plan_of_pairs, releases_attention=False))
    assert whole.hidden_ns is not None
    assert whole.hidden_ns.tolist() == [2 * saved_ns(forward, 1000, backward, 500)]
    assert found.plan.releases_attention
    assert not simulate(network_of((layer, 1)), replace(plan_of_pairs, schedule="1f1b")).plan.releases_attention


@given(paired_simulations())
def test_early_release_of_attention_never_shortens_a_step(drawn: tuple[Network, Simulation]):
    network, simulation = drawn
    early = simulate(network, replace(simulation.plan, releases_attention=True), communication=simulation.communication)
    assert early.makespan_ns >= simulation.makespan_ns
    assert all(np.array(early.peak_memory_bytes) <= simulation.peak_memory_bytes)


def exchanging(attention_bytes: int, mlp_bytes: int) -> Layer:
    """A layer of which all exchanges but two short ones are hidden also where attention is released early."""
    forward = PassHalves(dispatch_ns=250, mlp_ns=300, combine_ns=50)
    backward = PassHalves(dispatch_ns=50, mlp_ns=600, combine_ns=250)
    layer = layer_of(Halves(forward=forward, backward=backward))
    mode = replace(layer.modes[NONE], activation_bytes=attention_bytes + mlp_bytes, mlp_bytes=mlp_bytes)
    return replace(layer, modes={NONE: mode})


def every_plan_of_megatron(network: Network, sizes: Sizes) -> list[Simulation]:
    """All cuts in turn, in pairs, and in pairs that release attention early."""
    found = []
    for borders in itertools.combinations(range(1, network.num_layers), sizes.num_cells - 1):
        layers = np.diff([0, *borders, network.num_layers]).reshape(sizes.num_chunks, -1).tolist()
        for schedule, releases in (
            ("interleaved", False),
            ("interleaved-overlap", False),
            ("interleaved-overlap", True),
        ):
            wanted = Plan(
                schedule=schedule,
                num_microbatches=sizes.num_microbatches,
                layers=cells(layers),
                releases_attention=releases,
            )
            found.append(simulate(network, wanted))
    return found


def under_limit(network: Network, sizes: Sizes, limit_bytes: int) -> Outcome:
    return plan_for_target(
        network,
        "megatron",
        num_ranks=sizes.num_ranks,
        num_chunks=[sizes.num_chunks],
        num_microbatches=sizes.num_microbatches,
        memory_limit_bytes=limit_bytes,
        schedules=["interleaved", "interleaved-overlap"],
        allow_empty=False,
    ).outcome


@settings(max_examples=examples(20), deadline=None)
@given(
    st.lists(st.builds(exchanging, st.integers(1, 30), st.sampled_from([0, 5, 20, 60])), min_size=4, max_size=6),
    st.data(),
)
def test_a_framework_is_planned_with_early_release_by_exhaustive_search(drawn: list[Layer], data: st.DataObject):
    network, sizes = network_of(*((layer, 1) for layer in drawn)), Sizes(num_ranks=2, num_chunks=2, num_microbatches=4)
    simulations = every_plan_of_megatron(network, sizes)
    limit = data.draw(st.sampled_from(sorted({max(each.peak_memory_bytes) for each in simulations})))
    outcome = under_limit(network, sizes, limit)
    assert outcome.status is Status.OPTIMAL
    assert outcome.makespan_ns == min(each.makespan_ns for each in simulations if each.fits(limit))


def test_early_release_wins_where_a_limit_leaves_no_room_for_both():
    """Beside layers that keep little in their MLP go those that keep much, which another plan has no room for."""
    kept = ((10, 0), (10, 60), (30, 60), (5, 60), (5, 0), (5, 20))
    network = network_of(*((exchanging(attention, mlp), 1) for attention, mlp in kept))
    sizes = Sizes(num_ranks=2, num_chunks=2, num_microbatches=4)
    simulations = every_plan_of_megatron(network, sizes)
    shortest = min(simulations, key=lambda each: each.makespan_ns)
    roomy = under_limit(network, sizes, max(shortest.peak_memory_bytes))
    assert roomy.plan is not None
    assert not roomy.plan.releases_attention  # without need it only exposes two exchanges
    assert roomy.status is Status.OPTIMAL
    limit = 320
    tight = under_limit(network, sizes, limit)
    assert tight.plan is not None
    assert tight.plan.releases_attention
    assert tight.status is Status.OPTIMAL
    assert "--ep-overlap-early-attn-memory-release" in MEGATRON.write(tight.plan, "0.16").pieces[0].text
    assert "attention goes backward before" in pairs_note(tight.simulation)
    fitting = [each for each in simulations if each.fits(limit)]
    assert tight.makespan_ns == min(each.makespan_ns for each in fitting)
    assert tight.makespan_ns < min(each.makespan_ns for each in fitting if not each.plan.releases_attention)


def test_a_framework_recomputes_less_beside_pairs_and_has_fewer_layers_behind_the_loss():
    layer = layer_of(HIDING)
    full = replace(layer, modes={**layer.modes, FULL: Mode(activation_bytes=1, backward_ns=3000)})
    whole = for_megatron(network_of((full, 8)), schedules=["interleaved-overlap"])
    assert whole.plan is not None
    assert not whole.plan.used_kinds
    further = network_of((layer, 6), (replace(layer, is_mtp=True), 2))
    found = for_megatron(further)
    assert found.plan is not None
    assert found.plan.schedule == "interleaved"
    with pytest.raises(InputError, match="mtp_layers must be at most 1 for Megatron-LM under this schedule"):
        for_megatron(further, schedules=["interleaved-overlap"])


@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 14), st.integers(1, 9), st.integers(1, 9))
def test_pairs_that_hide_nothing_cost_nothing(
    ranks: int, chunks: int, microbatches: int, forward_ns: int, backward_ns: int
):
    plain, paired = ("1f1b", "1f1b-overlap") if chunks == 1 else ("interleaved", "interleaved-overlap")
    steps = [
        equal_stages(
            make_schedule(name, num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches),
            forward_ns,
            backward_ns,
        ).makespan_ns
        for name in (plain, paired)
    ]
    assert steps[0] == steps[1]


def test_fill_and_drain_of_equal_stages_count_pairs_as_long_as_they_are():
    exchanging = layer_of(Halves(forward=PassHalves(dispatch_ns=500), backward=PassHalves(combine_ns=500)))
    wanted = Plan(schedule="1f1b-overlap", num_microbatches=8, layers=((2, 2),), recompute={})
    simulation = simulate(network_of((exchanging, 4)), wanted)
    idle = sum(each.total_ns for each in simulation.idle)
    busy = int(simulation.timeline.busy_ns.sum())
    assert simulation.fill_drain.simulated == pytest.approx(idle / busy)
    assert simulation.bubbles.ideal == pytest.approx(idle / busy)


@given(st.sampled_from(sorted(PAIRED)), st.integers(1, 4), st.integers(1, 9))
def test_the_input_of_an_action_is_that_of_its_own_microbatch(family: str, ranks: int, microbatches: int):
    schedule = make_schedule(family, num_ranks=ranks, num_chunks=PAIRED[family], num_microbatches=microbatches)
    inputs = build_graph(schedule).inputs
    waiting = inputs >= 0
    assert (schedule.units[inputs[waiting]] == schedule.units[waiting]).all()
    comes_forward = schedule.ops[inputs[waiting]] == Op.F
    is_last = schedule.stages[waiting] == schedule.num_stages - 1
    assert (comes_forward == ((schedule.ops[waiting] == Op.F) | is_last)).all()


# -- laws ---------------------------------------------------------------------------------------------------------


def times_as_long(network: Network, times: int) -> Network:
    """The network with all times so many times as long, and nothing slower in pairs, so that nothing is rounded."""

    def longer(half: PassHalves) -> PassHalves:
        names = ("dispatch_ns", "mlp_ns", "combine_ns", "mlp_weight_ns")
        return PassHalves(**{name: times * getattr(half, name) for name in names})

    def longer_layer(layer: Layer) -> Layer:
        halves_of = layer.halves
        return replace(
            layer,
            forward_ns=times * layer.forward_ns,
            modes={kind: replace(mode, backward_ns=times * mode.backward_ns) for kind, mode in layer.modes.items()},
            halves=halves_of and Halves(forward=longer(halves_of.forward), backward=longer(halves_of.backward)),
        )

    ends = {
        name: replace(block, forward_ns=times * block.forward_ns, backward_ns=times * block.backward_ns)
        for name, block in (("head", network.head), ("tail", network.tail))
    }
    runs = tuple(replace(run, layer=longer_layer(run.layer)) for run in network.runs)
    return replace(network, runs=runs, pair_slowdown=1.0, ranks=(), **ends)


@given(paired_simulations(), st.integers(2, 1000))
def test_times_that_are_longer_make_the_step_as_much_longer(drawn: tuple[Network, Simulation], times: int):
    network, simulation = drawn
    once = simulate(times_as_long(network, 2), simulation.plan)  # so that the half of a backward is a whole number
    longer = simulate(times_as_long(network, 2 * times), simulation.plan)
    assert longer.makespan_ns == times * once.makespan_ns


@given(paired_simulations())
def test_a_step_is_no_longer_where_computation_is_slowed_less(drawn: tuple[Network, Simulation]):
    network, simulation = drawn
    freely = simulate(replace(network, pair_slowdown=1.0), simulation.plan, communication=simulation.communication)
    assert freely.makespan_ns <= simulation.makespan_ns


@pytest.mark.parametrize("family", ["1f1b-overlap", "interleaved-overlap"])
def test_more_overlap_never_lengthens_a_proven_optimum(family: str):
    backward = PassHalves(combine_ns=600, dispatch_ns=500, mlp_ns=700, mlp_weight_ns=400)
    whole = Halves(forward=PassHalves(dispatch_ns=300, mlp_ns=200, combine_ns=300), backward=backward)
    lesser = [None, whole.undelayed(), whole]
    steps_ns = []
    for own, slowdown in ((lesser[0], 1.0), (lesser[1], 1.5), (lesser[1], 1.0), (lesser[2], 1.0)):
        network = replace(network_of((layer_of(None), 3), (layer_of(own), 4)), pair_slowdown=slowdown)
        found = plan(network, num_ranks=2, num_chunks=PAIRED[family], num_microbatches=5, schedule=family)
        assert found.status is Status.OPTIMAL
        steps_ns.append(found.makespan_ns)
    assert steps_ns == sorted(steps_ns, reverse=True)
    assert steps_ns[0] > steps_ns[-1]
