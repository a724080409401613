"""Working memory: what an action needs for itself, beside what lives."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evenflow.model import EndBlock, LayerRun, Mode, Network
from evenflow.simulate import live_at_peak, live_vectors, memory_curve, peak_bytes, simulate, stage_costs
from tests.oracle import orders_of
from tests.strategies import networks, plans, schedule_of


@given(st.data())
def test_the_peak_is_that_of_the_fullest_action_with_one_chunk_and_never_less(data: st.DataObject):
    """Replayed action by action: what lives while one runs, and what the largest layer of its stage needs.

    Pairs, which go layer by layer, are held against an oracle of their own in `tests/solve/test_pairs.py`.
    """
    network = data.draw(networks())
    plan = data.draw(plans(network))
    schedule = schedule_of(plan).in_turn()
    costs = stage_costs(network, plan, schedule)
    of_stage = working_of_stages(network, plan, schedule)
    peaks = peak_bytes(schedule, costs)
    for rank, order in enumerate(orders_of(schedule)):
        held, highest = int(costs.static_bytes[rank]), 0
        for action in order:
            activation, waiting = int(costs.activation_bytes[action.stage]), int(costs.until_weight_bytes[action.stage])
            if action.op.name == "F":
                held += activation
            after = {"F": 0, "B": -activation, "I": waiting - activation, "W": -waiting}[action.op.name]
            highest = max(highest, held + max(after, 0) + of_stage[action.stage])
            held += after if not schedule.is_forward_only else -activation
        assert peaks[rank] >= highest
        if schedule.num_chunks == 1:
            assert peaks[rank] == highest


@given(st.data())
def test_the_live_vector_of_the_peak_makes_the_peak(data: st.DataObject):
    network = data.draw(networks())
    plan = data.draw(plans(network))
    schedule = schedule_of(plan)
    costs = stage_costs(network, plan, schedule)
    for rank, peak in enumerate(peak_bytes(schedule, costs)):
        stages = schedule.stage_table[:, rank]
        live = live_at_peak(schedule, costs, rank)
        each = np.concatenate((costs.activation_bytes[stages], costs.until_weight_bytes[stages]))[: len(live)]
        assert costs.static_bytes[rank] + costs.working_bytes[rank] + live @ each == pytest.approx(peak)
        assert schedule.has_pairs or any((live <= vector).all() for vector in live_vectors(schedule, rank))


def working_of_stages(network: Network, plan, schedule) -> list[int]:
    """The largest working memory of the layers and ends of each stage."""
    part = network.split_sequence(plan.sequence_splits)
    coming = iter(part.layers)
    stages = []
    for stage, rank in enumerate(schedule.stage_ranks):
        chunk = schedule.stage_ranks[:stage].count(rank)
        kinds = [kind for kind in part.kinds for _ in range(plan.count(kind, chunk, rank))]
        stages.append(max([next(coming).modes[kind].working_bytes for kind in kinds], default=0))
    stages[0] = max(stages[0], part.head.working_bytes)
    stages[-1] = max(stages[-1], part.tail.working_bytes)
    return stages


@given(st.data())
def test_without_working_memory_nothing_changes(data: st.DataObject):
    network = data.draw(networks())
    plan = data.draw(plans(network))
    least = simulate(without_working(network), plan)
    simulation = simulate(network, plan)
    more = simulation.costs.working_bytes
    assert simulation.peak_memory_bytes == tuple((least.peak_memory_bytes + more).tolist())
    assert not least.costs.working_bytes.any()
    for rank, peak in enumerate(simulation.peak_memory_bytes):
        assert memory_curve(simulation.timeline, simulation.costs, rank)[1].max() == peak


def without_working(network: Network) -> Network:
    def layer_without(run: LayerRun) -> LayerRun:
        modes = {
            kind: Mode(activation_bytes=mode.activation_bytes, backward_ns=mode.backward_ns)
            for kind, mode in run.layer.modes.items()
        }
        return replace(run, layer=replace(run.layer, modes=modes))

    def block_without(block: EndBlock) -> EndBlock:
        return replace(block, working_bytes=0)

    runs = tuple(layer_without(run) for run in network.runs)
    return replace(network, runs=runs, head=block_without(network.head), tail=block_without(network.tail))
