"""Tests of plans that move a share of what they can, against all shares of all cuts."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from evenflow.model import (
    NONE,
    Abilities,
    Groups,
    HostLink,
    Layer,
    LayerRun,
    Mode,
    MovedGroups,
    MovedShare,
    Network,
    Plan,
    Recomputation,
    Request,
    Scope,
    Sizes,
    cells,
    shares_between,
    stage_table,
    with_chain,
    with_moved_share,
)
from evenflow.predict.training import moved_chain
from evenflow.simulate import Simulation, kept_as_if_none_left, simulate
from evenflow.solve.best_outcome import BestOutcome
from evenflow.solve.clock import Clock
from evenflow.solve.for_target import solve_for_target
from evenflow.solve.moved_shares import ShareSearch
from evenflow.solve.problem import Problem, make_problem
from evenflow.solve.race import Race
from evenflow.solve.requests import ContestSearch
from evenflow.solve.share_bound import bounding_shares
from evenflow.solve.time_left import TimeLeft
from evenflow.targets.refusal import refusal
from tests.megatron_offload import WHOLE, network_of
from tests.solve.cases import TOLERANCE
from tests.strategies import FamilySizes
from tests.thoroughness import examples

RANKS, LAYERS, MICROBATCHES = 4, 8, 8
ALIKE = Abilities(
    schedules=("1f1b",), recomputation=(Recomputation(scope=Scope.MODEL, kinds=(WHOLE,)),), groups=Groups.ANY
)
IN_SHARE = replace(ALIKE, recomputation=(replace(ALIKE.recomputation[0], chain=moved_chain),))


def _network(*, bytes_per_s: int) -> Network:
    """Layers whose last ones move less, on a link that is busy where all of it moves."""

    def layer(parts: tuple[int, int]) -> Layer:
        whole = Mode(
            activation_bytes=1000 - sum(parts), offloaded_bytes=sum(parts), moved_parts=parts, backward_ns=2000
        )
        modes = {NONE: Mode(activation_bytes=1000, backward_ns=2000), WHOLE: whole}
        return Layer(name=str(parts), forward_ns=1000, parameter_bytes=10, modes=modes)

    runs = LayerRun(layer=layer((400, 500)), count=6), LayerRun(layer=layer((400, 0)), count=2)
    return Network(name="moving", runs=runs, host_link=HostLink(bytes_per_s=bytes_per_s))


def _every_plan(network: Network) -> list[Simulation]:
    """Return all cuts under all shares that differ, and with all or nothing moved."""
    whole = with_chain(network, moved_chain(WHOLE))
    assert whole is not None
    groups = MovedGroups.of(whole, moved_chain(WHOLE))
    assert groups is not None
    found = []
    for inner in combinations(range(1, LAYERS), RANKS - 1):
        bounds = list(pairwise((0, *inner, LAYERS)))
        counts = [groups.num_groups(start, end) for start, end in bounds]
        for share in (0.0, *shares_between(counts), 1.0):
            plan = Plan(
                schedule="1f1b",
                num_microbatches=MICROBATCHES,
                layers=(tuple(end - start for start, end in bounds),),
                moved_share=MovedShare(kind=WHOLE, share=share),
            )
            counted = with_moved_share(plan, groups, stage_table(range(RANKS), num_ranks=RANKS))
            found.append(simulate(whole, counted))
    return found


def _outcome(network: Network, abilities: Abilities, limit: int) -> BestOutcome:
    request = Request(
        network=network,
        sizes=Sizes(num_ranks=RANKS, num_chunks=1, num_microbatches=MICROBATCHES),
        memory_limit_bytes=limit,
        allow_empty=False,
    )
    search = ContestSearch(num_chunks=(1,), time_limit_s=4.0)
    return solve_for_target(request, abilities, search, title="Megatron-LM")


def test_a_busy_link_moves_a_share_and_the_shortest_one() -> None:
    network, limit = _network(bytes_per_s=10**9 // 2), 7000
    fitting = [simulation for simulation in _every_plan(network) if simulation.fits(limit)]
    best = min(simulation.makespan_ns for simulation in fitting)
    found = _outcome(network, IN_SHARE, limit)
    outcome, alike_ns = found.outcome, _outcome(network, ALIKE, limit).outcome.makespan_ns
    assert outcome.plan is not None
    assert outcome.simulation is not None
    assert outcome.plan.moved_share is not None
    assert outcome.simulation.fits(limit)
    assert outcome.makespan_ns is not None
    assert outcome.makespan_ns <= best
    assert alike_ns is not None
    assert best < alike_ns
    assert outcome.lower_bound_ns == found.lower_bound_ns <= outcome.makespan_ns
    assert found.candidates[0].makespan_ns == outcome.makespan_ns
    assert refusal(outcome.plan, IN_SHARE, title="Megatron-LM") is None
    assert refusal(outcome.plan, ALIKE, title="Megatron-LM") is not None


def test_a_free_link_moves_all_and_the_bound_is_one_on_shares_too() -> None:
    network = _network(bytes_per_s=10**12)
    outcome = _outcome(network, IN_SHARE, 7000).outcome
    assert outcome.plan is not None
    assert outcome.plan.moved_share is None
    assert "moved" not in outcome.certificate()


def test_layers_that_do_not_know_their_modules_apart_are_bounded_alike() -> None:
    network = _network(bytes_per_s=10**9)

    def unknown(layer: Layer) -> Layer:
        return replace(layer, modes={**layer.modes, WHOLE: replace(layer.modes[WHOLE], moved_parts=())})

    runs = tuple(replace(run, layer=unknown(run.layer)) for run in network.runs)
    outcome = _outcome(replace(network, runs=runs), IN_SHARE, 7000).outcome
    assert outcome.plan is not None
    assert "with the same modules moved in all layers" in outcome.certificate()


def _every_kept(network: Network, groups: MovedGroups, sizes: FamilySizes) -> Iterator[Simulation]:
    """Yield all cuts under all shares, with bytes that further ranks keep of their first backwards, up to all."""
    layers, table = network.num_layers, sizes.schedule().stage_table
    for inner in combinations(range(1, layers), sizes.num_cells - 1):
        bounds = list(pairwise((0, *inner, layers)))
        of_cells = np.array([end - start for start, end in bounds])[table]
        for share in (*shares_between([groups.num_groups(start, end) for start, end in bounds]), 1.0):
            for kept_bytes in (*range(0, 3600, 180), 10**6):
                plan = Plan(
                    schedule=sizes.family,
                    num_microbatches=sizes.num_microbatches,
                    layers=cells(of_cells.tolist()),
                    moved_share=MovedShare(kind=WHOLE, share=share, kept_bytes=kept_bytes),
                )
                yield simulate(network, with_moved_share(plan, groups, table))


def _check_is_bounded(shares: Problem, simulation: Simulation) -> None:
    """Check that cells of the chain, with the same cut, take neither longer nor more memory by the bound's problem."""
    costs, schedule = simulation.costs, shares.schedule
    counts, kept = shares.counts(simulation.plan), costs.first_moved or ((),) * schedule.num_ranks
    link = shares.host_link
    assert link is not None
    for rank, own in enumerate(kept):
        stages = schedule.stage_table[:, rank]
        if len(own) > kept_as_if_none_left(schedule, rank, link):  # then nothing of it moves
            whole = counts[stages].sum(axis=1)
            counts[stages] = 0
            counts[stages, shares.kinds.index(NONE)] = whole
    bounded = shares.simulate(counts)
    assert bounded.makespan_ns <= simulation.makespan_ns
    pairs = zip(bounded.peak_memory_bytes, simulation.peak_memory_bytes, strict=True)
    assert all(less <= more for less, more in pairs)


