"""Activations that another rank keeps, against every plan: what is set aside for them, and the search over them."""

from dataclasses import replace

import pytest
from hypothesis import assume, event, given, settings
from hypothesis import strategies as st

from evenflow import reproducible
from evenflow.errors import InputError
from evenflow.model import FULL, NONE, HostLink, Layer, LayerRun, Mode, Network, Plan, RankTraits
from evenflow.simulate import host_uses, simulate
from evenflow.simulate.memory import memory_curve
from evenflow.solve import Status, plan
from evenflow.solve.memory.least_memory import least_memory
from evenflow.solve.search.annealing import Annealing
from evenflow.solve.search.dealing import dealt
from evenflow.solve.smaller_peak import smaller_peak
from evenflow.solve.start import even_start
from evenflow.units import MEGABYTE
from tests.networks import MILLISECOND, plain_network
from tests.solve.cases import MOST_PLANS, NO_SHRINKING, SECONDS, TOLERANCE, simulated_as_one_by_one
from tests.solve.exhaustive import Case, every_plan
from tests.solve.test_offload import moved_network, offloads
from tests.strategies import FamilySizes
from tests.thoroughness import examples

RATES = st.sampled_from([None, 10**8, 10**10, 10**15])


@st.composite
def keepings(draw: st.DrawFn, num_ranks: int) -> tuple[int | None, ...]:
    """For each rank, the one that keeps what it moves, or None; at least one has one."""
    keepers = draw(st.lists(st.integers(0, num_ranks - 1), min_size=1, max_size=num_ranks - 1, unique=True))
    others = [rank for rank in range(num_ranks) if rank not in keepers]
    chosen = {rank: draw(st.sampled_from([*keepers, *keepers, None])) for rank in others}
    assume(any(keeper is not None for keeper in chosen.values()))
    return tuple(chosen.get(rank) for rank in range(num_ranks))


@st.composite
def kept_cases(draw: st.DrawFn, **settings_: object) -> Case:
    """Any case with an offload, of which other ranks keep some."""
    case = draw(offloads(**settings_))
    assume(case.schedule.num_ranks > 1)
    keepers = draw(keepings(case.schedule.num_ranks))
    link = replace(case.network.host_link, keepers=keepers, keeper_bytes_per_s=draw(RATES))
    return replace(case, network=replace(case.network, host_link=link))


