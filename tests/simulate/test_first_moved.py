"""Tests of steps in which further ranks keep more of their first backwards, against a slow simulator."""

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import HostLink, MovedGroups, MovedShare, Network, Plan
from evenflow.model.moved_share import with_moved_share
from evenflow.schedule import Op, schedule_of
from evenflow.simulate import Simulation, host_uses, simulate
from tests.megatron_offload import CHAIN, WHOLE, Group, decide, network_of
from tests.solve.exhaustive import makespans_of, peaks_of
from tests.thoroughness import examples


def shared_plan(network: Network, plan: Plan) -> Plan:
    groups = MovedGroups.of(network, CHAIN)
    assert groups is not None
    return with_moved_share(plan, groups, schedule_of(plan).stage_table)


@st.composite
def kept_first(draw: st.DrawFn) -> Simulation:
    ranks, chunks, microbatches = draw(st.integers(2, 4)), draw(st.integers(1, 2)), draw(st.integers(1, 3))
    layers = [[draw(st.integers(1, 3)) for _rank in range(ranks)] for _chunk in range(chunks)]
    part = st.tuples(st.sampled_from([0, 250, 400]), st.sampled_from([0, 300, 500]))
    others = sum(map(sum, layers)) - 1
    parts = [(400, 500), *draw(st.lists(part, min_size=others, max_size=others))]
    link = HostLink(
        bytes_per_s=draw(st.sampled_from([10**8, 3 * 10**8, 10**9])),
        one_engine=draw(st.booleans()),
        ahead=draw(st.integers(0, 2)),
    )
    share = MovedShare(
        kind=WHOLE, share=draw(st.sampled_from([0.3, 0.5, 0.8, 1.0])), kept_bytes=draw(st.integers(0, 3000))
    )
    network = network_of(parts, link)
    plan = Plan(
        schedule="1f1b" if chunks == 1 else "interleaved",
        num_microbatches=ranks * microbatches,
        layers=tuple(map(tuple, layers)),
        moved_share=share,
    )
    return simulate(network, shared_plan(network, plan))


def moved_of_passes(simulation: Simulation) -> dict[tuple[int, int], int]:
    """Bytes that leave of every stage and microbatch by Megatron-LM's steps, where it is not what the stage says."""
    share, schedule = simulation.plan.moved_share, simulation.timeline.schedule
    assert share is not None
    if not share.kept_bytes:
        return {}
    ends = np.cumsum(
        [simulation.plan.layers[c][r] for c in range(schedule.num_chunks) for r in range(schedule.num_ranks)]
    )
    starts = [0, *ends.tolist()]
    moved = {}
    for rank in range(schedule.num_ranks):
        passes = [(action.stage, action.microbatch) for action in schedule.order(rank) if action.op == Op.B]
        backwards = [
            [
                Group(module, size)
                for layer in simulation.network.layers[starts[stage] : starts[stage + 1]]
                for module, size in enumerate(layer.modes[WHOLE].moved_parts)
                if size
            ]
            for stage, _microbatch in passes
        ]
        decide(backwards, rank=rank, fraction=share.share, delta=share.kept_bytes)
        own = {
            key: sum(group.size for group in groups if group.offload)
            for key, groups in zip(passes, backwards, strict=True)
        }
        count = len(simulation.costs.first_moved[rank]) if simulation.costs.first_moved else 0
        moved |= {key: own[key] for key in passes[:count]}
    return moved


@settings(max_examples=examples(40))
@given(kept_first())
def test_a_step_that_keeps_first_backwards_is_that_of_the_oracle(simulation: Simulation) -> None:
    costs, schedule = simulation.costs, simulation.timeline.schedule
    assert costs.offloaded_bytes is not None
    static = np.zeros(schedule.num_stages, dtype=np.int64)
    for rank, own in enumerate(schedule.stage_table.T):
        static[own[0]] = costs.static_bytes[rank]
    columns = (
        costs.forward_ns, costs.backward_ns, costs.activation_bytes, static, costs.weight_ns,
        costs.until_weight_bytes, np.zeros_like(static), costs.offloaded_bytes,
    )  # fmt: skip
    table = np.stack(columns, axis=1)[:, np.newaxis, :]
    moved = moved_of_passes(simulation)
    nothing = np.zeros((schedule.num_stages, 1), dtype=np.int64)
    link = simulation.network.host_link
    makespans = makespans_of(schedule, table, nothing, latency_ns=None, host_link=link, sharers=[], moved=moved)
    assert simulation.makespan_ns == makespans[0]
    peaks = peaks_of(schedule, table, link, moved)
    assert simulation.peak_memory_bytes == tuple(peaks[:, 0].tolist())


@settings(max_examples=examples(30))
@given(kept_first())
def test_keeping_more_takes_more_memory_and_leaves_less_on_the_host(simulation: Simulation) -> None:
    network, share = simulation.network, simulation.plan.moved_share
    assert share is not None
    whole = replace(share, share=1.0)  # of the last of those, other modules move than of later ones where not all do
    without = simulate(
        network, shared_plan(network, replace(simulation.plan, moved_share=replace(whole, kept_bytes=0)))
    )
    simulation = simulate(network, replace(without.plan, moved_share=whole))
    assert all(more >= less for more, less in zip(simulation.peak_memory_bytes, without.peak_memory_bytes, strict=True))
    assert simulation.makespan_ns <= without.makespan_ns
    for own, other in zip(host_uses(simulation), host_uses(without), strict=True):
        assert own.copies_ns <= other.copies_ns


@settings(max_examples=examples(30))
@given(kept_first())
def test_who_keeps_all_of_it_moves_nothing_on_further_ranks(simulation: Simulation) -> None:
    share, plan = simulation.plan.moved_share, simulation.plan
    assert share is not None
    kept = simulate(simulation.network, replace(plan, moved_share=replace(share, kept_bytes=10**9)))
    first = {
        kind: tuple(tuple(count if rank == 0 else 0 for rank, count in enumerate(row)) for row in table)
        for kind, table in plan.recompute.items()
    }
    alone = simulate(simulation.network, replace(plan, recompute=first, moved_share=None))
    assert kept.makespan_ns == alone.makespan_ns
    assert kept.peak_memory_bytes == alone.peak_memory_bytes
    assert all(not own.copies_ns for own in host_uses(kept)[1:])