@settings(max_examples=examples(8))
@given(st.data())
def test_the_bound_is_one_on_all_that_keep_first_backwards(data: st.DataObject) -> None:
    family, ranks, chunks, microbatches = data.draw(st.sampled_from([("1f1b", 3, 1, 4), ("interleaved", 2, 2, 4)]))
    sizes = FamilySizes(family=family, num_ranks=ranks, num_chunks=chunks, num_microbatches=microbatches)
    parts = st.tuples(st.sampled_from([0, 400]), st.sampled_from([0, 500]))
    num_others = data.draw(st.integers(sizes.num_cells - 1, 4))
    layers = [(400, 500), *data.draw(st.lists(parts, min_size=num_others, max_size=num_others))]
    link = HostLink(
        bytes_per_s=data.draw(st.sampled_from([10**8, 2 * 10**8, 4 * 10**8, 10**9])),
        one_engine=data.draw(st.booleans()),
        ahead=data.draw(st.integers(0, 1)),
    )
    network = network_of(layers, link)
    groups = MovedGroups.of(network, moved_chain(WHOLE))
    assert groups is not None
    every = list(_every_kept(network, groups, sizes))
    peaks = sorted({max(simulation.peak_memory_bytes) for simulation in every})
    limit = data.draw(st.sampled_from(peaks))
    fitting = [simulation.makespan_ns for simulation in every if simulation.fits(limit)]
    request = Request(network=network, sizes=sizes.sizes, memory_limit_bytes=limit, allow_empty=False)
    problem = make_problem(request, schedule=family)
    shares = bounding_shares(problem, moved_chain(WHOLE))
    for simulation in data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=20)):
        _check_is_bounded(shares, simulation)
    bounded = Race(shares).run(Clock(limit_s=20.0))
    assert bounded.lower_bound_ns <= min(fitting) * (1 + TOLERANCE)
    search = ShareSearch(problem, groups)
    counts = np.zeros((sizes.num_cells, len(problem.kinds)), dtype=np.int64)
    counts[:, 0] = 1
    counts[-1, 0] += network.num_layers - sizes.num_cells
    found = search.shortest(counts, below_ns=10**12, left=TimeLeft.of(60))
    if found is not None:
        assert bounded.lower_bound_ns <= found.makespan_ns * (1 + TOLERANCE)
        assert problem.simulate_plan(replace(problem.plan(found.counts), moved_share=found.moved)).fits(limit)
