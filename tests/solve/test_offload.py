"""Activations that the host keeps, against every plan: their copies, their memory and the search over them."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from evenflow.errors import InputError
from evenflow.model import NONE, HostLink, LayerRun, Mode, Network, Plan, RankTraits
from evenflow.schedule import NUM_OPS
from evenflow.simulate import simulate
from evenflow.simulate.memory import memory_curve
from evenflow.solve import Status, plan
from evenflow.solve.cuts.cut_graph import has_cut_graphs
from evenflow.solve.cuts.rank_alone import ranks_alone
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.problem import without_copies, without_copy_time, without_limit
from evenflow.solve.proof import Prover
from evenflow.solve.search.annealing import Annealing
from evenflow.solve.search.dealing import dealt
from evenflow.solve.start import even_start
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, plain_network
from tests.solve.cases import (
    MOST_PLANS,
    NO_SHRINKING,
    TOLERANCE,
    cases,
    drawn_counts,
    simulated_as_one_by_one,
    without_kind,
    without_last_layer,
)
from tests.solve.exhaustive import Case, every_plan
from tests.solve.solved import planned_as_the_best
from tests.thoroughness import examples

LINKS = st.builds(
    HostLink,
    bytes_per_s=st.sampled_from([10**6, 10**8, 10**9, 10**10, 10**11, 10**15]),
    one_engine=st.booleans(),
    sharers=st.sampled_from([1, 1, 2]),
    buffers=st.sampled_from([None, None, 1, 2, 3]),
    ahead=st.integers(0, 3),
)


def offloading(network: Network, link: HostLink, shares: dict[str, float]) -> Network:
    """The network with these kinds moving a share of what they keep, and one more that moves everything."""

    def moved(mode: Mode, share: float) -> Mode:
        size = int(mode.activation_bytes * share)
        return replace(mode, activation_bytes=mode.activation_bytes - size, offloaded_bytes=size)

    runs = []
    for run in network.runs:
        modes = {kind: moved(mode, shares.get(kind, 0.0)) for kind, mode in run.layer.modes.items() if kind != NONE}
        modes |= {NONE: run.layer.modes[NONE], "host": moved(run.layer.modes[NONE], 1.0)}
        runs.append(LayerRun(layer=replace(run.layer, modes=modes), count=run.count))
    return replace(network, runs=tuple(runs), host_link=link)


def sharing(draw: st.DrawFn, case: Case) -> Case:
    """The case, perhaps with links that devices of some ranks share with others than those of other ranks."""
    num_ranks = case.schedule.num_ranks
    numbers = draw(st.none() | st.lists(st.sampled_from([None, 1, 4]), min_size=num_ranks, max_size=num_ranks))
    if numbers is None:
        return case
    ranks = case.network.ranks or (RankTraits(),) * num_ranks
    ranks = tuple(replace(rank, host_sharers=number) for rank, number in zip(ranks, numbers, strict=True))
    return replace(case, network=replace(case.network, ranks=ranks))


def fetching_by_cell(draw: st.DrawFn, case: Case) -> Case:
    """The case, perhaps with fetches that are ahead by other numbers of actions in each cell."""
    num_ranks, num_chunks = case.schedule.num_ranks, case.schedule.num_chunks
    row = st.tuples(*[st.integers(0, 3)] * num_ranks)
    link = case.network.host_link
    rows = draw(st.none() | st.tuples(row) | st.tuples(*[row] * num_chunks))
    return (
        case if rows is None else replace(case, network=replace(case.network, host_link=replace(link, cell_ahead=rows)))
    )


@st.composite
def offloads(draw: st.DrawFn, *, memory: int = 1, **settings_: object) -> Case:
    """Any case whose kinds move some of what they keep, or all of it."""
    case = draw(cases(memory=memory, **settings_))
    kinds = [kind for kind in case.network.kinds if kind != NONE]
    shares = {kind: draw(st.sampled_from([0.0, 0.5, 1.0])) for kind in kinds}
    case = replace(case, network=offloading(case.network, draw(LINKS), shares), mix_any=True)
    case = fetching_by_cell(draw, sharing(draw, case))
    while case.num_plans() > MOST_PLANS:
        kept = [kind for kind in case.network.kinds if kind not in (NONE, "host")]
        if kept:
            case = replace(case, network=without_kind(case.network, kept[0]))
        else:
            case = replace(case, network=without_last_layer(case.network))
    return case


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None, phases=NO_SHRINKING)
def test_plans_are_timed_and_weighed_as_one_by_one(data):
    """The problem, the simulator and the oracle agree on makespan and peaks of every plan that is tried."""
    case = data.draw(offloads())
    problem, _counts, simulation = simulated_as_one_by_one(data, case)
    peaks = simulation.peak_memory_bytes
    timeline = simulation.timeline
    for rank in range(problem.num_ranks):
        times_ns, held = memory_curve(timeline, simulation.costs, rank)
        assert held.max() == peaks[rank]
        assert (np.diff(times_ns) >= 0).all()
    starts, ends = timeline.copy_start_ns, timeline.copy_end_ns
    copied = timeline.graph.copied
    if copied is not None:
        assert (ends[0] >= timeline.end_ns[copied[0]]).all()  # what leaves was made before
        assert (ends[1] <= timeline.start_ns[copied[1]]).all()  # what comes back is there in time
        assert (starts[1] >= ends[0]).all()  # nothing comes back before it has left
    path = timeline.critical_path()
    assert timeline.end_ns[path[-1]] == timeline.makespan_ns
    event(f"copies: {copied is not None and copied.shape[1] > 0}")


@given(data=st.data())
@settings(max_examples=examples(40), phases=NO_SHRINKING, deadline=None)
def test_the_plan_is_the_best_of_all(data):
    case = data.draw(offloads(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
    outcome = planned_as_the_best(data, case)
    if outcome.plan is not None:
        event(f"moves: {any(map(any, outcome.plan.recompute.get('host', ())))}")


@given(data=st.data(), seed=st.integers(0, 1000))
@settings(max_examples=examples(40), deadline=None, phases=NO_SHRINKING)
def test_every_part_of_the_search_knows_the_host(data, seed):
    case = data.draw(offloads())
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    problem = case.problem(limit)
    least = least_memory(problem, seconds=30)
    assert (least.peak_bytes, least.proven) == (plans.least_bytes, True)
    first = dealt(problem)
    assert first is None or max(problem.rank_memory(problem.costs(first))) <= limit
    start = even_start(problem)
    for counts in (start, first):
        if counts is None or max(problem.rank_memory(problem.costs(counts))) > limit:
            continue
        annealing = Annealing(problem=problem, counts=counts, seed=seed)
        assert annealing.best == problem.makespan_ns(problem.costs(counts))
        annealing.improve(steps=300)
        found = problem.costs(annealing.best_counts)
        assert annealing.best == problem.makespan_ns(found) >= plans.best_ns(limit)
        assert max(problem.rank_memory(found)) <= limit


def moved_network(bytes_per_s: int, *, num_layers: int = 8) -> Network:
    link = HostLink(bytes_per_s=bytes_per_s)
    return offloading(plain_network(num_layers), link, {})


def test_a_host_that_is_never_reached_is_never_used_and_one_at_once_is_memory():
    asked = {"num_ranks": 4, "num_microbatches": 8, "time_limit_s": 30}
    free = plan(plain_network(8), **asked)
    limit = max(free.simulation.peak_memory_bytes) - 100 * MEGABYTE
    without = plan(plain_network(8), memory_limit_bytes=limit, **asked)
    assert without.makespan_ns > free.makespan_ns
    never = plan(moved_network(1000), memory_limit_bytes=limit, **asked)
    assert never.makespan_ns == without.makespan_ns
    assert "host" not in never.plan.used_kinds
    at_once = plan(moved_network(10**15), memory_limit_bytes=limit, **asked)
    assert at_once.makespan_ns == pytest.approx(free.makespan_ns, rel=1e-6)


def test_more_bandwidth_never_lengthens_the_best_step():
    asked = {"num_ranks": 4, "num_microbatches": 8, "memory_limit_bytes": 600 * MEGABYTE, "time_limit_s": 30}
    steps = [plan(moved_network(rate), **asked) for rate in (10**9, 3 * 10**9, 10**10, 10**11)]
    assert all(outcome.status is Status.OPTIMAL for outcome in steps)
    for slower, faster in pairwise(steps):
        assert faster.makespan_ns <= slower.makespan_ns * (1 + TOLERANCE)


def test_without_a_link_or_under_none_nothing_can_be_moved():
    network = moved_network(10**9)
    with pytest.raises(InputError, match="link to the host"):
        replace(network, host_link=None)
    layer = network.runs[0].layer
    everything = replace(layer, modes={NONE: replace(layer.modes[NONE], offloaded_bytes=1)})
    with pytest.raises(InputError, match="keeps everything"):
        replace(network, runs=(LayerRun(layer=everything, count=8),))


def test_what_is_moved_is_away_between_its_forward_and_its_backward():
    network = moved_network(10**11)
    every = ((2, 2, 2, 2),)
    kept = simulate(network, Plan(schedule="1f1b", num_microbatches=8, layers=every))
    moved = simulate(network, Plan(schedule="1f1b", num_microbatches=8, layers=every, recompute={"host": every}))
    assert moved.makespan_ns == kept.makespan_ns
    activation = 2 * network.runs[0].layer.modes[NONE].activation_bytes
    # Of 4 microbatches in flight 3 are on the device: one that leaves, one that comes back, one that is worked on.
    assert kept.peak_memory_bytes[0] - moved.peak_memory_bytes[0] == activation
    assert kept.peak_memory_bytes[3] == moved.peak_memory_bytes[3]
    assert moved.timeline.graph.copied.shape[1] < 4 * 8  # the last ranks need it back too soon


@given(data=st.data())
@settings(max_examples=examples(60), phases=NO_SHRINKING, deadline=None)
def test_no_target_that_a_plan_meets_is_refuted(data):
    """By the problem itself, whose cuts are searched with copies in each rank alone, and by those that bound it."""
    case = data.draw(offloads(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    best_ns = plans.best_ns(limit)
    if best_ns is None:
        return
    problem = case.problem(limit)
    bounding = [without_limit(problem)]
    if problem.host_link is not None:
        bounding.append(without_copy_time(problem))
    for one in (problem, *bounding):
        met = Prover(one).refute(best_ns, seconds=30)
        assert not met.refuted
        assert met.counts is None or one.simulate(met.counts).makespan_ns <= best_ns
    missed = Prover(problem).refute(best_ns - 1, seconds=30)
    assert missed.counts is None
    event(f"refuted: {missed.refuted}")


@given(data=st.data())
@settings(max_examples=examples(40), phases=NO_SHRINKING, deadline=None)
def test_a_rank_alone_takes_no_longer_than_its_plan(data):
    case = data.draw(offloads(any_order=False))
    problem = without_copies(case.problem())
    if not has_cut_graphs(problem):
        return
    cut = data.draw(st.sampled_from(case.cuts()))
    counts = drawn_counts(data, problem, cut)
    costs, makespan_ns = problem.costs(counts), case.problem().simulate(counts).makespan_ns
    copies = np.zeros(problem.num_cells, dtype=np.int64) if costs.copy_ns is None else costs.copy_ns
    waits = False
    for rank, alone in enumerate(ranks_alone(problem)):
        cells = problem.schedule.stage_table[:, rank].tolist()
        ops = problem.schedule.used_ops
        durations = np.array([[costs.durations[NUM_OPS * cell + op] for cell in cells for op in ops]], dtype=np.float64)
        begins, ends = (np.array([[cut[cell + behind]] for cell in cells]) for behind in (0, 1))
        own = copies[cells][:, np.newaxis]
        assert not alone.exceeds(durations, begins, ends, makespan_ns, copies=own)[0]
        waits |= any(  # some target is missed with copies alone
            bool(alone.exceeds(durations, begins, ends, time_ns, copies=own)[0])
            and not alone.exceeds(durations, begins, ends, time_ns)[0]
            for time_ns in range(0, makespan_ns, max(1, makespan_ns // 50))
        )
    event(f"waits for copies: {waits}")