@st.composite
def wanted_cases(draw: st.DrawFn) -> Case:
    """Orders in which moving pays: fast links, many microbatches in flight, layers that keep much of them and little
    else, recomputation that takes long, and ranks that keep for others with more memory than those have.
    """
    num_ranks, num_chunks, family = draw(
        st.sampled_from(
            [(2, 1, "f-then-b"), (3, 1, "f-then-b"), (3, 1, "zb-h1"), (4, 1, "1f1b"), (2, 2, "interleaved")]
        )
    )
    size = FamilySizes(num_ranks=num_ranks, num_chunks=num_chunks, num_microbatches=4, sequence_splits=1, family=family)
    layers = []
    for number in range(draw(st.integers(1, 2))):
        kept, forward = draw(st.integers(20, 60)) * MEGABYTE + 7, draw(st.integers(3, 9)) * MILLISECOND
        modes = {
            NONE: Mode(activation_bytes=kept, backward_ns=2 * forward),
            FULL: Mode(activation_bytes=kept // 10, backward_ns=3 * forward),
            "host": Mode(activation_bytes=0, offloaded_bytes=kept, backward_ns=2 * forward),
        }
        parameters = draw(st.integers(0, 30)) * MEGABYTE
        layers.append(Layer(name=str(number), forward_ns=forward, parameter_bytes=parameters, modes=modes))
    num_layers = size.num_cells + draw(st.integers(0, 2))
    first = draw(st.integers(1, num_layers - 1))
    counts = [num_layers] if len(layers) == 1 else [first, num_layers - first]
    link = HostLink(
        bytes_per_s=draw(st.sampled_from([10**9, 10**10, 10**13])),
        keepers=draw(keepings(num_ranks)),
        keeper_bytes_per_s=draw(RATES),
        ahead=draw(st.integers(0, 1)),
    )
    less = draw(st.integers(0, 150)) * MEGABYTE
    ranks = tuple(RankTraits(reserved_bytes=0 if keeper is None else less) for keeper in link.keepers)
    runs = tuple(LayerRun(layer=layer, count=count) for layer, count in zip(layers, counts, strict=True))
    case = Case(
        network=Network(name="wanted", runs=runs, host_link=link, ranks=ranks),
        sizes=size,
        mix_any=True,
        allow_empty=False,
    )
    assume(case.num_plans() <= MOST_PLANS)
    return case


def without_keepers(network: Network) -> Network:
    return replace(network, host_link=replace(network.host_link, keepers=(), keeper_bytes_per_s=None))


@given(data=st.data())
@settings(max_examples=examples(60), deadline=None, phases=NO_SHRINKING)
def test_plans_are_timed_and_weighed_as_one_by_one(data):
    """The problem, the simulator and the oracle agree on makespan and peaks of every plan that is tried."""
    case = data.draw(kept_cases())
    problem, counts, simulation = simulated_as_one_by_one(data, case)
    peaks = simulation.peak_memory_bytes
    for rank in range(problem.num_ranks):
        _times_ns, held = memory_curve(simulation.timeline, simulation.costs, rank)
        assert held.max() == peaks[rank]
        assert held.min() >= simulation.pool_bytes[rank]
    alone = simulate(
        without_keepers(case.network), problem.plan(counts), schedule=case.schedule, communication=case.communication
    )
    assert sum(peaks) == sum(alone.peak_memory_bytes) + sum(simulation.pool_bytes)
    link, uses = case.network.host_link, host_uses(simulation)
    assert sum(use.pool_bytes for use in uses) == sum(simulation.pool_bytes)
    is_alike = link.keeper_bytes_per_s is None
    assert not is_alike or simulation.makespan_ns == alone.makespan_ns
    for rank, (use, without) in enumerate(zip(uses, host_uses(alone), strict=True)):
        assert use.keeper == link.keepers[rank]
        if use.keeper is None:
            assert use.pool_bytes == 0
            assert not is_alike or use.held_bytes == without.held_bytes
        else:
            assert use.held_bytes == 0
            assert use.pool_bytes >= without.held_bytes  # the host may have some of it for a shorter time
    event(f"pools: {sum(simulation.pool_bytes) > 0}")


@given(data=st.data())
@settings(max_examples=examples(120), phases=NO_SHRINKING, deadline=None)
def test_the_plan_is_the_best_of_all(data):
    case = data.draw(wanted_cases() | kept_cases(time=MILLISECOND, memory=MEGABYTE + 7, any_order=False))
    plans, of_host = every_plan(case), every_plan(replace(case, network=without_keepers(case.network)))
    limits = [None, *plans.limits(), max(1, plans.least_bytes - 1)]
    if data.draw(st.booleans()):  # where what is set aside matters
        limits = [limit for limit in limits[1:-1] if of_host.best_ns(limit) < plans.best_ns(limit)] or limits
    limit = data.draw(st.sampled_from(limits))
    best = plans.best_ns(limit)
    outcome = plan(case.network, memory_limit_bytes=limit, time_limit_s=SECONDS, **case.arguments)
    if best is None:
        assert outcome.status is Status.INFEASIBLE
        assert outcome.infeasibility.smallest_limit_bytes >= plans.least_bytes
        assert not outcome.infeasibility.proven or outcome.infeasibility.smallest_limit_bytes == plans.least_bytes
        event("nothing fits")
        return
    assert outcome.status is Status.OPTIMAL
    assert best <= outcome.makespan_ns <= best * (1 + TOLERANCE)
    assert best * (1 - 2 * TOLERANCE) <= outcome.lower_bound_ns <= best
    assert limit is None or max(outcome.simulation.peak_memory_bytes) <= limit
    binds = of_host.best_ns(limit) < best
    event(f"pools: {sum(outcome.simulation.pool_bytes) > 0}, and the host would be shorter: {binds}")


@given(data=st.data(), seed=st.integers(0, 1000))
@settings(max_examples=examples(60), deadline=None, phases=NO_SHRINKING)
def test_every_part_of_the_search_knows_the_keepers(data, seed):
    case = data.draw(wanted_cases() | kept_cases())
    plans = every_plan(case)
    limit = data.draw(st.sampled_from(plans.limits()))
    problem = case.problem(limit)
    least = least_memory(problem, seconds=30)
    assert least.peak_bytes >= plans.least_bytes >= least.bound_bytes
    assert least.peak_bytes == max(problem.rank_memory(problem.costs(least.counts)))
    for counts in (even_start(problem), dealt(problem), least.counts):
        if counts is None or max(problem.rank_memory(problem.costs(counts))) > limit:
            continue
        smaller = problem.costs(smaller_peak(problem, counts))
        assert problem.makespan_ns(smaller) <= problem.makespan_ns(problem.costs(counts))
        assert max(problem.rank_memory(smaller)) <= max(problem.rank_memory(problem.costs(counts)))
        annealing = Annealing(problem=problem, counts=counts.copy(), seed=seed)
        annealing.improve(steps=300)
        found = problem.costs(annealing.best_counts)
        assert annealing.best == problem.makespan_ns(found) >= plans.best_ns(limit)
        assert max(problem.rank_memory(found)) <= limit


def kept(network: Network, *keepers: int | None, rate: int | None = None) -> Network:
    return replace(network, host_link=replace(network.host_link, keepers=keepers, keeper_bytes_per_s=rate))


ASKED = {"num_ranks": 4, "num_microbatches": 8, "time_limit_s": 30}


def planned(network: Network, limit_bytes: int) -> int:
    """The step of the best plan, proven."""
    with reproducible():
        outcome = plan(network, memory_limit_bytes=limit_bytes, **ASKED)
    assert outcome.status is Status.OPTIMAL
    assert max(outcome.simulation.peak_memory_bytes) <= limit_bytes
    return outcome.makespan_ns


def test_a_keeper_with_all_the_room_is_a_host_and_one_without_is_none():
    free = plan(plain_network(8), **ASKED)
    limit = max(free.simulation.peak_memory_bytes) - 100 * MEGABYTE
    network = moved_network(10**10)
    rooms = {0: 0, 1: 0, 2: 0, 3: 100 * limit}
    roomy = tuple(RankTraits(reserved_bytes=100 * limit - room) for room in rooms.values())
    assert planned(replace(kept(network, 3, 3, 3, None), ranks=roomy), 101 * limit) == planned(
        replace(network, ranks=roomy), 101 * limit
    )
    without = planned(plain_network(8), limit)
    alone = planned(network, limit)
    pairs = planned(kept(network, 3, 2, None, None), limit)
    assert alone * (1 - TOLERANCE) <= pairs <= without * (1 + TOLERANCE)
    assert alone < without


def test_a_keeper_whose_memory_is_full_leaves_nothing_to_move():
    """Rank 3 has no byte more than its own layers need, and the others too little: as good as without any moves."""
    network, asked = moved_network(10**12), {**ASKED, "layers": ((2, 2, 2, 2),)}
    alone = simulate(network, Plan(schedule="1f1b", num_microbatches=8, layers=asked["layers"]))
    limit = max(alone.peak_memory_bytes) - MEGABYTE
    full = (*(RankTraits(),) * 3, RankTraits(reserved_bytes=limit - alone.peak_memory_bytes[3]))
    outcomes = [
        plan(replace(one, ranks=full), memory_limit_bytes=limit, **asked)
        for one in (kept(network, 3, 3, 3, None), plain_network(8), network)
    ]
    assert all(outcome.status is Status.OPTIMAL for outcome in outcomes)
    with_keeper, without, with_host = outcomes
    assert sum(with_keeper.simulation.pool_bytes) == 0
    assert with_keeper.makespan_ns == without.makespan_ns > with_host.makespan_ns


def test_the_pool_is_what_is_away_between_a_forward_and_its_backward():
    network, every = moved_network(10**11), ((2, 2, 2, 2),)
    moved = Plan(schedule="1f1b", num_microbatches=8, layers=every, recompute={"host": ((2, 0, 0, 0),)})
    simulation = simulate(kept(network, 3, None, None, None), moved)
    activation = 2 * network.runs[0].layer.modes[NONE].activation_bytes
    assert simulation.pool_bytes == (0, 0, 0, 4 * activation)
    assert simulation.peak_memory_bytes[3] == simulate(network, moved).peak_memory_bytes[3] + 4 * activation
    use = host_uses(simulation)[0]
    assert (use.keeper, use.pool_bytes, use.held_bytes) == (3, 4 * activation, 0)


def test_the_link_to_keepers_may_have_a_rate_of_its_own():
    network, every = moved_network(10**9), ((2, 2, 2, 2),)
    moved = Plan(schedule="1f1b", num_microbatches=8, layers=every, recompute={"host": ((2, 0, 0, 0),)})
    slow = simulate(kept(network, 3, None, None, None), moved)
    fast = simulate(kept(network, 3, None, None, None, rate=10**12), moved)
    assert slow.makespan_ns == simulate(network, moved).makespan_ns > fast.makespan_ns
    assert fast.makespan_ns == simulate(moved_network(10**12), moved).makespan_ns


@pytest.mark.parametrize(
    ("keepers", "message"),
    [((0, None), "another rank"), ((2, None), "from 0 to 1"), ((1, 2, None), "keeps its own")],
)
def test_keepers_that_make_no_sense_are_refused(keepers, message):
    with pytest.raises(InputError, match=message):
        HostLink(bytes_per_s=1, keepers=keepers)


def test_keepers_of_other_ranks_than_there_are_are_refused():
    with pytest.raises(InputError, match="as many as there are ranks, 4"):
        plan(kept(moved_network(10**9), 1, None), **ASKED)
