"""Hypothesis strategies: small problems whose every plan can be tried, with limits that bind."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np
from hypothesis import Phase, assume
from hypothesis import strategies as st

from evenflow.model import BOTH, COMM, FULL, NONE, SELECT, EndBlock, Layer, LayerRun, Mode, Network
from evenflow.simulate import Integers, Simulation, simulate
from evenflow.solve.problem import Problem
from tests.solve.exhaustive import Case, every_plan
from tests.strategies import WITHOUT_PAIRS, random_schedules, sizes

MOST_PLANS = 30_000
TOLERANCE = 2e-6
SECONDS = 20.0
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)
"""A failing `plan` takes all its time; shrinking it would take hours."""


@st.composite
def small_networks(draw: st.DrawFn, *, num_layers: int, most_kinds: int, time: int = 1, memory: int = 1) -> Network:
    """`num_layers` layers in up to four runs; costs are multiples of `time` ns and `memory` bytes and then some.

    Half of them are sensible (recomputing more keeps less), in the others a kind may be useless or beat another.
    """
    kinds = draw(st.lists(st.sampled_from([FULL, BOTH, SELECT, COMM, "offload"]), unique=True, max_size=most_kinds))
    num_runs = draw(st.integers(1, min(4, num_layers)))
    inner = st.integers(1, max(1, num_layers - 1))
    bounds = [0, *sorted(draw(st.lists(inner, min_size=num_runs - 1, max_size=num_runs - 1))), num_layers]
    nanoseconds = st.integers(10, 1000).map(lambda value: value * time + (value % 7 if time > 1 else 0))
    amounts = st.integers(0, 1000).map(lambda value: value * memory)
    sensible = draw(st.booleans())
    working = amounts if draw(st.booleans()) else st.just(0)
    runs = []
    for index in range(num_runs):
        count = bounds[index + 1] - bounds[index]
        if not count:
            continue
        backward = draw(nanoseconds)
        most = draw(amounts)
        modes = {NONE: Mode(activation_bytes=most, backward_ns=backward, working_bytes=draw(working))}
        for place, kind in enumerate(kinds, start=1):
            kept = most * (len(kinds) + 1 - place) // (len(kinds) + 1) if sensible else draw(amounts)
            recomputing_ns = backward + draw(nanoseconds) // 2
            modes[kind] = Mode(activation_bytes=kept, backward_ns=recomputing_ns, working_bytes=draw(working))
        layer = Layer(
            name=f"layer {index}",
            forward_ns=draw(nanoseconds),
            parameter_bytes=draw(amounts),
            modes=modes,
            stated_weight_ns=draw(st.none() | st.integers(0, backward)),
            stated_until_weight_bytes=draw(st.none() | amounts),
        )
        runs.append(LayerRun(layer=layer, count=count))
    ends = st.builds(
        EndBlock, forward_ns=nanoseconds, backward_ns=nanoseconds, parameter_bytes=amounts, activation_bytes=amounts,
        working_bytes=working,
    ) | st.just(EndBlock())  # fmt: skip
    return Network(name="small", runs=tuple(runs), head=draw(ends), tail=draw(ends), constant_bytes=draw(amounts))


@st.composite
def cases(draw: st.DrawFn, *, time: int = 1, memory: int = 1, any_order: bool = True) -> Case:
    """All families, and other orders and placements where `any_order`; layers are taken away until every plan can be
    tried.
    """
    size = draw(sizes(families=WITHOUT_PAIRS, max_ranks=4, max_chunks=3, max_microbatches=6, max_splits=2))
    allow_empty = draw(st.sampled_from([False, False, True]))
    fewest = 1 if allow_empty else size.num_cells
    assume(fewest <= 8)
    network = draw(small_networks(
        num_layers=draw(st.integers(fewest, 8)), most_kinds=draw(st.integers(0, 4)), time=time, memory=memory
    ))  # fmt: skip
    order = None
    if any_order and size.sequence_splits == 1:
        shape = (size.num_ranks, size.num_chunks, size.num_microbatches)
        order = draw(st.none() | random_schedules(sizes=shape))
    case = Case(
        network=network, sizes=size, order=order, allow_empty=allow_empty, mix_any=draw(st.booleans()),
        message_ns=draw(st.sampled_from([0, 0, 1, 300, 2000])) * time,
    )  # fmt: skip
    while case.num_plans() > MOST_PLANS:
        if case.network.num_layers > fewest:
            case = replace(case, network=without_last_layer(case.network))
        elif len(case.network.kinds) > 1:
            case = replace(case, network=without_kind(case.network, case.network.kinds[0]))
        else:
            assume(False)
    return case


def without_last_layer(network: Network) -> Network:
    *runs, last = network.runs
    return replace(network, runs=(*runs, *([replace(last, count=last.count - 1)] if last.count > 1 else [])))


def without_kind(network: Network, kind: str) -> Network:
    def strip(layer: Layer) -> Layer:
        return replace(layer, modes={name: mode for name, mode in layer.modes.items() if name != kind})

    return replace(network, runs=tuple(replace(run, layer=strip(run.layer)) for run in network.runs))


def with_full(network: Network) -> Network:
    """The network whose layers may be under `full` too, which keeps a third and takes a third longer."""

    def layer(old: Layer) -> Layer:
        none = old.modes[NONE]
        full = replace(none, activation_bytes=none.activation_bytes // 3, backward_ns=none.backward_ns * 4 // 3)
        return replace(old, modes={FULL: full, **old.modes})

    return replace(network, runs=tuple(replace(run, layer=layer(run.layer)) for run in network.runs))


def drawn_counts(data: st.DataObject, problem: Problem, cut: Sequence[int]) -> Integers:
    """The counts [num_cells, num_kinds] of a plan with this cut, every layer under any kind."""
    counts = np.zeros((len(cut) - 1, len(problem.kinds)), dtype=np.int64)
    for cell, (before, after) in enumerate(pairwise(cut)):
        for _layer in range(after - before):
            counts[cell, data.draw(st.integers(0, len(problem.kinds) - 1))] += 1
    return counts


def simulated_as_one_by_one(data: st.DataObject, case: Case) -> tuple[Problem, Integers, Simulation]:
    """The simulation of any plan, of whose makespan and peaks problem, simulator and oracle say the same."""
    plans, problem = every_plan(case), case.problem()
    counts = drawn_counts(data, problem, data.draw(st.sampled_from(case.cuts())))
    costs = problem.costs(counts)
    simulation = simulate(case.network, problem.plan(counts), schedule=case.schedule, communication=case.communication)
    assert simulation.makespan_ns == problem.makespan_ns(costs)
    peaks = [problem.rank_peak(costs, rank) for rank in range(problem.num_ranks)]
    assert list(simulation.peak_memory_bytes) == peaks
    match = (plans.makespans_ns == simulation.makespan_ns) & (peaks == plans.rank_peaks_bytes.T).all(axis=1)
    assert match.any()
    return problem, counts, simulation
